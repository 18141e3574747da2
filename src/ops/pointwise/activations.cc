// Activation functions: torch's own formulas. What is more than an instruction is computed in f32 where the
// tensor is f16 or bf16 and rounded once, as torch does.
#include "base/half.h"
#include "ops/forms.h"
#include "ops/pointwise/formula.h"

namespace liveshape::ops {
namespace {

template <PwOp op>
Values Unary(AtenCall& c) {
  return {c.Unary(op, c.Tensor("self"))};
}

Values Gelu(AtenCall& c) {
  const bool tanh = c.StringOr("approximate", "none") == "tanh";
  return {c.Unary(tanh ? PwOp::kGeluTanh : PwOp::kGelu, c.Tensor("self"))};
}

Values Relu6(AtenCall& c) {
  Formula f(c);
  return f.Result(f.Clamp(0, 6));
}

Values HardTanh(AtenCall& c) {
  Formula f(c);
  const double low = c.NumberOr("min_val", -1), high = c.NumberOr("max_val", 1);
  return f.Result(f.Clamp(low, high));
}

Values LeakyRelu(AtenCall& c) {
  Formula f(c);
  const double slope = c.NumberOr("negative_slope", 0.01);
  // The larger of the two is the one that torch chooses, and one instruction less. Not with a slope of 0: inf * 0.
  if (slope > 0 && slope <= 1) return f.Result(f.Do(PwOp::kMax, f.Do(PwOp::kMul, f.x, slope), f.x));
  return f.Result(f.Where(f.Do(PwOp::kGt, f.x, 0.0), f.x, f.Do(PwOp::kMul, f.x, slope)));
}

// x > 0 ? x * positive : expm1(x * inner) * negative
Values Elu(const Formula& f, double positive, double inner, double negative) {
  ValueId below = f.Do(PwOp::kMul, f.Do(PwOp::kExpm1, f.Do(PwOp::kMul, f.x, inner)), negative);
  return f.Result(f.Where(f.Do(PwOp::kGt, f.x, 0.0), f.Do(PwOp::kMul, f.x, positive), below));
}

Values Elu(AtenCall& c) {
  Formula f(c);
  const double scale = c.NumberOr("scale", 1);
  return Elu(f, scale, c.NumberOr("input_scale", 1), c.NumberOr("alpha", 1) * scale);
}

Values Selu(AtenCall& c) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return Elu(Formula(c), kScale, 1, kAlpha * kScale);
}

Values Celu(AtenCall& c) {
  Formula f(c);
  const double alpha = c.NumberOr("alpha", 1);
  return Elu(f, 1, 1 / alpha, alpha);
}

double RoundedTo(DType dtype, double value) {
  const float f = static_cast<float>(value);
  if (dtype == DType::kF16) return F32FromF16(F16FromF32(f));
  if (dtype == DType::kBF16) return F32FromBF16(BF16FromF32(f));
  return value;
}

ValueId ClampShifted(const Formula& f) {  // min(max(x + 3, 0), 6)
  return f.Do(PwOp::kMin, f.Do(PwOp::kMax, f.Do(PwOp::kAdd, f.x, 3.0), 0.0), 6.0);
}

Values HardSigmoid(AtenCall& c) {
  Formula f(c);
  return f.Result(f.Do(PwOp::kDiv, ClampShifted(f), 6.0));
}

Values HardSwish(AtenCall& c) {
  Formula f(c);
  return f.Result(f.Do(PwOp::kDiv, f.Do(PwOp::kMul, f.x, ClampShifted(f)), 6.0));
}

// log1p(exp(beta x)) / beta, and x itself where that says nothing more.
ValueId SoftPlus(const Formula& f, double beta, double threshold) {
  ValueId scaled = f.Do(PwOp::kMul, f.x, beta);
  ValueId soft = f.Do(PwOp::kDiv, f.Do(PwOp::kLog1p, f.Do(PwOp::kExp, scaled)), beta);
  return f.Where(f.Do(PwOp::kGt, scaled, threshold), f.x, soft);
}

Values SoftPlus(AtenCall& c) {
  Formula f(c);
  const double beta = c.NumberOr("beta", 1), threshold = c.NumberOr("threshold", 20);
  return f.Result(SoftPlus(f, beta, threshold));
}

Values Mish(AtenCall& c) {
  Formula f(c);
  return f.Result(f.Do(PwOp::kMul, f.x, f.Do(PwOp::kTanh, SoftPlus(f, 1, 20))));
}

// min(x, 0) - log1p(exp(-|x|))
Values LogSigmoid(AtenCall& c) {
  Formula f(c);
  ValueId decay = f.Do(PwOp::kExp, f.Do(PwOp::kNeg, f.Do(PwOp::kAbs, f.x)));
  return f.Result(f.Do(PwOp::kSub, f.Do(PwOp::kMin, f.x, 0.0), f.Do(PwOp::kLog1p, decay)));
}

// What is near zero becomes zero.
Values HardShrink(AtenCall& c) {
  Formula f(c);
  const double near =
      RoundedTo(f.dtype, c.NumberOr("lambd", 0.5));  // which is compared with halves
  ValueId small = f.Do(PwOp::kLe, f.Do(PwOp::kAbs, f.x), near);
  return f.Result(f.Where(small, 0.0, f.x));
}

// And what is not comes nearer to it by as much.
Values SoftShrink(AtenCall& c) {
  Formula f(c);
  const double near = c.NumberOr("lambd", 0.5);
  ValueId below =
      f.Where(f.Do(PwOp::kLt, f.x, -near), f.Do(PwOp::kAdd, f.x, near), f.Do(PwOp::kMul, f.x, 0.0));
  return f.Result(f.Where(f.Do(PwOp::kGt, f.x, near), f.Do(PwOp::kSub, f.x, near), below));
}

Values Threshold(AtenCall& c) {
  Formula f(c);
  const double threshold = c.NumberOr("threshold", 0), value = c.NumberOr("value", 0);
  return f.Result(f.Where(f.Do(PwOp::kLe, f.x, threshold), value, f.x));
}

// A slope for each channel, which is dim 1, or one for all.
Values Prelu(AtenCall& c) {
  Formula f(c);
  ValueId slope = c.Cast(c.Tensor("weight"), c.TypeOf(f.x));
  for (int64_t dim = 2; c.ok() && dim < c.Rank(f.x); ++dim) slope = c.Unsqueeze(slope, dim - 1);
  return f.Result(f.Where(f.Do(PwOp::kGt, f.x, 0.0), f.x, f.Do(PwOp::kMul, f.x, slope)));
}

// The first half of a dim, gated by the second.
Values Glu(AtenCall& c) {
  Formula f(c);
  const int64_t dim = c.AxisOr("dim", c.Rank(f.x), -1);
  if (c.Rank(f.x) == 0) c.Fail(InvalidArgument("glu of a 0-d tensor"));
  if (!c.ok()) return {f.x};
  const Expr size = c.DimOf(f.x, dim);
  const Expr two = c.table().Int(2), half = sym::FloorDiv(size, two);
  c.Require(sym::Eq(sym::Mod(size, two), c.table().Int(0)),
            fmt::format("glu halves a dim of {}, which is odd", sym::ToString(size)));
  ValueId gate = f.Do(PwOp::kSigmoid, c.Slice(f.x, dim, half, half));
  return f.Result(f.Do(PwOp::kMul, c.Slice(f.x, dim, c.table().Int(0), half), gate));
}

const AtenForm kForms[] = {
    {"aten.sigmoid.default", Unary<PwOp::kSigmoid>},
    {"aten.silu.default", Unary<PwOp::kSilu>},
    {"aten.relu.default", Unary<PwOp::kRelu>},
    {"aten.gelu.default", Gelu},
    {"aten.relu6.default", Relu6},
    {"aten.hardtanh.default", HardTanh},
    {"aten.leaky_relu.default", LeakyRelu},
    {"aten.elu.default", Elu},
    {"aten.selu.default", Selu},
    {"aten.celu.default", Celu},
    {"aten.hardsigmoid.default", HardSigmoid},
    {"aten.hardswish.default", HardSwish},
    {"aten.softplus.default", SoftPlus},
    {"aten.mish.default", Mish},
    {"aten.log_sigmoid.default", LogSigmoid},
    {"aten.glu.default", Glu},
    {"aten.hardshrink.default", HardShrink},
    {"aten.softshrink.default", SoftShrink},
    {"aten.threshold.default", Threshold},
    {"aten.prelu.default", Prelu},
};

}  // namespace

LS_DEFINE_FORMS(Activation, kForms)

}  // namespace liveshape::ops
