// ATen's pointwise targets, one line each, and the few that need more than an instruction.
#include "ops/aten.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

using Values = std::vector<ValueId>;
using Operand = AtenCall::Operand;

template <PwOp op>
Values Unary(AtenCall& c) {
  return {c.Unary(op, c.Tensor("self"))};
}

template <PwOp op>
Values Binary(AtenCall& c) {
  Operand a = c.Arg("self"), b = c.Arg("other");
  return {c.Binary(op, a, b)};
}

template <PwOp op>
Values FloatBinary(AtenCall& c) {
  Operand a = c.Arg("self"), b = c.Arg("other");
  const DType promoted = c.Promote({a, b}), t = IsFloat(promoted) ? promoted : DType::kF32;
  return {c.Pointwise(op, {a, b}, t, t)};
}

// add, sub, rsub: alpha scales what is added or subtracted, which of rsub is the first operand.
template <PwOp op, bool reversed>
Values Scaled(AtenCall& c) {
  Operand a = c.Arg("self"), b = c.Arg("other");
  if (c.Given("alpha")) {
    Operand alpha = c.Arg("alpha");
    if (!(alpha.integer ? alpha.integer.is_int(1) : alpha.number == 1)) {
      const DType t = c.Promote({a, b});  // alpha has no say
      Operand& scaled = reversed ? a : b;
      scaled = c.Of(c.Pointwise(PwOp::kMul, {scaled, alpha}, t, t));
    }
  }
  c.Ignore({"alpha"});
  return {reversed ? c.Binary(op, b, a) : c.Binary(op, a, b)};
}

Values Div(AtenCall& c) {
  Operand a = c.Arg("self"), b = c.Arg("other");
  const std::string mode = c.StringOr("rounding_mode", "");
  DType t = c.Promote({a, b});
  if (mode == "floor") return {c.Pointwise(PwOp::kFloorDiv, {a, b}, t, t)};
  if (mode == "trunc") return {c.Pointwise(PwOp::kTruncDiv, {a, b}, t, t)};
  if (!IsFloat(t)) t = DType::kF32;
  return {c.Pointwise(PwOp::kDiv, {a, b}, t, t)};
}

Values Squared(AtenCall& c, ValueId x) {  // of bool an integer, as `x ** 2` is
  return {c.Unary(PwOp::kSquare, c.TypeOf(x) == DType::kBool ? c.Cast(x, DType::kI64) : x)};
}

Values Square(AtenCall& c) { return Squared(c, c.Tensor("self")); }

Values Pow(AtenCall& c) {
  Operand a = c.Arg("self"), b = c.Arg("exponent");
  if (!a.is_number() && b.is_number() && (b.integer ? b.integer.is_int(2) : b.number == 2) &&
      (IsFloat(a.dtype) || b.integer))
    return Squared(c, a.tensor);
  return {c.Binary(PwOp::kPow, a, b)};
}

template <PwOp op>
Values Logical(AtenCall& c) {
  Operand a = c.Arg("self"), b = c.Arg("other");
  return {c.Pointwise(op, {a, b}, DType::kBool, DType::kBool)};
}

Values LogicalNot(AtenCall& c) {
  return {c.Pointwise(PwOp::kNot, {c.Of(c.Tensor("self"))}, DType::kBool, DType::kBool)};
}

template <int sign>
Values IsInfinityOf(AtenCall& c) {  // isposinf, isneginf
  ValueId x = c.Tensor("self");
  if (!IsFloat(c.TypeOf(x))) return {c.Full(c.DimsOf(x), DType::kBool, 0)};
  return {c.Binary(PwOp::kEq, c.Of(x), c.Number(sign * std::numeric_limits<double>::infinity()))};
}

Values Positive(AtenCall& c) { return {c.Tensor("self")}; }

Values IsFinite(AtenCall& c) {  // false for NaN too
  ValueId x = c.Tensor("self");
  if (!IsFloat(c.TypeOf(x))) return {c.Full(c.DimsOf(x), DType::kBool, 1)};
  ValueId size = c.Unary(PwOp::kAbs, x);
  return {c.Binary(PwOp::kLt, c.Of(size), c.Number(std::numeric_limits<double>::infinity()))};
}

