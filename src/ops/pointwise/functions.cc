// Functions made of a few instructions: inverse hyperbolic ones, and those that look at signs, zeros and NaN.
#include <limits>
#include <numbers>

#include "ops/forms.h"
#include "ops/pointwise/formula.h"

namespace liveshape::ops {
namespace {

using Operand = AtenCall::Operand;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
// From here on the square of x, and x itself but for a factor of 2, say nothing more: log(2 x).
constexpr double kLargeArgument = 1e10;

// Of integers too, which become f32.
Formula OfFloats(AtenCall& c) {
  Formula f(c);
  if (c.ok() && !IsFloat(f.dtype)) f.x = c.Cast(f.x, f.dtype = DType::kF32);
  return f;
}

ValueId LogOfTwice(const Formula& f, ValueId x) {
  return f.Do(PwOp::kAdd, f.Do(PwOp::kLog, x), std::numbers::ln2);
}

// An odd function, from its values at |x|; zeros keep their sign.
Values Odd(const Formula& f, ValueId y) {
  const ValueId turned = f.Where(f.Do(PwOp::kLt, f.x, 0.0), f.Do(PwOp::kNeg, y), y);
  return f.Result(f.Where(f.Do(PwOp::kEq, f.x, 0.0), f.x, turned));
}

// log(|x| + sqrt(x^2 + 1)), which near 0 is log1p(|x| + x^2 / (1 + sqrt(x^2 + 1)))
Values Asinh(AtenCall& c) {
  const Formula f = OfFloats(c);
  const ValueId x = f.Do(PwOp::kAbs, f.x), square = f.Do(PwOp::kSquare, x);
  const ValueId root = f.Do(PwOp::kSqrt, f.Do(PwOp::kAdd, square, 1.0));
  const ValueId beyond = f.Do(PwOp::kDiv, square, f.Do(PwOp::kAdd, root, 1.0));
  const ValueId y = f.Do(PwOp::kLog1p, f.Do(PwOp::kAdd, x, beyond));
  return Odd(f, f.Where(f.Do(PwOp::kGt, x, kLargeArgument), LogOfTwice(f, x), y));
}

// With t = x - 1: log1p(t + sqrt(t (x + 1)))
Values Acosh(AtenCall& c) {
  const Formula f = OfFloats(c);
  const ValueId t = f.Do(PwOp::kSub, f.x, 1.0);
  const ValueId root = f.Do(PwOp::kSqrt, f.Do(PwOp::kMul, t, f.Do(PwOp::kAdd, f.x, 1.0)));
  const ValueId y = f.Do(PwOp::kLog1p, f.Do(PwOp::kAdd, t, root));
  const ValueId all = f.Where(f.Do(PwOp::kGt, f.x, kLargeArgument), LogOfTwice(f, f.x), y);
  return f.Result(f.Where(f.Do(PwOp::kLt, f.x, 1.0), kNan, all));
}

// log1p(2 |x| / (1 - |x|)) / 2
Values Atanh(AtenCall& c) {
  const Formula f = OfFloats(c);
  const ValueId x = f.Do(PwOp::kAbs, f.x);
  const ValueId ratio = f.Do(PwOp::kDiv, f.Do(PwOp::kAdd, x, x), f.Do(PwOp::kSub, 1.0, x));
  return Odd(f, f.Do(PwOp::kMul, f.Do(PwOp::kLog1p, ratio), 0.5));
}

// t exp(P(t) - x^2) for t = 1 / (1 + |x| / 2), 2 less that below 0: a Chebyshev fit of 1.2e-7 that keeps the digits of
// the tail, where 1 - erf(x) has none (W. Press and others, Numerical Recipes, 6.2).
Values Erfc(AtenCall& c) {
  const Formula f = OfFloats(c);
  if (f.dtype == DType::kF64) return f.Result(f.Do(PwOp::kSub, 1.0, f.Do(PwOp::kErf, f.x)));
  const ValueId x = f.Do(PwOp::kAbs, f.x);
  const ValueId t = f.Do(PwOp::kReciprocal, f.Do(PwOp::kAdd, f.Do(PwOp::kMul, x, 0.5), 1.0));
  ValueId p = f.Do(PwOp::kMul, t, 0.17087277);
  for (const double k : {-0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
                         0.37409196, 1.00002368})
    p = f.Do(PwOp::kMul, f.Do(PwOp::kAdd, p, k), t);
  p = f.Do(PwOp::kSub, f.Do(PwOp::kAdd, p, -1.26551223), f.Do(PwOp::kSquare, x));
  const ValueId tail = f.Do(PwOp::kMul, f.Do(PwOp::kExp, p), t);
  return f.Result(f.Where(f.Do(PwOp::kLt, f.x, 0.0), f.Do(PwOp::kSub, 2.0, tail), tail));
}

// log(x / (1 - x)), of x not nearer to 0 and 1 than eps. torch rounds halves at each step here.
Values Logit(AtenCall& c) {
  ValueId x = c.Tensor("self");
  if (c.ok() && !IsFloat(c.TypeOf(x))) x = c.Cast(x, DType::kF32);
  const auto with = [&](PwOp op, double number) { return c.Binary(op, c.Of(x), c.Number(number)); };
  const double eps = c.NumberOr("eps", 0);
  if (c.Given("eps")) x = with(PwOp::kMax, eps), x = with(PwOp::kMin, 1 - eps);
  const ValueId rest = c.Binary(PwOp::kSub, c.Number(1.0), c.Of(x));
  return {c.Unary(PwOp::kLog, c.Binary(PwOp::kDiv, c.Of(x), c.Of(rest)))};
}

template <double factor>
Values Times(AtenCall& c) {
  const Formula f = OfFloats(c);
  return f.Result(f.Do(PwOp::kMul, f.x, factor));
}

// Two operands, in floats, or in what both promote to.
struct Pair {
  AtenCall& c;
  Operand a, b;
  DType given, dtype;

