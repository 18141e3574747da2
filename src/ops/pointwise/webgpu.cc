// A pointwise program as one shader: instruction i becomes `let v<i> = ...`. Integers of 8 and 16 bits are
// computed in i32 and wrapped, halves in f32 and rounded, as on the CPU.
#include <bit>

#include "ops/ops.h"
#include "ops/pointwise/table.h"
#include "ops/pointwise/webgpu_value.h"

namespace liveshape::webgpu {
namespace {

using ir::PwInstr;
using ir::PwOp;

enum class Kind : uint8_t { kFloat, kInt, kLong, kBool };

Kind KindOf(DType dtype) {
  if (IsFloat(dtype)) return Kind::kFloat;
  if (dtype == DType::kBool) return Kind::kBool;
  return dtype == DType::kI64 ? Kind::kLong : Kind::kInt;
}

std::string FloatConstant(double value) {
  return fmt::format("f32_bits({}u)", std::bit_cast<uint32_t>(static_cast<float>(value)));
}

// How each op is spelled for each kind of operand; {0}, {1}, {2} are the operands. Null: not defined.
struct Spelling {
  PwOp op;
  const char *f, *i, *l, *b;
};

constexpr Spelling kSpellings[] = {
    // clang-format off: one line an op
    {PwOp::kAdd, "{0} + {1}", "{0} + {1}", "i64_add({0}, {1})", "{0} || {1}"},
    {PwOp::kSub, "{0} - {1}", "{0} - {1}", "i64_sub({0}, {1})", nullptr},
    {PwOp::kMul, "{0} * {1}", "{0} * {1}", "i64_mul({0}, {1})", "{0} && {1}"},
    {PwOp::kDiv, "math_div({0}, {1})", nullptr, nullptr, nullptr},
    {PwOp::kFloorDiv, "math_floor_div({0}, {1})", "int_floor_div({0}, {1})", "i64_floor_div({0}, {1})", nullptr},
    {PwOp::kTruncDiv, "trunc({0} / {1})", "int_trunc_div({0}, {1})", "i64_trunc_div({0}, {1})", nullptr},
    {PwOp::kRemainder, "math_remainder({0}, {1})", "int_remainder({0}, {1})", "i64_remainder({0}, {1})", nullptr},
    {PwOp::kFmod, "math_fmod({0}, {1})", "int_fmod({0}, {1})", "i64_fmod({0}, {1})", nullptr},
    {PwOp::kPow, "math_pow({0}, {1})", "int_pow({0}, {1})", "i64_pow({0}, {1})", nullptr},
    {PwOp::kMin, "math_min({0}, {1})", "min({0}, {1})", "select({1}, {0}, vec2<bool>(i64_lt({0}, {1})))", "{0} && {1}"},
    {PwOp::kMax, "math_max({0}, {1})", "max({0}, {1})", "select({0}, {1}, vec2<bool>(i64_lt({0}, {1})))", "{0} || {1}"},
    {PwOp::kEq, "{0} == {1}", "{0} == {1}", "i64_eq({0}, {1})", "{0} == {1}"},
    {PwOp::kNe, "!({0} == {1})", "{0} != {1}", "!i64_eq({0}, {1})", "{0} != {1}"},
    {PwOp::kLt, "{0} < {1}", "{0} < {1}", "i64_lt({0}, {1})", "!{0} && {1}"},
    {PwOp::kLe, "{0} <= {1}", "{0} <= {1}", "!i64_lt({1}, {0})", "!{0} || {1}"},
    {PwOp::kGt, "{0} > {1}", "{0} > {1}", "i64_lt({1}, {0})", "{0} && !{1}"},
    {PwOp::kGe, "{0} >= {1}", "{0} >= {1}", "!i64_lt({0}, {1})", "{0} || !{1}"},
    {PwOp::kAnd, nullptr, "{0} & {1}", "{0} & {1}", "{0} && {1}"},
    {PwOp::kOr, nullptr, "{0} | {1}", "{0} | {1}", "{0} || {1}"},
    {PwOp::kXor, nullptr, "{0} ^ {1}", "{0} ^ {1}", "{0} != {1}"},
    {PwOp::kNot, nullptr, "~{0}", "~{0}", "!{0}"},
    {PwOp::kShiftLeft, nullptr, "int_shift_left({0}, {1})", "i64_shift_left({0}, {1})", nullptr},
    {PwOp::kShiftRight, nullptr, "int_shift_right({0}, {1})", "i64_shift_right({0}, {1})", nullptr},
    {PwOp::kNeg, "-{0}", "-{0}", "i64_neg({0})", nullptr},
    {PwOp::kAbs, "abs({0})", "abs({0})", "i64_abs({0})", nullptr},
    {PwOp::kSign, "f32(i32({0} > 0.0) - i32({0} < 0.0))", "sign({0})", "i64_sign({0})", "{0}"},
    {PwOp::kSquare, "{0} * {0}", "{0} * {0}", "i64_mul({0}, {0})", nullptr},
    {PwOp::kSqrt, "sqrt({0})", nullptr, nullptr, nullptr},
    {PwOp::kRsqrt, "1.0 / sqrt({0})", nullptr, nullptr, nullptr},
    {PwOp::kReciprocal, "math_div(1.0, {0})", nullptr, nullptr, nullptr},
    {PwOp::kExp, "exp({0})", nullptr, nullptr, nullptr},
    {PwOp::kExp2, "exp2({0})", nullptr, nullptr, nullptr},
    {PwOp::kExpm1, "math_expm1({0})", nullptr, nullptr, nullptr},
    {PwOp::kLog, "log({0})", nullptr, nullptr, nullptr},
    {PwOp::kLog2, "log2({0})", nullptr, nullptr, nullptr},
    {PwOp::kLog1p, "math_log1p({0})", nullptr, nullptr, nullptr},
    {PwOp::kLog10, "log({0}) * 0.43429448190325183", nullptr, nullptr, nullptr},
    {PwOp::kSin, "sin({0})", nullptr, nullptr, nullptr},
    {PwOp::kCos, "cos({0})", nullptr, nullptr, nullptr},
    {PwOp::kTan, "tan({0})", nullptr, nullptr, nullptr},
    {PwOp::kAsin, "math_asin({0})", nullptr, nullptr, nullptr},
    {PwOp::kAcos, "math_acos({0})", nullptr, nullptr, nullptr},
    {PwOp::kAtan, "atan({0})", nullptr, nullptr, nullptr},
    {PwOp::kSinh, "sinh({0})", nullptr, nullptr, nullptr},
    {PwOp::kCosh, "cosh({0})", nullptr, nullptr, nullptr},
    {PwOp::kAtan2, "atan2({0}, {1})", nullptr, nullptr, nullptr},
    {PwOp::kTanh, "math_tanh({0})", nullptr, nullptr, nullptr},
    {PwOp::kErf, "math_erf({0})", nullptr, nullptr, nullptr},
    {PwOp::kSigmoid, "math_sigmoid({0})", nullptr, nullptr, nullptr},
    {PwOp::kSilu, "math_silu({0})", nullptr, nullptr, nullptr},
    {PwOp::kGelu, "math_gelu({0})", nullptr, nullptr, nullptr},
    {PwOp::kGeluTanh, "math_gelu_tanh({0})", nullptr, nullptr, nullptr},
    {PwOp::kRelu, "math_max({0}, 0.0)", "max({0}, 0)", "select({0}, vec2<u32>(0u), vec2<bool>(i64_negative({0})))", nullptr},
    {PwOp::kFloor, "floor({0})", "{0}", "{0}", nullptr},
    {PwOp::kCeil, "ceil({0})", "{0}", "{0}", nullptr},
    {PwOp::kTrunc, "trunc({0})", "{0}", "{0}", nullptr},
    {PwOp::kRound, "round({0})", "{0}", "{0}", nullptr},  // WGSL's is half to even too
    {PwOp::kIsNan, "is_nan({0})", "false", "false", "false"},
    {PwOp::kIsInf, "is_inf({0})", "false", "false", "false"},
    {PwOp::kWhere, "select({2}, {1}, {0})", "select({2}, {1}, {0})", "select({2}, {1}, vec2<bool>({0}))", "select({2}, {1}, {0})"},
    // clang-format on
};

const char* SpellingOf(PwOp op, Kind kind) {
  for (const Spelling& s : kSpellings)
    if (s.op == op)
      return kind == Kind::kFloat  ? s.f
             : kind == Kind::kInt  ? s.i
             : kind == Kind::kLong ? s.l
                                   : s.b;
  return nullptr;
}

// What narrower types lose is lost after every instruction.
std::string Rounded(DType dtype, std::string value) {
  switch (dtype) {
    case DType::kF16: return fmt::format("round_f16({})", value);
    case DType::kBF16: return fmt::format("round_bf16({})", value);
    case DType::kI16: return fmt::format("extractBits({}, 0u, 16u)", value);
    case DType::kI8: return fmt::format("extractBits({}, 0u, 8u)", value);
    case DType::kU8: return fmt::format("(({}) & 255)", value);
    default: return value;
  }
}

std::string Cast(DType from, DType to, const std::string& v) {
  const Kind a = KindOf(from), b = KindOf(to);
  if (a == b) return v;
  switch (b) {
    case Kind::kFloat:
      return a == Kind::kInt    ? fmt::format("f32({})", v)
             : a == Kind::kLong ? fmt::format("i64_to_f32({})", v)
                                : fmt::format("select(0.0, 1.0, {})", v);
    case Kind::kInt:
      return a == Kind::kFloat  ? fmt::format("i32({})", v)
             : a == Kind::kLong ? fmt::format("bitcast<i32>({}.x)", v)
                                : fmt::format("select(0, 1, {})", v);
    case Kind::kLong:
      return a == Kind::kFloat ? fmt::format("i64_from_f32({})", v)
             : a == Kind::kInt ? fmt::format("i64_of({})", v)
                               : fmt::format("vec2<u32>(select(0u, 1u, {}), 0u)", v);
    default:
      return a == Kind::kLong  ? fmt::format("(({0}.x | {0}.y) != 0u)", v)
             : a == Kind::kInt ? fmt::format("({} != 0)", v)
                               : fmt::format("((bitcast<u32>({}) & 0x7fffffffu) != 0u)", v);
  }
}

std::string Constant(const PwInstr& instr) {
  switch (KindOf(instr.dtype)) {
    case Kind::kFloat: return FloatConstant(std::bit_cast<double>(instr.imm));
    case Kind::kInt: return fmt::format("bitcast<i32>({}u)", static_cast<uint32_t>(instr.imm));
    case Kind::kLong:
      return fmt::format("vec2<u32>({}u, {}u)", static_cast<uint32_t>(instr.imm),
                         static_cast<uint32_t>(static_cast<uint64_t>(instr.imm) >> 32));
    default: return instr.imm ? "true" : "false";
  }
}

bool DividesIntegers(PwOp op, Kind kind) {
  return (kind == Kind::kInt || kind == Kind::kLong) &&
         (op == PwOp::kFloorDiv || op == PwOp::kTruncDiv || op == PwOp::kRemainder ||
          op == PwOp::kFmod);
}

class Program {
 public:
  Program(const Lowering& l, const ir::PointwiseProgram& program,
          std::span<const PointwiseLoad> loads)
      : l_(l), program_(program), loads_(loads) {}