// self + value * a * b, self + value * a / b
template <PwOp op>
Values AddProduct(AtenCall& c) {
  Operand x = c.Arg("self"), a = c.Arg("tensor1"), b = c.Arg("tensor2");
  Operand value = c.Given("value") ? c.Arg("value") : c.Number(c.table().Int(1));
  c.Ignore({"value"});
  const bool one = value.integer ? value.integer.is_int(1) : value.number == 1;
  const DType t = c.Promote({x, a, b});  // of all three: bytes beside floats do not wrap
  if (!one) a = c.Of(c.Pointwise(PwOp::kMul, {a, value}, t, t));
  return {c.Binary(PwOp::kAdd, x, c.Of(c.Pointwise(op, {a, b}, t, t)))};
}

template <PwOp op>
Values Test(AtenCall& c) {  // isnan, isinf
  ValueId x = c.Tensor("self");
  const DType t = IsFloat(c.TypeOf(x)) ? c.TypeOf(x) : DType::kF32;
  return {c.Pointwise(op, {c.Of(x)}, t, DType::kBool)};
}

Values Where(AtenCall& c) {
  Operand condition = c.Arg("condition"), a = c.Arg("self"), b = c.Arg("other");
  const DType t = c.Promote({a, b});
  return {c.Pointwise(PwOp::kWhere, {condition, a, b}, t, t)};
}

Values MaskedFill(AtenCall& c) {
  ValueId x = c.Tensor("self"), mask = c.Tensor("mask");
  const DType t = c.TypeOf(x);
  return {c.Pointwise(PwOp::kWhere, {c.Of(mask), c.Arg("value"), c.Of(x)}, t, t)};
}

Values Clamp(AtenCall& c) {
  Operand x = c.Of(c.Tensor("self"));
  if (c.Given("min")) x = c.Of(c.Binary(PwOp::kMax, x, c.Arg("min")));
  if (c.Given("max")) x = c.Of(c.Binary(PwOp::kMin, x, c.Arg("max")));
  c.Ignore({"min", "max"});
  return {x.tensor};
}

// to.dtype, _to_copy, to.dtype_layout, type_as ...: only the dtype matters to values.
Values To(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const DType t = c.TypeOr("dtype", c.TypeOf(x));
  c.Ignore({"device", "layout", "pin_memory", "non_blocking", "copy", "memory_format"});
  return {c.Cast(x, t)};
}

Values TypeAs(AtenCall& c) {
  ValueId x = c.Tensor("self");
  return {c.Cast(x, c.TypeOf(c.Tensor("other")))};
}

void IgnorePlacement(AtenCall& c) {
  c.Ignore({"layout", "device", "pin_memory", "memory_format", "names"});
}

Values Full(AtenCall& c) {
  Dims sizes = c.Sizes("size");
  Operand value = c.Arg("fill_value");
  IgnorePlacement(c);
  return {c.Filled(sizes, c.TypeOr("dtype", value.dtype), value)};
}

Values FullLike(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Operand value = c.Arg("fill_value");
  IgnorePlacement(c);
  return {c.Filled(c.DimsOf(x), c.TypeOr("dtype", c.TypeOf(x)), value)};
}

template <int value>
Values Constant(AtenCall& c) {  // zeros, ones, empty
  Dims sizes = c.Sizes("size");
  IgnorePlacement(c);
  return {c.Full(sizes, c.TypeOr("dtype", DType::kF32), value)};
}

template <int value>
Values ConstantLike(AtenCall& c) {
  ValueId x = c.Tensor("self");
  IgnorePlacement(c);
  return {c.Full(c.DimsOf(x), c.TypeOr("dtype", c.TypeOf(x)), value)};
}

template <int value>
Values NewConstant(AtenCall& c) {  // new_zeros, new_ones
  ValueId x = c.Tensor("self");
  Dims sizes = c.Sizes("size");
  IgnorePlacement(c);
  return {c.Full(sizes, c.TypeOr("dtype", c.TypeOf(x)), value)};
}

Values NewFull(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Dims sizes = c.Sizes("size");
  Operand value = c.Arg("fill_value");
  IgnorePlacement(c);
  return {c.Filled(sizes, c.TypeOr("dtype", c.TypeOf(x)), value)};
}

Values Fill(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Operand value = c.Arg("value");
  return {c.Filled(c.DimsOf(x), c.TypeOf(x), value)};
}

Values ScalarTensor(AtenCall& c) {
  Operand value = c.Arg("s");
  IgnorePlacement(c);
  return {c.Filled({}, c.TypeOr("dtype", DType::kF32), value)};
}

