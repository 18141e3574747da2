#include "ops/forms.h"
#include "ops/norm_form.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 2));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  LS_RETURN_IF_ERROR(NeedAttr<double>(c, "eps").status());
  if (c.has(1)) LS_RETURN_IF_ERROR(NeedRow(c, 1));
  return std::vector<TensorType>{c.in(0)};
}

std::vector<ValueId> RmsNorm(AtenCall& c) {
  ValueId x = c.Tensor("input");
  NormalizedAxes axes(c, x);
  // torch's default is the machine epsilon of the dtype it computes in.
  const double eps = c.NumberOr("eps", 1.1920928955078125e-07);
  ValueId weight = axes.Flatten(c, c.OptionalTensor("weight"));
  ValueId y = c.Emit(kRmsNorm, {axes.Flatten(c, x), weight}, {{"eps", eps}});
  return {c.Reshape(y, axes.dims)};
}

const AtenForm kForms[] = {{"aten.rms_norm.default", RmsNorm}};

}  // namespace

const ir::OpDef kRmsNorm = {.name = "rms_norm", .infer = Infer};
LS_DEFINE_FORMS(RmsNorm, kForms)

}  // namespace liveshape::ops
