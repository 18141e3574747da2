// Pointwise functions that are more than an instruction, written as formulas over `self`: computed in f32 where the tensor
// is f16 or bf16, and rounded once, as torch does.
//
//   Values Softsign(AtenCall& c) {          // x / (1 + |x|)
//     Formula f(c);
//     return f.Result(f.Do(PwOp::kDiv, f.x, f.Do(PwOp::kAdd, f.Do(PwOp::kAbs, f.x), 1.0)));
//   }
#pragma once

#include "ops/aten.h"
#include "ops/ops.h"

namespace liveshape::ops {

using Values = std::vector<ValueId>;

struct Formula {
  AtenCall& c;
  ValueId x;
  DType dtype;

  using Operand = AtenCall::Operand;
  explicit Formula(AtenCall& call) : c(call), x(c.Tensor("self")), dtype(c.TypeOf(x)) {
    if (dtype == DType::kF16 || dtype == DType::kBF16) x = c.Cast(x, DType::kF32);
  }
  Operand To(ValueId v) const { return c.Of(v); }
  Operand To(double v) const { return c.Number(v); }
  template <typename A, typename B>
  ValueId Do(PwOp op, A a, B b) const {
    return c.Binary(op, To(a), To(b));
  }
  ValueId Do(PwOp op, ValueId a) const { return c.Unary(op, a); }
  template <typename A, typename B>
  ValueId Where(ValueId condition, A a, B b) const {
    const DType t = c.TypeOf(x);
    return c.Pointwise(PwOp::kWhere, {c.Of(condition), To(a), To(b)}, t, t);
  }
  ValueId Clamp(double low, double high) const {
    return Do(PwOp::kMin, Do(PwOp::kMax, x, low), high);
  }
  Values Result(ValueId y) const { return {c.Cast(y, dtype)}; }
};

}  // namespace liveshape::ops