  Result<PointwiseValue> Make() {
    const DType out = l_.out(0).dtype;
    if (ValueType(out) == nullptr) return NoSuchType(out);
    for (size_t i = 0; i < program_.code.size(); ++i) LS_RETURN_IF_ERROR(Add(i));
    Dispatch index;
    for (const PointwiseLoad& load : loads_)
      if (load.given.empty() && l_.has(load.input))
        AddStridedIndex(l_, l_.in(load.input), fmt::format("in{}", load.input), index);
    PointwiseValue value{
        .body = std::move(index.body), .params = std::move(params_), .fails = fails_};
    value.body += fmt::format("fn value(i: u32) -> {} {{\n{}  return v{};\n}}\n", ValueType(out),
                              lines_, program_.code.size() - 1);
    for (Param& p : index.params) value.params.push_back(std::move(p));
    return value;
  }

 private:
  Status Add(size_t i) {
    const PwInstr& instr = program_.code[i];
    if (ValueType(instr.dtype) == nullptr) return NoSuchType(instr.dtype);
    LS_ASSIGN_OR_RETURN(const std::string value, Value(instr));
    lines_ += fmt::format("  let v{}: {} = {};\n", i, ValueType(instr.dtype), value);
    return {};
  }

  Result<std::string> Value(const PwInstr& instr) {
    const auto v = [](uint32_t i) { return fmt::format("v{}", i); };
    const auto type = [&](uint32_t i) { return program_.code[i].dtype; };
    switch (instr.op) {
      case PwOp::kLoad: {
        const PointwiseLoad& load = loads_[static_cast<size_t>(instr.imm)];
        return load.given.empty() ? fmt::format("in{0}(at_in{0}(i))", load.input) : load.given;
      }
      case PwOp::kConst: return Rounded(instr.dtype, Constant(instr));
      case PwOp::kScalar: return Scalar(instr);
      case PwOp::kIota: return Iota(instr);
      case PwOp::kCast: return Rounded(instr.dtype, Cast(type(instr.a), instr.dtype, v(instr.a)));
      default: break;
    }
    const Kind kind = KindOf(instr.op == PwOp::kWhere ? instr.dtype : type(instr.a));
    const char* spelling = SpellingOf(instr.op, kind);
    if (spelling == nullptr)
      return Unsupported("`{}` of {} on WebGPU", ir::Name(instr.op), Name(type(instr.a)));
    if (DividesIntegers(instr.op, kind)) {
      fails_ = true;
      lines_ += kind == Kind::kInt
                    ? fmt::format("  if (v{} == 0) {{ fail(); }}\n", instr.b)
                    : fmt::format("  if ((v{0}.x | v{0}.y) == 0u) {{ fail(); }}\n", instr.b);
    }
    std::string operands[3] = {v(instr.a), v(instr.b), v(instr.c)};
    if (SizeOf(instr.dtype) == 2)
      for (size_t k : {0, 1}) {
        if (!ops::KeepsNumberWide(instr.op, k)) continue;
        PwInstr number = program_.code[k == 0 ? instr.a : instr.b];
        if (number.op != PwOp::kConst && number.op != PwOp::kScalar) continue;
        if (!IsFloat(number.dtype)) continue;
        number.dtype = DType::kF32;
        LS_ASSIGN_OR_RETURN(operands[k], Value(number));
      }
    std::string value = fmt::format(fmt::runtime(spelling), operands[0], operands[1], operands[2]);
    return instr.dtype == DType::kBool ? value : Rounded(instr.dtype, std::move(value));
  }