// start + step * i. Integers stay exact; floats are computed in double as torch does on the CPU.
Values Arange(AtenCall& c) {
  sym::Table& t = c.table();
  Operand start = c.Given("start") ? c.Arg("start") : c.Number(t.Int(0));
  Operand step = c.Given("step") ? c.Arg("step") : c.Number(t.Int(1));
  Operand end = c.Arg("end");
  IgnorePlacement(c);
  if (!c.ok()) return {ir::kNoValue};
  const bool integers = start.integer && step.integer && end.integer;
  const DType dtype = c.TypeOr("dtype", integers ? DType::kI64 : DType::kF32);
  Expr length;
  if (integers) {
    length = sym::Max(t.Int(0), step.integer.is_int(1)
                                    ? end.integer - start.integer
                                    : sym::CeilDiv(end.integer - start.integer, step.integer));
  } else {
    auto number = [&](const Operand& o) { return o.integer ? o.integer : t.Float(o.number); };
    const Expr range[] = {number(end) - number(start), number(step)};
    const Expr steps = t.Make(sym::Kind::kFloatDiv, range);
    length = sym::Max(t.Int(0), t.Make(sym::Kind::kCeilToInt, {{steps}}));
  }
  const DType compute = integers ? DType::kI64 : DType::kF64;
  ir::PointwiseProgram p;
  auto push = [&](ir::PwInstr instr) {
    p.code.push_back(instr);
    return static_cast<uint32_t>(p.code.size() - 1);
  };
  auto number = [&](const Operand& o) {
    if (o.integer && !o.integer.is_int()) {
      p.scalars.push_back(o.integer);
      return push({.op = PwOp::kScalar,
                   .dtype = compute,
                   .imm = static_cast<int64_t>(p.scalars.size()) - 1});
    }
    const double value = o.integer ? static_cast<double>(o.integer.value()) : o.number;
    return push({.op = PwOp::kConst,
                 .dtype = compute,
                 .imm = integers ? o.integer.value() : std::bit_cast<int64_t>(value)});
  };
  uint32_t x = push({.op = PwOp::kIota, .dtype = DType::kI64, .imm = 0});
  if (!integers) x = push({.op = PwOp::kCast, .dtype = compute, .a = x});
  if (!step.integer || !step.integer.is_int(1)) {
    const uint32_t s = number(step);
    x = push({.op = PwOp::kMul, .dtype = compute, .a = x, .b = s});
  }
  if (!start.integer || !start.integer.is_int(0)) {
    const uint32_t s = number(start);
    x = push({.op = PwOp::kAdd, .dtype = compute, .a = x, .b = s});
  }
  if (compute != dtype) push({.op = PwOp::kCast, .dtype = dtype, .a = x});
  return {c.Emit(kPointwise, {}, {{"program", std::move(p)}, {"dims", Dims{length}}})};
}

// tril keeps col <= row + diagonal, triu col >= row + diagonal; the rest is zero by predicate.
template <bool lower>
Values Triangle(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Expr diagonal = c.SizeOr("diagonal", c.table().Int(0));
  constexpr int64_t kFar = int64_t{1} << 48;  // beyond any tensor, and `row + diagonal` is an int64
  if (diagonal.is_int()) diagonal = c.table().Int(std::clamp(diagonal.value(), -kFar, kFar));
  const int64_t rank = c.Rank(x);
  if (rank < 2) c.Fail(InvalidArgument("needs a matrix, has rank {}", rank));
  if (!c.ok()) return {x};
  const DType t = c.TypeOf(x);
  ir::PointwiseProgram p;
  p.scalars = {diagonal};
  p.code = {
      {.op = PwOp::kLoad, .dtype = t, .imm = 0},
      {.op = PwOp::kIota, .dtype = DType::kI64, .imm = rank - 2},
      {.op = PwOp::kScalar, .dtype = DType::kI64, .imm = 0},
      {.op = PwOp::kAdd, .dtype = DType::kI64, .a = 1, .b = 2},
      {.op = PwOp::kIota, .dtype = DType::kI64, .imm = rank - 1},
      {.op = lower ? PwOp::kLe : PwOp::kGe, .dtype = DType::kBool, .a = 4, .b = 3},
      {.op = PwOp::kConst, .dtype = t, .imm = 0},
      {.op = PwOp::kWhere, .dtype = t, .a = 5, .b = 0, .c = 6},
  };
  Dims dims = c.DimsOf(x);
  return {c.Emit(kPointwise, {x}, {{"program", std::move(p)}, {"dims", std::move(dims)}})};
}

