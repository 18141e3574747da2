// sort, argsort and topk are one op: the first `count` of a dim in order.
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_ASSIGN_OR_RETURN(int64_t dim, NeedAxis(c, "dim", c.in(0).dims.size()));
  LS_RETURN_IF_ERROR(NeedAttr<int64_t>(c, "descending").status());
  LS_ASSIGN_OR_RETURN(Expr count, NeedExpr(c, "count"));
  Dims dims = c.in(0).dims;
  Expr& length = dims[static_cast<size_t>(dim)];
  const Expr fits = sym::And(sym::Le(c.table.Int(0), count), sym::Le(count, length));
  LS_RETURN_IF_ERROR(c.Require(fits, [&] {
    return fmt::format("takes {} of {} elements", sym::ToString(count), sym::ToString(length));
  }));
  length = count;
  return std::vector<TensorType>{{c.in(0).dtype, dims}, {DType::kI64, dims}};
}

// `count` none: all. A 0-d tensor is sorted as it is.
std::vector<ValueId> EmitSort(AtenCall& c, ValueId x, int64_t dim, bool descending, Expr count) {
  if (!c.ok()) return {x, x};
  const bool zero_dim = c.Rank(x) == 0;
  if (zero_dim) x = c.Unsqueeze(x, 0);
  if (!count) count = c.DimOf(x, dim);
  std::vector<ValueId> sorted = c.EmitAll(
      kSort, {x}, {{"dim", dim}, {"descending", int64_t{descending}}, {"count", Dims{count}}});
  if (!c.ok()) return {x, x};
  if (zero_dim)
    for (ValueId& v : sorted) v = c.Reshape(v, {});
  return sorted;
}

// An unstable sort may order equals as it likes: here as they came.
std::vector<ValueId> Sort(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), -1);
  c.Ignore({"stable"});
  return EmitSort(c, x, dim, c.BoolOr("descending", false), {});
}

std::vector<ValueId> Argsort(AtenCall& c) { return {Sort(c)[1]}; }
std::vector<ValueId> Msort(AtenCall& c) {
  return {EmitSort(c, c.Tensor("self"), 0, /*descending=*/false, {})[0]};
}

std::vector<ValueId> TopK(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const Expr k = c.Size("k");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), -1);
  c.Ignore({"sorted"});  // unsorted is any order
  const bool largest = c.BoolOr("largest", true);
  if (!c.ok()) return {x, x};
  return EmitSort(c, x, dim, largest, k);
}

const AtenForm kForms[] = {
    {"aten.sort.default", Sort},       {"aten.sort.stable", Sort},
    {"aten.argsort.default", Argsort}, {"aten.argsort.stable", Argsort},
    {"aten.msort.default", Msort},     {"aten.topk.default", TopK},
};

}  // namespace

const ir::OpDef kSort = {.name = "sort", .infer = Infer};
LS_DEFINE_FORMS(Sort, kForms)

}  // namespace liveshape::ops
