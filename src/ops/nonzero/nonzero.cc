// Where a tensor is not zero: as positions (nonzero), or as the elements there (masked_select). The size
// of the result is counted first; see AtenCall::SizeFrom.
#include "ops/nonzero/nonzero.h"

#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {

ValueId Positions(AtenCall& c, ValueId x, Expr exported) {
  if (!c.ok()) return x;
  std::vector<int64_t> all(c.DimsOf(x).size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  ValueId count = c.Cast(x, DType::kBool);
  if (!all.empty())
    count = c.Emit(kReduce, {count},
                   {{"kind", std::string("sum")}, {"dims", all}, {"keepdim", int64_t{0}}});
  const Expr size = c.SizeFrom(count, exported, sym::Product(c.table(), c.DimsOf(x)));
  return c.ok() ? c.Emit(kNonzero, {x}, {{"count", std::vector<Expr>{size}}}) : x;
}

std::vector<ValueId> PositionsByDim(AtenCall& c, ValueId x, Expr exported) {
  const int64_t rank = c.Rank(x);
  const ValueId positions = Positions(c, x, exported);
  std::vector<ValueId> columns;
  for (int64_t d = 0; c.ok() && d < rank; ++d)
    columns.push_back(c.Reshape(c.Slice(positions, 1, c.table().Int(d), c.table().Int(1)),
                                {c.DimOf(positions, 0)}));
  return columns;
}

namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(Expr count, NeedExpr(c, "count"));
  const auto rank = static_cast<int64_t>(c.in(0).dims.size());
  return std::vector<TensorType>{{DType::kI64, {count, c.table.Int(rank)}}};
}

// The size that the exporter gave output `i` in its dim `d`.
Expr Exported(AtenCall& c, size_t i, size_t d) {
  const Dims* dims = c.ExportedDims(i);
  return dims && d < dims->size() ? (*dims)[d] : Expr();
}

std::vector<ValueId> Nonzero(AtenCall& c) {
  return {Positions(c, c.Tensor("self"), Exported(c, 0, 0))};
}

// One tensor for each dim of x; a number counts as one of a vector.
std::vector<ValueId> NonzeroByDim(AtenCall& c) {
  ValueId x = c.Tensor(c.Given("self") ? "self" : "condition");
  if (c.ok() && c.Rank(x) == 0) x = c.Unsqueeze(x, 0);
  return PositionsByDim(c, x, Exported(c, 0, 0));
}

std::vector<ValueId> MaskedSelect(AtenCall& c) {
  ValueId x = c.Tensor("self"), mask = c.Tensor("mask");
  if (!c.ok()) return {x};
  const Dims dims = c.Broadcast(c.DimsOf(x), c.DimsOf(mask));
  x = c.Expand(x, dims), mask = c.Expand(mask, dims);
  if (!c.ok()) return {x};
  if (dims.empty()) {  // one element, taken or not
    x = c.Unsqueeze(x, 0);
    mask = c.Unsqueeze(mask, 0);
  }
  std::vector<ValueId> inputs = {x};
  std::vector<int64_t> axes;
  for (ValueId column : PositionsByDim(c, mask, Exported(c, 0, 0))) {
    axes.push_back(static_cast<int64_t>(axes.size()));
    inputs.push_back(column);
  }
  return {c.ok() ? c.Emit(kIndex, std::move(inputs), {{"axes", std::move(axes)}}) : x};
}

const AtenForm kForms[] = {
    {"aten.argwhere.default", Nonzero},   {"aten.masked_select.default", MaskedSelect},
    {"aten.nonzero.default", Nonzero},    {"aten.nonzero_numpy.default", NonzeroByDim},
    {"aten.where.default", NonzeroByDim},
};

}  // namespace

const ir::OpDef kNonzero = {.name = "nonzero", .infer = Infer};
LS_DEFINE_FORMS(Nonzero, kForms)

}  // namespace liveshape::ops