// 1 where i == j.
Values Eye(AtenCall& c) {
  Dims dims = {c.Size("n")};
  dims.push_back(c.SizeOr("m", dims[0]));
  IgnorePlacement(c);
  const DType t = c.TypeOr("dtype", DType::kF32);
  ir::PointwiseProgram p;
  p.code = {{.op = PwOp::kIota, .dtype = DType::kI64, .imm = 0},
            {.op = PwOp::kIota, .dtype = DType::kI64, .imm = 1},
            {.op = PwOp::kEq, .dtype = DType::kBool, .a = 0, .b = 1},
            {.op = PwOp::kCast, .dtype = t, .a = 2}};
  return {c.Emit(kPointwise, {}, {{"program", std::move(p)}, {"dims", std::move(dims)}})};
}

// x[1:] - x[:-1] along dim, n times; on bool it is `!=`.
Values Diff(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t n = c.IntOr("n", 1), dim = c.AxisOr("dim", c.Rank(x), -1);
  if (c.Rank(x) == 0) c.Fail(InvalidArgument("diff of a 0-d tensor"));
  if (!c.Repeats(n, "differences")) return {x};
  std::vector<ValueId> parts;
  for (const char* side : {"prepend", "append"}) {
    if (c.Given(side)) parts.push_back(c.Tensor(side));
    if (side[0] == 'p') parts.push_back(x);
  }
  if (c.ok() && parts.size() > 1) x = c.Emit(kCat, parts, {{"dim", dim}});
  sym::Table& t = c.table();
  for (int64_t i = 0; c.ok() && i < n; ++i) {
    const Expr length = sym::Max(t.Int(0), c.DimOf(x, dim) - 1);
    const Expr start = sym::Min(t.Int(1), c.DimOf(x, dim));
    ValueId later = c.Slice(x, dim, start, length), earlier = c.Slice(x, dim, t.Int(0), length);
    x = c.Binary(c.TypeOf(x) == DType::kBool ? PwOp::kNe : PwOp::kSub, c.Of(later), c.Of(earlier));
  }
  return {x};
}

// NaN and infinities become numbers: by default 0 and the dtype's largest.
Values NanToNum(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const DType t = c.TypeOf(x);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double largest = t == DType::kF64    ? std::numeric_limits<double>::max()
                         : t == DType::kF32  ? std::numeric_limits<float>::max()
                         : t == DType::kBF16 ? 0x1.fep127
                                             : 65504;
  const double nan = c.NumberOr("nan", 0);
  const double most = c.NumberOr("posinf", largest), least = c.NumberOr("neginf", -largest);
  if (!IsFloat(t)) return {x};
  const auto replace = [&](ValueId condition, double number) {
    x = c.Pointwise(PwOp::kWhere, {c.Of(condition), c.Number(number), c.Of(x)}, t, t);
  };
  replace(c.Pointwise(PwOp::kIsNan, {c.Of(x)}, t, DType::kBool), nan);
  // By comparison with what x was: a replacement may be infinite itself.
  const ValueId high = c.Binary(PwOp::kEq, c.Of(x), c.Number(kInfinity));
  const ValueId low = c.Binary(PwOp::kEq, c.Of(x), c.Number(-kInfinity));
  replace(high, most);
  replace(low, least);
  return {x};
}

Values Frac(AtenCall& c) {
  Operand x = c.Of(c.Tensor("self"));
  return {c.Binary(PwOp::kSub, x, c.Of(c.Unary(PwOp::kTrunc, x.tensor)))};
}

// From whichever end is nearer, as torch does; halves are computed in f32 and rounded once.
Values Lerp(AtenCall& c) {
  Operand start = c.Arg("self"), end = c.Arg("end"), weight = c.Arg("weight");
  const DType given = c.Promote({start, end});
  const DType t = given == DType::kF64 ? given : DType::kF32;
  const auto at = [&](PwOp op, Operand a, Operand b) {
    return c.Of(c.Pointwise(op, {a, b}, t, t));
  };
  const Operand span = at(PwOp::kSub, end, start);
  const bool known = weight.is_number() && !weight.integer;
  const Operand from_start = at(PwOp::kAdd, start, at(PwOp::kMul, weight, span));
  if (known && weight.number < 0.5) return {c.Cast(from_start.tensor, given)};
  const Operand rest = at(PwOp::kSub, c.Number(1.0), weight);
  const Operand from_end = at(PwOp::kSub, end, at(PwOp::kMul, span, rest));
  if (known) return {c.Cast(from_end.tensor, given)};
  const ValueId near = c.Pointwise(PwOp::kLt, {weight, c.Number(0.5)}, t, DType::kBool);
  return {c.Cast(c.Pointwise(PwOp::kWhere, {c.Of(near), from_start, from_end}, t, t), given)};
}

