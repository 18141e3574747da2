#include "ops/pointwise/cpu_program.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "ops/pointwise/table.h"

namespace liveshape::cpu::pw {
namespace {

using ir::PwInstr;
using ir::PwOp;

class Compiler {
 public:
  explicit Compiler(const ir::PointwiseProgram& source) : source_(source) {}

  Result<Program> Run() {
    LS_RETURN_IF_ERROR(ops::CheckProgram(source_));
    alias_.resize(source_.code.size());
    for (uint32_t i = 0; i < source_.code.size(); ++i) {
      alias_[i] = i;
      LS_RETURN_IF_ERROR(Lower(i));
    }
    program_.values = source_.code.size();
    program_.result = alias_.back();
    program_.dtype = source_.code.back().dtype;
    for (sym::Expr e : source_.scalars) program_.float_scalar.push_back(e.is_float_valued());
    DropDead();
    KeepNumbers();
    AssignRegisters();
    FindResult();
    FillHalves();
    return std::move(program_);
  }

 private:
  Status Lower(uint32_t i) {
    const PwInstr& instr = source_.code[i];
    Step step{.kind = Step::Kind::kCompute, .dtype = instr.dtype, .value = i, .imm = instr.imm};
    switch (instr.op) {
      case PwOp::kLoad: step.kind = Step::Kind::kLoad; break;
      case PwOp::kConst: step.kind = Step::Kind::kConst; break;
      case PwOp::kScalar: step.kind = Step::Kind::kScalar; break;
      case PwOp::kIota: step.kind = Step::Kind::kIota; break;
      default: return LowerCompute(instr, step);
    }
    Emit(step, ops::Facts(instr.op).weight);
    return {};
  }

  Status LowerCompute(const PwInstr& instr, Step step) {
    step.a = alias_[instr.a];
    step.b = alias_[instr.b];
    step.c = alias_[instr.c];
    step.operands = ir::OperandCount(instr.op);
    const DType from = source_.code[instr.op == PwOp::kWhere ? instr.b : instr.a].dtype;
    if (Identity(instr, from)) {
      alias_[step.value] = step.a;
      return {};
    }
    if (instr.op == PwOp::kPow && IsFloat(from)) {
      if (std::optional<double> exponent = ConstantFloat(step.b)) {
        if (LowerPow(*exponent, step)) return {};
      }
    }
    for (int isa = 0; isa < kIsaCount; ++isa) {
      step.fn[isa] = instr.op == PwOp::kCast
                         ? CastTile(TileType(from), TileType(instr.dtype))
                         : FindTile(instr.op, TileType(from), static_cast<Isa>(isa));
    }
    if (!step.fn[static_cast<int>(Isa::kPortable)])
      return Unsupported("pointwise {} of {} has no CPU kernel", ir::Name(instr.op), Name(from));
    Emit(step, ops::Facts(instr.op).weight);
    return {};
  }

  void Emit(Step step, int weight) {
    program_.weight += weight;
    if (IsHalf(step.dtype) && step.kind != Step::Kind::kLoad) {
      const Extra round = step.dtype == DType::kF16 ? Extra::kRoundF16 : Extra::kRoundBF16;
      for (int isa = 0; isa < kIsaCount; ++isa)
        step.round[isa] = F32Extra(round, static_cast<Isa>(isa));
    }
    program_.steps.push_back(step);
  }

  // A cast that changes nothing in tiles, and rounding of integers.
  static bool Identity(const PwInstr& instr, DType from) {
    switch (instr.op) {
      case PwOp::kCast: return instr.dtype == from || (instr.dtype == DType::kF32 && IsHalf(from));
      case PwOp::kFloor:
      case PwOp::kCeil:
      case PwOp::kTrunc:
      case PwOp::kRound: return !IsFloat(from);
      default: return false;
    }
  }

  std::optional<double> ConstantFloat(uint32_t value) const {
    const PwInstr& instr = source_.code[value];
    if (instr.op != PwOp::kConst) return std::nullopt;
    return IsFloat(instr.dtype) ? std::bit_cast<double>(instr.imm) : static_cast<double>(instr.imm);
  }

  // torch's special cases of a scalar exponent: sqrt(-inf) is NaN where pow(-inf, 0.5) would be inf.
  bool LowerPow(double exponent, Step step) {
    const DType dtype = TileType(step.dtype);
    auto emit = [&](auto find) {
      step.operands = 1;
      for (int isa = 0; isa < kIsaCount; ++isa) step.fn[isa] = find(static_cast<Isa>(isa));
      Emit(step, 4);
      return true;
    };
    auto op = [&](PwOp op) { return emit([&](Isa isa) { return FindTile(op, dtype, isa); }); };
    auto extra = [&](Extra which) {
      return emit([&](Isa isa) {
        return dtype == DType::kF32 ? F32Extra(which, isa) : TypedExtra(which, dtype);
      });
    };
    if (exponent == 2) return op(PwOp::kSquare);
    if (exponent == 0.5) return op(PwOp::kSqrt);
    if (exponent == -0.5) return op(PwOp::kRsqrt);
    if (exponent == -1) return op(PwOp::kReciprocal);
    if (exponent == 3) return extra(Extra::kCube);
    if (exponent == -2) return extra(Extra::kInverseSquare);
    if (exponent == 1) {
      alias_[step.value] = step.a;
      return true;
    }
    return false;
  }

