// Batch norm in inference: x * scale + shift by channel, in torch's order of operations. The factors depend
// on constants only, so they are folded at compile, and into a convolution before it where there is one.
#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

std::vector<ValueId> BatchNorm(AtenCall& c) {
  ValueId x = c.Tensor("input");
  ValueId mean = c.OptionalTensor("running_mean"), var = c.OptionalTensor("running_var");
  ValueId weight = c.OptionalTensor("weight"), bias = c.OptionalTensor("bias");
  const double eps = c.NumberOr("eps", 1e-5);
  c.Ignore({"momentum", "cudnn_enabled"});  // of training, and of a library
  if (c.BoolOr("training", false) || mean == ir::kNoValue || var == ir::kNoValue)
    c.Fail(Unsupported("batch norm in training mode: export model.eval()"));
  if (c.Rank(x) < 2) c.Fail(InvalidArgument("batch norm of a tensor of rank {}", c.Rank(x)));
  if (!c.ok()) return {ir::kNoValue, ir::kNoValue, ir::kNoValue};
  const DType dtype = c.TypeOf(x);
  // Halves are computed in f32 and rounded once.
  const DType compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto wide = [&](ValueId v) { return c.Of(c.Cast(v, compute)); };
  ValueId scale = c.Unary(PwOp::kReciprocal,
                          c.Unary(PwOp::kSqrt, c.Binary(PwOp::kAdd, wide(var), c.Number(eps))));
  if (weight != ir::kNoValue) scale = c.Binary(PwOp::kMul, c.Of(scale), wide(weight));
  ValueId shift = c.Binary(PwOp::kMul, wide(mean), c.Of(scale));
  shift = bias == ir::kNoValue ? c.Unary(PwOp::kNeg, shift)
                               : c.Binary(PwOp::kSub, wide(bias), c.Of(shift));
  // [C] to [C, 1, ...]: along dim 1.
  Dims channel(static_cast<size_t>(c.Rank(x)) - 1, c.table().Int(1));
  channel[0] = c.DimsOf(x)[1];
  ValueId y = c.Binary(PwOp::kMul, wide(x), c.Of(c.Reshape(scale, channel)));
  y = c.Binary(PwOp::kAdd, c.Of(y), c.Of(c.Reshape(shift, channel)));
  return {c.Cast(y, dtype), ir::kNoValue, ir::kNoValue};  // the statistics are for training
}

const AtenForm kForms[] = {
    {"aten.batch_norm.default", BatchNorm},
    {"aten.native_batch_norm.default", BatchNorm},
    {"aten._native_batch_norm_legit.default", BatchNorm},
    {"aten._native_batch_norm_legit_no_training.default", BatchNorm},
};

}  // namespace

LS_DEFINE_FORMS(BatchNorm, kForms)

}  // namespace liveshape::ops
