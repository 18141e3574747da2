#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_RETURN_IF_ERROR(NeedAxis(c, "dim", c.in(0).dims.size()).status());
  const DType in = c.in(0).dtype;
  return std::vector<TensorType>{{IsFloat(in) ? in : DType::kI64, c.in(0).dims}};
}

std::vector<ValueId> Cumsum(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x), dim = c.Axis("dim", rank);
  const bool given = c.Given("dtype");
  const DType dtype = c.TypeOr("dtype", c.TypeOf(x));
  if (given) x = c.Cast(x, dtype);
  if (rank == 0) x = c.Unsqueeze(x, 0);
  ValueId y = c.Emit(kCumsum, {x}, {{"dim", dim}});
  if (given) y = c.Cast(y, dtype);  // sums of integers are i64
  return {rank == 0 ? c.Reshape(y, {}) : y};
}

const AtenForm kForms[] = {{"aten.cumsum.default", Cumsum}};

}  // namespace

const ir::OpDef kCumsum = {.name = "cumsum", .infer = Infer};
LS_DEFINE_FORMS(Cumsum, kForms)

}  // namespace liveshape::ops
