#include "ops/batch_norm/batch_norm.h"

#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

using Operand = AtenCall::Operand;

// Halves are computed in f32 and rounded once.
struct ByChannel {
  AtenCall& c;
  ValueId x, weight, bias;
  double eps;
  DType dtype, compute;

  explicit ByChannel(AtenCall& call)
      : c(call),
        x(c.Tensor("input")),
        weight(c.OptionalTensor("weight")),
        bias(c.OptionalTensor("bias")),
        eps(c.NumberOr("eps", 1e-5)),
        dtype(c.TypeOf(x)),
        compute(dtype == DType::kF64 ? DType::kF64 : DType::kF32) {
    c.Ignore({"momentum", "cudnn_enabled"});  // of training, and of a library
    if (c.ok() && c.Rank(x) < 2)
      c.Fail(InvalidArgument("a norm by channel of a tensor of rank {}", c.Rank(x)));
  }

  Operand Wide(ValueId v) const { return c.Of(c.Cast(v, compute)); }
  Operand Of(PwOp op, Operand a, Operand b) const { return c.Of(c.Binary(op, a, b)); }
  // 1 / sqrt(variance + eps)
  Operand Factor(Operand variance) const {
    const ValueId root = c.Unary(PwOp::kSqrt, c.Binary(PwOp::kAdd, variance, c.Number(eps)));
    return c.Of(c.Unary(PwOp::kReciprocal, root));
  }
  // [C] to [C, 1, ...]: along dim 1.
  Operand Along(Operand v) const {
    if (!c.ok()) return v;
    Dims channel(static_cast<size_t>(c.Rank(x)) - 1, c.table().Int(1));
    channel[0] = c.DimOf(x, 1);
    return c.Of(c.Reshape(v.tensor, std::move(channel)));
  }
  ValueId Result(Operand y) const { return c.Cast(y.tensor, dtype); }
};

}  // namespace

// x * scale + shift, in torch's order of operations. The factors depend on constants only, so they are folded at
// compile, and into a convolution before it where there is one.
ValueId NormByRunningStatistics(AtenCall& c) {
  const ByChannel norm(c);
  if (!c.Given("running_mean") || !c.Given("running_var"))
    c.Fail(InvalidArgument("a norm by running statistics, but none are given"));
  const Operand mean = norm.Wide(c.OptionalTensor("running_mean"));
  Operand scale = norm.Factor(norm.Wide(c.OptionalTensor("running_var")));
  if (norm.weight != ir::kNoValue) scale = norm.Of(PwOp::kMul, scale, norm.Wide(norm.weight));
  Operand shift = norm.Of(PwOp::kMul, mean, scale);
  shift = norm.bias == ir::kNoValue ? c.Of(c.Unary(PwOp::kNeg, shift.tensor))
                                    : norm.Of(PwOp::kSub, norm.Wide(norm.bias), shift);
  const Operand y = norm.Of(PwOp::kMul, norm.Wide(norm.x), norm.Along(scale));
  return norm.Result(norm.Of(PwOp::kAdd, y, norm.Along(shift)));
}

ValueId NormByBatchStatistics(AtenCall& c) {
  const ByChannel norm(c);
  if (c.Given("running_mean") || c.Given("running_var"))
    c.Fail(Unsupported("a norm that updates its running statistics: export model.eval()"));
  std::vector<int64_t> dims = {0};
  for (int64_t d = 2; d < c.Rank(norm.x); ++d) dims.push_back(d);
  const auto mean = [&](Operand v) {
    return c.Of(c.Emit(kReduce, {v.tensor},
                       {{"kind", std::string("mean")}, {"dims", dims}, {"keepdim", int64_t{1}}}));
  };
  const Operand x = norm.Wide(norm.x), centered = norm.Of(PwOp::kSub, x, mean(x));
  const Operand variance = mean(c.Of(c.Unary(PwOp::kSquare, centered.tensor)));
  Operand y = norm.Of(PwOp::kMul, centered, norm.Factor(variance));
  for (const auto& [op, row] : {std::pair(PwOp::kMul, norm.weight), {PwOp::kAdd, norm.bias}})
    if (row != ir::kNoValue) y = norm.Of(op, y, norm.Along(norm.Wide(row)));
  return norm.Result(y);
}

namespace {

// What is saved of the statistics is for training: given only if nobody reads it.
std::vector<ValueId> BatchNorm(AtenCall& c) {
  const bool training = c.BoolOr("training", false);
  return {training ? NormByBatchStatistics(c) : NormByRunningStatistics(c), ir::kNoValue,
          ir::kNoValue};
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