// Halves are computed in f32 and rounded once, as torch does.
Values RoundDecimals(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t decimals = c.Int("decimals");
  if (decimals == 0 || !c.ok()) return {c.Unary(PwOp::kRound, x)};
  const DType given = c.TypeOf(x), t = given == DType::kF64 ? given : DType::kF32;
  if (!IsFloat(given)) c.Fail(InvalidArgument("round of {} to {} decimals", Name(given), decimals));
  const Operand scale = c.Number(std::pow(10.0, static_cast<double>(std::abs(decimals))));
  const bool up = decimals > 0;
  const ValueId scaled = c.Pointwise(up ? PwOp::kMul : PwOp::kDiv, {c.Of(x), scale}, t, t);
  const Operand whole = c.Of(c.Unary(PwOp::kRound, scaled));
  return {c.Cast(c.Pointwise(up ? PwOp::kDiv : PwOp::kMul, {whole, scale}, t, t), given)};
}

// How many boundaries lie before each element: NaN comes after all of them.
Values Bucketize(AtenCall& c) {
  Operand x = c.Arg("self");
  ValueId boundaries = c.Tensor("boundaries");
  const bool right = c.BoolOr("right", false);
  const DType result = c.BoolOr("out_int32", false) ? DType::kI32 : DType::kI64;
  if (!c.ok()) return {boundaries};
  if (!x.is_number()) x = c.Of(c.Unsqueeze(x.tensor, c.Rank(x.tensor)));
  const ValueId reached = c.Binary(right ? PwOp::kGt : PwOp::kGe, c.Of(boundaries), x);
  const ValueId passed = c.Pointwise(PwOp::kNot, {c.Of(reached)}, DType::kBool, DType::kBool);
  const ValueId count = c.Emit(kReduce, {passed},
                               {{"kind", std::string("sum")},
                                {"dims", std::vector<int64_t>{c.Rank(passed) - 1}},
                                {"keepdim", int64_t{0}}});
  return {c.Cast(count, result)};
}

Values Dropout(AtenCall& c) {
  if (c.BoolOr("train", false))
    c.Fail(Unsupported("dropout in training mode: export model.eval()"));
  c.Ignore({"p"});
  return {c.Tensor("input")};
}