  void DropDead() {
    std::vector<bool> live(program_.values, false);
    live[program_.result] = true;
    for (size_t i = program_.steps.size(); i-- > 0;) {
      const Step& step = program_.steps[i];
      if (!live[step.value]) continue;
      const uint32_t reads[3] = {step.a, step.b, step.c};
      for (int k = 0; k < step.operands; ++k) live[reads[k]] = true;
    }
    std::erase_if(program_.steps, [&](const Step& step) { return !live[step.value]; });
  }

  // torch multiplies and divides halves by a number that stays f32; to other instructions, and as a result,
  // it is rounded to the half.
  void KeepNumbers() {
    std::vector<bool> rounded(program_.values, false);
    rounded[program_.result] = true;
    for (const Step& step : program_.steps) {
      const PwOp op = source_.code[step.value].op;
      const uint32_t reads[3] = {step.a, step.b, step.c};
      for (int k = 0; k < step.operands; ++k)
        if (op != PwOp::kMul && !(op == PwOp::kDiv && k == 1)) rounded[reads[k]] = true;
    }
    for (Step& step : program_.steps)
      if (step.uniform() && !rounded[step.value]) std::fill_n(step.round, kIsaCount, nullptr);
  }

  // Linear scan. A result may take over the register of an operand that dies with it if elements have
  // the same size: a tile function reads element i before it writes element i.
  void AssignRegisters() {
    const size_t end = program_.steps.size();
    std::vector<size_t> last_use(program_.values, 0);
    std::vector<Step*> maker(program_.values, nullptr);
    for (size_t i = 0; i < end; ++i) {
      Step& step = program_.steps[i];
      maker[step.value] = &step;
      const uint32_t reads[3] = {step.a, step.b, step.c};
      for (int k = 0; k < step.operands; ++k) last_use[reads[k]] = i;
    }
    last_use[program_.result] = end;
    size_t widest = 4;
    std::vector<int> free;
    // Uniform values are filled before the first step of all tiles: a register of their own.
    for (Step& step : program_.steps) {
      if (step.uniform()) step.reg = program_.registers++;
    }
    for (size_t i = 0; i < end; ++i) {
      Step& step = program_.steps[i];
      const size_t size = SizeOf(TileType(step.dtype));
      widest = std::max(widest, size);
      if (step.uniform()) continue;
      const uint32_t reads[3] = {step.a, step.b, step.c};
      std::vector<int> released;
      for (int k = 0; k < step.operands; ++k) {
        Step* operand = maker[reads[k]];
        if (last_use[reads[k]] != i || operand->uniform()) continue;
        last_use[reads[k]] = ~size_t{0};  // the same value twice is released once
        const bool same_size = SizeOf(TileType(operand->dtype)) == size;
        (same_size ? free : released).push_back(operand->reg);
      }
      if (free.empty()) free.push_back(program_.registers++);
      step.reg = free.back();
      free.pop_back();
      free.insert(free.end(), released.begin(), released.end());
    }
    program_.register_bytes = widest * kTile;
  }

  void FindResult() {
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      const Step& step = program_.steps[i];
      if (step.value != program_.result) continue;
      program_.result_step = static_cast<uint32_t>(i);
      program_.result_in_place = step.kind == Step::Kind::kCompute && !IsHalf(program_.dtype);
    }
  }

  void FillHalves() {
    for (int i = 0; i < kIsaCount; ++i) {
      const Isa isa = static_cast<Isa>(i);
      program_.widen[0][i] = F32Extra(Extra::kWidenF16, isa);
      program_.widen[1][i] = F32Extra(Extra::kWidenBF16, isa);
      if (program_.dtype == DType::kF16) program_.narrow[i] = F32Extra(Extra::kNarrowF16, isa);
      if (program_.dtype == DType::kBF16) program_.narrow[i] = F32Extra(Extra::kNarrowBF16, isa);
    }
  }

  const ir::PointwiseProgram& source_;
  std::vector<uint32_t> alias_;  // the value that holds instruction i's result
  Program program_;
};

}  // namespace

Result<Program> CompileProgram(const ir::PointwiseProgram& source) {
  return Compiler(source).Run();
}

}  // namespace liveshape::cpu::pw