  std::string Scalar(const PwInstr& instr) {
    const auto k = static_cast<uint32_t>(instr.imm);
    const bool is_float = program_.scalars[k].is_float_valued();
    const std::string name = fmt::format("scalar{}{}", k, is_float ? "f" : "");
    bool known = false;
    for (const Param& p : params_) known = known || p.name == name;
    if (!known)
      params_.push_back({.name = name,
                         .slot = l_.step.params_at + k,
                         .kind = is_float ? Param::Kind::kFloat : Param::Kind::kWide});
    if (is_float) return Rounded(instr.dtype, "p." + name);
    const std::string wide = fmt::format("vec2<u32>(p.{0}_lo, p.{0}_hi)", name);
    return Rounded(instr.dtype, Cast(DType::kI64, instr.dtype, wide));
  }

  // The index along one output dim.
  std::string Iota(const PwInstr& instr) {
    const ir::Dims& dims = l_.out_dims(0);
    const auto axis = static_cast<size_t>(instr.imm);
    const ir::Dims inner(dims.begin() + static_cast<int64_t>(axis) + 1, dims.end());
    const std::string name = fmt::format("iota{}", axis);
    bool known = false;
    for (const Param& p : params_) known = known || p.name == name + "_inner";
    if (!known) {
      params_.push_back({.name = name + "_inner", .expr = l_.numel(inner)});
      params_.push_back({.name = name + "_extent", .expr = dims[axis]});
    }
    const std::string index = fmt::format("bitcast<i32>((i / p.{0}_inner) % p.{0}_extent)", name);
    return Rounded(instr.dtype, Cast(DType::kI32, instr.dtype, index));
  }

  const Lowering& l_;
  const ir::PointwiseProgram& program_;
  std::span<const PointwiseLoad> loads_;
  std::string lines_;
  std::vector<Param> params_;
  bool fails_ = false;
};

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  std::vector<PointwiseLoad> loads;
  for (size_t k = 0; k < l.step.inputs.size(); ++k) loads.push_back({.input = k});
  LS_ASSIGN_OR_RETURN(PointwiseValue value, MakePointwiseValue(l, l.node->Program(), loads));
  Dispatch d = MakeMap(l, std::move(value.body), std::move(value.params));
  if (value.fails) CanFail(l, d, "an integer is divided by zero");
  return std::vector{std::move(d)};
}

}  // namespace

Result<PointwiseValue> MakePointwiseValue(const Lowering& l, const ir::PointwiseProgram& program,
                                          std::span<const PointwiseLoad> loads) {
  return Program(l, program, loads).Make();
}

extern const WebGpuKernel kPointwiseKernel = {.op = &ops::kPointwise, .lower = Lower};

}  // namespace liveshape::webgpu