const AtenForm kForms[] = {
    {"aten.add.Tensor", Scaled<PwOp::kAdd, false>},
    {"aten.add.Scalar", Scaled<PwOp::kAdd, false>},
    {"aten.sub.Tensor", Scaled<PwOp::kSub, false>},
    {"aten.sub.Scalar", Scaled<PwOp::kSub, false>},
    {"aten.rsub.Tensor", Scaled<PwOp::kSub, true>},
    {"aten.rsub.Scalar", Scaled<PwOp::kSub, true>},
    {"aten.mul.Tensor", Binary<PwOp::kMul>},
    {"aten.mul.Scalar", Binary<PwOp::kMul>},
    {"aten.div.Tensor", Div},
    {"aten.div.Scalar", Div},
    {"aten.true_divide.Tensor", Div},
    {"aten.div.Tensor_mode", Div},
    {"aten.div.Scalar_mode", Div},
    {"aten.floor_divide.default", Binary<PwOp::kFloorDiv>},
    {"aten.floor_divide.Scalar", Binary<PwOp::kFloorDiv>},
    {"aten.remainder.Tensor", Binary<PwOp::kRemainder>},
    {"aten.remainder.Scalar", Binary<PwOp::kRemainder>},
    {"aten.fmod.Tensor", Binary<PwOp::kFmod>},
    {"aten.fmod.Scalar", Binary<PwOp::kFmod>},
    {"aten.pow.Tensor_Scalar", Pow},
    {"aten.pow.Tensor_Tensor", Pow},
    {"aten.pow.Scalar", Pow},
    {"aten.minimum.default", Binary<PwOp::kMin>},
    {"aten.maximum.default", Binary<PwOp::kMax>},
    {"aten.min.other", Binary<PwOp::kMin>},
    {"aten.max.other", Binary<PwOp::kMax>},
    {"aten.clamp.default", Clamp},
    {"aten.clamp.Tensor", Clamp},
    {"aten.clamp_min.default", Clamp},
    {"aten.clamp_min.Tensor", Clamp},
    {"aten.clamp_max.default", Clamp},
    {"aten.clamp_max.Tensor", Clamp},
    {"aten.addcmul.default", AddProduct<PwOp::kMul>},
    {"aten.addcdiv.default", AddProduct<PwOp::kDiv>},
    {"aten.eq.Tensor", Binary<PwOp::kEq>},
    {"aten.eq.Scalar", Binary<PwOp::kEq>},
    {"aten.ne.Tensor", Binary<PwOp::kNe>},
    {"aten.ne.Scalar", Binary<PwOp::kNe>},
    {"aten.lt.Tensor", Binary<PwOp::kLt>},
    {"aten.lt.Scalar", Binary<PwOp::kLt>},
    {"aten.le.Tensor", Binary<PwOp::kLe>},
    {"aten.le.Scalar", Binary<PwOp::kLe>},
    {"aten.gt.Tensor", Binary<PwOp::kGt>},
    {"aten.gt.Scalar", Binary<PwOp::kGt>},
    {"aten.ge.Tensor", Binary<PwOp::kGe>},
    {"aten.ge.Scalar", Binary<PwOp::kGe>},
    {"aten.logical_and.default", Logical<PwOp::kAnd>},
    {"aten.logical_or.default", Logical<PwOp::kOr>},
    {"aten.logical_xor.default", Logical<PwOp::kXor>},
    {"aten.logical_not.default", LogicalNot},
    {"aten.bitwise_and.Tensor", Binary<PwOp::kAnd>},
    {"aten.bitwise_and.Scalar", Binary<PwOp::kAnd>},
    {"aten.bitwise_or.Tensor", Binary<PwOp::kOr>},
    {"aten.bitwise_or.Scalar", Binary<PwOp::kOr>},
    {"aten.bitwise_xor.Tensor", Binary<PwOp::kXor>},
    {"aten.bitwise_xor.Scalar", Binary<PwOp::kXor>},
    {"aten.__and__.Tensor", Binary<PwOp::kAnd>},
    {"aten.__or__.Tensor", Binary<PwOp::kOr>},
    {"aten.__xor__.Tensor", Binary<PwOp::kXor>},
    {"aten.__and__.Scalar", Binary<PwOp::kAnd>},
    {"aten.__or__.Scalar", Binary<PwOp::kOr>},
    {"aten.__xor__.Scalar", Binary<PwOp::kXor>},
    {"aten.__lshift__.Tensor", Binary<PwOp::kShiftLeft>},
    {"aten.__lshift__.Scalar", Binary<PwOp::kShiftLeft>},
    {"aten.__rshift__.Tensor", Binary<PwOp::kShiftRight>},
    {"aten.__rshift__.Scalar", Binary<PwOp::kShiftRight>},
    {"aten.tril.default", Triangle<true>},
    {"aten.triu.default", Triangle<false>},
    {"aten.diff.default", Diff},
    {"aten.eye.default", Eye},
    {"aten.eye.m", Eye},
    {"aten.bitwise_not.default", Unary<PwOp::kNot>},
    {"aten.bitwise_left_shift.Tensor", Binary<PwOp::kShiftLeft>},
    {"aten.bitwise_left_shift.Tensor_Scalar", Binary<PwOp::kShiftLeft>},
    {"aten.bitwise_left_shift.Scalar_Tensor", Binary<PwOp::kShiftLeft>},
    {"aten.bitwise_right_shift.Tensor", Binary<PwOp::kShiftRight>},
    {"aten.bitwise_right_shift.Tensor_Scalar", Binary<PwOp::kShiftRight>},
    {"aten.bitwise_right_shift.Scalar_Tensor", Binary<PwOp::kShiftRight>},
    {"aten.neg.default", Unary<PwOp::kNeg>},
    {"aten.abs.default", Unary<PwOp::kAbs>},
    {"aten.sign.default", Unary<PwOp::kSign>},
    {"aten.sgn.default", Unary<PwOp::kSign>},
    {"aten.square.default", Square},
    {"aten.sqrt.default", Unary<PwOp::kSqrt>},
    {"aten.rsqrt.default", Unary<PwOp::kRsqrt>},
    {"aten.reciprocal.default", Unary<PwOp::kReciprocal>},
    {"aten.exp.default", Unary<PwOp::kExp>},
    {"aten.exp2.default", Unary<PwOp::kExp2>},
    {"aten.expm1.default", Unary<PwOp::kExpm1>},
    {"aten.log.default", Unary<PwOp::kLog>},
    {"aten.log2.default", Unary<PwOp::kLog2>},
    {"aten.log10.default", Unary<PwOp::kLog10>},
    {"aten.log1p.default", Unary<PwOp::kLog1p>},
    {"aten.sin.default", Unary<PwOp::kSin>},
    {"aten.cos.default", Unary<PwOp::kCos>},
    {"aten.tan.default", Unary<PwOp::kTan>},
    {"aten.asin.default", Unary<PwOp::kAsin>},
    {"aten.acos.default", Unary<PwOp::kAcos>},
    {"aten.atan.default", Unary<PwOp::kAtan>},
    {"aten.atan2.default", FloatBinary<PwOp::kAtan2>},
    {"aten.sinh.default", Unary<PwOp::kSinh>},
    {"aten.cosh.default", Unary<PwOp::kCosh>},
    {"aten.tanh.default", Unary<PwOp::kTanh>},
    {"aten.erf.default", Unary<PwOp::kErf>},
    {"aten.floor.default", Unary<PwOp::kFloor>},
    {"aten.ceil.default", Unary<PwOp::kCeil>},
    {"aten.trunc.default", Unary<PwOp::kTrunc>},
    {"aten.fix.default", Unary<PwOp::kTrunc>},
    {"aten.round.default", Unary<PwOp::kRound>},
    {"aten.round.decimals", RoundDecimals},
    {"aten.frac.default", Frac},
    {"aten.lerp.Scalar", Lerp},
    {"aten.lerp.Tensor", Lerp},
    {"aten.nan_to_num.default", NanToNum},
    {"aten.bucketize.Tensor", Bucketize},
    {"aten.isnan.default", Test<PwOp::kIsNan>},
    {"aten.isinf.default", Test<PwOp::kIsInf>},
    {"aten.isfinite.default", IsFinite},
    {"aten.isposinf.default", IsInfinityOf<1>},
    {"aten.isneginf.default", IsInfinityOf<-1>},
    {"aten.positive.default", Positive, /*aliases=*/true},
    {"aten.where.self", Where},
    {"aten.where.ScalarSelf", Where},
    {"aten.where.ScalarOther", Where},
    {"aten.where.Scalar", Where},
    {"aten.masked_fill.Scalar", MaskedFill},
    {"aten.masked_fill.Tensor", MaskedFill},
    {"aten.to.dtype", To, /*aliases=*/true},
    {"aten.to.dtype_layout", To, /*aliases=*/true},
    {"aten.to.device", To, /*aliases=*/true},
    {"aten._to_copy.default", To},
    {"aten.type_as.default", TypeAs, /*aliases=*/true},
    {"aten.to.other", TypeAs, /*aliases=*/true},
    {"aten.full.default", Full},
    {"aten.full_like.default", FullLike},
    {"aten.zeros.default", Constant<0>},
    {"aten.ones.default", Constant<1>},
    {"aten.empty.memory_format", Constant<0>},
    {"aten.zeros_like.default", ConstantLike<0>},
    {"aten.ones_like.default", ConstantLike<1>},
    {"aten.empty_like.default", ConstantLike<0>},
    {"aten.new_zeros.default", NewConstant<0>},
    {"aten.new_ones.default", NewConstant<1>},
    {"aten.new_empty.default", NewConstant<0>},
    {"aten.new_full.default", NewFull},
    {"aten.fill.Scalar", Fill},
    {"aten.fill.Tensor", Fill},
    {"aten.zero.default", ConstantLike<0>},
    {"aten.scalar_tensor.default", ScalarTensor},
    {"aten.arange.default", Arange},
    {"aten.arange.start", Arange},
    {"aten.arange.start_step", Arange},
    {"aten.dropout.default", Dropout, /*aliases=*/true},
};

}  // namespace

LS_DEFINE_FORMS(Pointwise, kForms)

}  // namespace liveshape::ops
