#include "ops/forms.h"
#include "ops/norm_form.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 3));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  LS_RETURN_IF_ERROR(NeedAttr<double>(c, "eps").status());
  for (size_t i : {1, 2})
    if (c.has(i)) LS_RETURN_IF_ERROR(NeedRow(c, i));
  return std::vector<TensorType>{c.in(0)};
}

ValueId Normalise(AtenCall& c) {
  ValueId x = c.Tensor("input");
  NormalizedAxes axes(c, x);
  const double eps = c.NumberOr("eps", 1e-5);
  c.Ignore({"cudnn_enable"});
  ValueId weight = axes.Flatten(c, c.OptionalTensor("weight"));
  ValueId bias = axes.Flatten(c, c.OptionalTensor("bias"));
  return c.Reshape(c.Emit(kLayerNorm, {axes.Flatten(c, x), weight, bias}, {{"eps", eps}}),
                   axes.dims);
}

std::vector<ValueId> LayerNorm(AtenCall& c) { return {Normalise(c)}; }

// Mean and reciprocal deviation are for the backward pass: given only if nobody reads them.
std::vector<ValueId> NativeLayerNorm(AtenCall& c) {
  return {Normalise(c), ir::kNoValue, ir::kNoValue};
}

const AtenForm kForms[] = {
    {"aten.layer_norm.default", LayerNorm},
    {"aten.native_layer_norm.default", NativeLayerNorm},
};

}  // namespace

const ir::OpDef kLayerNorm = {.name = "layer_norm", .infer = Infer};
LS_DEFINE_FORMS(LayerNorm, kForms)

}  // namespace liveshape::ops
