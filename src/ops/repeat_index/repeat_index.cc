// Each index as often as it says: [2, 0, 3] gives [0, 0, 2, 2, 2]. repeat_interleave is an index by it.
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  const TensorType& repeats = c.in(0);
  if (repeats.dims.size() != 1 || (repeats.dtype != DType::kI64 && repeats.dtype != DType::kI32))
    return InvalidArgument("repeats must be i64 or i32 of rank 1, is {}", ir::ToString(repeats));
  LS_ASSIGN_OR_RETURN(Expr count, NeedExpr(c, "count"));
  return std::vector<TensorType>{{DType::kI64, {count}}};
}

// `exported`: the size that the exporter gave the result; output_size, if given, is the caller's word.
ValueId RepeatIndex(AtenCall& c, ValueId repeats, Expr exported) {
  if (!c.ok()) return repeats;
  Expr size = c.SizeOr("output_size", Expr());
  if (!size) {
    const ValueId total = c.Emit(
        kReduce, {repeats},
        {{"kind", std::string("sum")}, {"dims", std::vector<int64_t>{0}}, {"keepdim", int64_t{0}}});
    size = c.SizeFrom(total, exported, Expr());
  }
  return c.ok() ? c.Emit(kRepeatIndex, {repeats}, {{"count", std::vector<Expr>{size}}}) : repeats;
}

std::vector<ValueId> OfRepeats(AtenCall& c) {
  const Dims* dims = c.ExportedDims(0);
  const ValueId repeats = c.Tensor("repeats");
  const ValueId index = RepeatIndex(c, repeats, dims && dims->size() == 1 ? (*dims)[0] : Expr());
  return {c.ok() ? c.Cast(index, c.TypeOf(repeats)) : index};
}

std::vector<ValueId> OfSelf(AtenCall& c) {
  ValueId x = c.Tensor("self"), repeats = c.Tensor("repeats");
  if (!c.Given("dim")) x = c.Reshape(x, {sym::Product(c.table(), c.DimsOf(x))});
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  if (!c.ok()) return {x};
  const Dims* dims = c.ExportedDims(0);
  // One number serves every element.
  if (c.Rank(repeats) == 0) repeats = c.Unsqueeze(repeats, 0);
  repeats = c.Expand(repeats, {c.DimOf(x, dim)});
  const ValueId index = RepeatIndex(c, repeats,
                                    dims && dim < static_cast<int64_t>(dims->size())
                                        ? (*dims)[static_cast<size_t>(dim)]
                                        : Expr());
  return {c.ok() ? c.Emit(kIndex, {x, index}, {{"axes", std::vector<int64_t>{dim}}}) : x};
}

const AtenForm kForms[] = {
    {"aten.repeat_interleave.Tensor", OfRepeats},
    {"aten.repeat_interleave.self_Tensor", OfSelf},
};

}  // namespace

const ir::OpDef kRepeatIndex = {.name = "repeat_index", .infer = Infer};
LS_DEFINE_FORMS(RepeatIndex, kForms)

}  // namespace liveshape::ops