  Pair(AtenCall& call, const char* first, const char* second, bool floats)
      : c(call), a(c.Arg(first)), b(c.Arg(second)), given(c.Promote({a, b})) {
    if (floats && !IsFloat(given)) given = DType::kF32;
    dtype = given == DType::kF16 || given == DType::kBF16 ? DType::kF32 : given;
  }
  Operand Do(PwOp op, Operand x, Operand y) const {
    return c.Of(c.Pointwise(op, {x, y}, dtype, dtype));
  }
  Operand Do(PwOp op, Operand x) const { return c.Of(c.Pointwise(op, {x}, dtype, dtype)); }
  Operand Is(PwOp op, Operand x, Operand y) const {
    return c.Of(c.Pointwise(op, {x, y}, dtype, DType::kBool));
  }
  Operand IsNan(Operand x) const {
    return c.Of(c.Pointwise(PwOp::kIsNan, {x}, dtype, DType::kBool));
  }
  Operand Where(Operand condition, Operand x, Operand y) const {
    return c.Of(c.Pointwise(PwOp::kWhere, {condition, x, y}, dtype, dtype));
  }
  Operand Number(double value) const { return c.Number(value); }
  Values Result(Operand y) const { return {c.Cast(y.tensor, given)}; }
};

// Of -0.0 too, whose reciprocal is below 0. NaN counts as positive, whatever its sign bit is.
ValueId IsNegative(AtenCall& c, Operand x, DType dtype) {
  const Operand zero = c.Number(c.table().Int(0));
  if (IsFloat(dtype)) {
    const Operand is_zero = c.Of(c.Pointwise(PwOp::kEq, {x, zero}, dtype, DType::kBool));
    const Operand reciprocal = c.Of(c.Pointwise(PwOp::kReciprocal, {x}, dtype, dtype));
    x = c.Of(c.Pointwise(PwOp::kWhere, {is_zero, reciprocal, x}, dtype, dtype));
  }
  return c.Pointwise(PwOp::kLt, {x, zero}, dtype, DType::kBool);
}

Values SignBit(AtenCall& c) {
  const ValueId x = c.Tensor("self");
  return {IsNegative(c, c.Of(x), c.TypeOf(x))};
}

Values CopySign(AtenCall& c) {
  const Pair p(c, "self", "other", true);
  const Operand size = p.Do(PwOp::kAbs, p.a);
  const Operand negative = c.Of(IsNegative(c, p.b, p.dtype));
  return p.Result(p.Where(negative, p.Do(PwOp::kNeg, size), size));
}

// sqrt(a^2 + b^2), by the ratio of the smaller to the larger: squares would leave the range of floats.
Values Hypot(AtenCall& c) {
  const Pair p(c, "self", "other", true);
  const Operand a = p.Do(PwOp::kAbs, p.a), b = p.Do(PwOp::kAbs, p.b);
  const Operand larger = p.Do(PwOp::kMax, a, b), smaller = p.Do(PwOp::kMin, a, b);
  const Operand ratio = p.Do(PwOp::kDiv, smaller, larger);
  const Operand root =
      p.Do(PwOp::kSqrt, p.Do(PwOp::kAdd, p.Do(PwOp::kMul, ratio, ratio), p.Number(1)));
  const Operand size =
      p.Where(p.Is(PwOp::kEq, larger, p.Number(0)), larger, p.Do(PwOp::kMul, larger, root));
  const Operand infinity = p.Number(kInfinity);  // whatever the other is, NaN too
  const Operand y = p.Where(p.Is(PwOp::kEq, a, infinity), infinity, size);
  return p.Result(p.Where(p.Is(PwOp::kEq, b, infinity), infinity, y));
}

// The larger or smaller of two, the number if the other is NaN.
template <PwOp op>
Values OfNumbers(AtenCall& c) {
  const Pair p(c, "self", "other", false);
  const Operand y = p.Do(op, p.a, p.b);
  if (!IsFloat(p.given)) return p.Result(y);
  return p.Result(p.Where(p.IsNan(p.a), p.b, p.Where(p.IsNan(p.b), p.a, y)));
}

// x log(y), 0 where x is.
Values XLogY(AtenCall& c) {
  const Pair p(c, "self", "other", true);
  const Operand product = p.Do(PwOp::kMul, p.a, p.Do(PwOp::kLog, p.b));
  const Operand y = p.Where(p.Is(PwOp::kEq, p.a, p.Number(0)), p.Number(0), product);
  return p.Result(p.Where(p.IsNan(p.b), p.Number(kNan), y));
}

// 0 below 0, 1 above, the other operand there.
Values Heaviside(AtenCall& c) {
  const Pair p(c, "self", "values", false);
  const Operand zero = c.Number(c.table().Int(0));
  const Operand above = c.Of(c.Cast(p.Is(PwOp::kGt, p.a, zero).tensor, p.dtype));
  return p.Result(p.Where(p.Is(PwOp::kEq, p.a, zero), p.b, above));
}

const AtenForm kForms[] = {
    {"aten.asinh.default", Asinh},
    {"aten.acosh.default", Acosh},
    {"aten.atanh.default", Atanh},
    {"aten.erfc.default", Erfc},
    {"aten.logit.default", Logit},
    {"aten.deg2rad.default", Times<std::numbers::pi / 180>},
    {"aten.rad2deg.default", Times<180 / std::numbers::pi>},
    {"aten.signbit.default", SignBit},
    {"aten.copysign.Tensor", CopySign},
    {"aten.copysign.Scalar", CopySign},
    {"aten.hypot.default", Hypot},
    {"aten.fmax.default", OfNumbers<PwOp::kMax>},
    {"aten.fmin.default", OfNumbers<PwOp::kMin>},
    {"aten.xlogy.Tensor", XLogY},
    {"aten.xlogy.Scalar_Self", XLogY},
    {"aten.xlogy.Scalar_Other", XLogY},
    {"aten.heaviside.default", Heaviside},
};

}  // namespace

LS_DEFINE_FORMS(Function, kForms)

}  // namespace liveshape::ops
