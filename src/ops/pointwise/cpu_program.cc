#include "ops/pointwise/cpu_program.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "ops/pointwise/cpu_registers.h"
#include "ops/pointwise/table.h"

namespace liveshape::cpu::pw {
namespace {

using ir::PwInstr;
using ir::PwOp;

// What makes a value. Values are numbered as the instructions are; conversions of halves come after those.
struct Node {
  enum class By : uint8_t {
    kLeaf,      // a load, a number, an index
    kFunction,  // over a tile
    kOp,        // of a chain, the accumulator holds a
    kMove,      // of a chain: a as `dtype` has it in memory
  };
  By by = By::kLeaf;
  PwOp op = PwOp::kCast;
  ChainCode code = ChainCode::kLoad;
  Step step;
  bool in_chain() const { return by == By::kOp || by == By::kMove; }
};

class Compiler {
 public:
  explicit Compiler(const ir::PointwiseProgram& source)
      : source_(source), nodes_(source.code.size()) {}

  Result<Program> Run() {
    LS_RETURN_IF_ERROR(ops::CheckProgram(source_));
    alias_.resize(source_.code.size());
    for (uint32_t i = 0; i < source_.code.size(); ++i) {
      alias_[i] = i;
      LS_RETURN_IF_ERROR(Lower(i));
    }
    program_.dtype = source_.code.back().dtype;
    program_.result = NarrowResult(alias_.back());
    program_.values = nodes_.size();
    for (sym::Expr e : source_.scalars) program_.float_scalar.push_back(e.is_float_valued());
    uses_.resize(nodes_.size());
    reader_.resize(nodes_.size());
    rounded_.resize(nodes_.size());
    seen_.resize(nodes_.size());
    ++uses_[program_.result];
    rounded_[program_.result] = true;
    Visit(program_.result);
    Group();
    AssignRegisters(program_);
    return std::move(program_);
  }

 private:
  Status Lower(uint32_t i) {
    const PwInstr& instr = source_.code[i];
    Step step{
        .kind = Step::Kind::kCompute, .dtype = TileType(instr.dtype), .value = i, .imm = instr.imm};
    Node& node = nodes_[i];
    switch (instr.op) {
      case PwOp::kLoad: step.kind = Step::Kind::kLoad; break;
      case PwOp::kConst: step.kind = Step::Kind::kConst; break;
      case PwOp::kScalar: step.kind = Step::Kind::kScalar; break;
      case PwOp::kIota: step.kind = Step::Kind::kIota; break;
      default: return LowerCompute(instr, step);
    }
    program_.weight += ops::Facts(instr.op).weight;
    if (step.uniform() && IsHalf(instr.dtype)) step.round = instr.dtype;
    if (step.kind == Step::Kind::kLoad) step.dtype = instr.dtype;
    node = {.op = instr.op, .step = step};
    if (!IsHalf(instr.dtype) || step.uniform()) return {};
    if (step.kind == Step::Kind::kLoad)
      alias_[i] = Append(Node::By::kMove, ChainCode::kLoad, i, DType::kF32);
    else
      Round(i, instr.dtype);
    return {};
  }

  Status LowerCompute(const PwInstr& instr, Step step) {
    step.operands = ir::OperandCount(instr.op);
    step.a = alias_[instr.a];  // operands that the op does not have may be any number
    if (step.operands > 1) step.b = alias_[instr.b];
    if (step.operands > 2) step.c = alias_[instr.c];
    const DType from = source_.code[instr.op == PwOp::kWhere ? instr.b : instr.a].dtype;
    if (Identity(instr, from)) {
      alias_[step.value] = step.a;
      return {};
    }
    if (instr.op == PwOp::kCast && TileType(from) == TileType(instr.dtype)) {
      alias_[step.value] = step.a;
      Round(step.value, instr.dtype);
      return {};
    }
    program_.weight += ops::Facts(instr.op).weight;
    Node node{.op = instr.op, .step = step};
    const std::optional<double> exponent =
        instr.op == PwOp::kPow && IsFloat(from) ? ConstantFloat(step.b) : std::nullopt;
    if (exponent == 1.0) {
      alias_[step.value] = step.a;
      return {};
    }
    if (!(exponent && ChoosePow(*exponent, TileType(from), node)) && !Choose(instr, from, node))
      return Unsupported("pointwise {} of {} has no CPU kernel", ir::Name(instr.op), Name(from));
    nodes_[step.value] = std::move(node);
    if (IsHalf(instr.dtype)) Round(step.value, instr.dtype);
    return {};
  }

  bool Choose(const PwInstr& instr, DType from, Node& node) {
    const DType tile = TileType(from);
    const bool moves_four_bytes = instr.op == PwOp::kWhere && tile == DType::kI32;
    std::optional<ChainCode> code;
    if (tile == DType::kF32 || moves_four_bytes) code = ChainCodeOf(instr.op);
    if (instr.op == PwOp::kCast && from == DType::kBool && TileType(instr.dtype) == DType::kF32)
      code = ChainCode::kFromMask;
    if (code) return InChain(node, *code);
    return Over(node, [&](Isa isa) {
      return instr.op == PwOp::kCast ? CastTile(tile, TileType(instr.dtype), isa)
                                     : FindTile(instr.op, tile, isa);
    });
  }

  static bool InChain(Node& node, ChainCode code) {
    node.by = Node::By::kOp;
    node.code = code;
    return true;
  }

  template <typename Find>
  static bool Over(Node& node, Find find) {
    node.by = Node::By::kFunction;
    for (int isa = 0; isa < kIsaCount; ++isa) node.step.fn[isa] = find(static_cast<Isa>(isa));
    return node.step.fn[static_cast<int>(Isa::kPortable)] != nullptr;
  }

  uint32_t Append(Node::By by, ChainCode code, uint32_t a, DType dtype) {
    const uint32_t value = static_cast<uint32_t>(nodes_.size());
    const Step step{
        .kind = Step::Kind::kChain, .dtype = dtype, .value = value, .a = a, .operands = 1};
    nodes_.push_back({.by = by, .code = code, .step = step});
    return value;
  }

  // f16 and bf16 are rounded at each instruction.
  void Round(uint32_t i, DType half) {
    const ChainCode code = half == DType::kF16 ? ChainCode::kRoundF16 : ChainCode::kRoundBF16;
    alias_[i] = Append(Node::By::kOp, code, alias_[i], DType::kF32);
  }

  // The value that holds the result as memory has it. Rounded just before, it need not be: a store rounds.
  uint32_t NarrowResult(uint32_t value) {
    if (!IsHalf(program_.dtype)) return value;
    const Node& node = nodes_[value];
    const bool widened = node.by == Node::By::kMove;
    if (widened && nodes_[node.step.a].step.dtype == program_.dtype) return node.step.a;
    const bool rounded = node.by == Node::By::kOp &&
                         (node.code == ChainCode::kRoundF16 || node.code == ChainCode::kRoundBF16);
    return Append(Node::By::kMove, ChainCode::kLoad, rounded ? node.step.a : value, program_.dtype);
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
    if (value >= source_.code.size() || source_.code[value].op != PwOp::kConst) return std::nullopt;
    const PwInstr& instr = source_.code[value];
    return IsFloat(instr.dtype) ? std::bit_cast<double>(instr.imm) : static_cast<double>(instr.imm);
  }

  // torch's special cases of a scalar exponent: sqrt(-inf) is NaN where pow(-inf, 0.5) would be inf.
  static bool ChoosePow(double exponent, DType tile, Node& node) {
    struct Case {
      double exponent;
      ChainCode code;
      PwOp op;  // kPow: none
    };
    static constexpr Case kCases[] = {
        {2, ChainCode::kSquare, PwOp::kSquare},  {0.5, ChainCode::kSqrt, PwOp::kSqrt},
        {-0.5, ChainCode::kRsqrt, PwOp::kRsqrt}, {-1, ChainCode::kReciprocal, PwOp::kReciprocal},
        {3, ChainCode::kCube, PwOp::kPow},       {-2, ChainCode::kInverseSquare, PwOp::kPow},
    };
    for (const Case& c : kCases) {
      if (c.exponent != exponent) continue;
      node.step.operands = 1;
      if (tile == DType::kF32) return InChain(node, c.code);
      return Over(node, [&](Isa isa) {
        return c.op == PwOp::kPow ? F64Power(static_cast<int>(exponent), isa)
                                  : FindTile(c.op, tile, isa);
      });
    }
    return false;
  }

  // Live values, each after what it reads. What a chain's op takes from the accumulator comes last, so that it is
  // still there.
  void Visit(uint32_t value) {
    if (seen_[value]) return;
    seen_[value] = true;
    Node& node = nodes_[value];
    Step& step = node.step;
    const uint32_t reads[3] = {step.a, step.b, step.c};
    for (int k = 0; k < step.operands; ++k) {
      ++uses_[reads[k]];
      reader_[reads[k]] = value;
      if (!ops::KeepsNumberWide(node.op, static_cast<size_t>(k))) rounded_[reads[k]] = true;
      if (node.by == Node::By::kFunction) nodes_[reads[k]].step.whole = true;
    }
    if (node.by == Node::By::kOp && step.operands == 2 && !nodes_[step.a].in_chain() &&
        nodes_[step.b].in_chain()) {
      if (const std::optional<ChainCode> code = Exchanged(node.code)) {
        node.code = *code;
        std::swap(step.a, step.b);
      }
    }
    if (step.operands > 2) Visit(step.c);
    if (step.operands > 1) Visit(step.b);
    if (step.operands > 0) Visit(step.a);
    order_.push_back(value);
  }

  // Ops of a chain wait until a function over tiles, or the end; loads go before them.
  void Group() {
    nodes_[program_.result].step.whole = true;
    std::vector<uint32_t> waiting;
    for (uint32_t value : order_) {
      Node& node = nodes_[value];
      if (node.in_chain()) {
        waiting.push_back(value);
        continue;
      }
      if (node.by == Node::By::kFunction) EmitChain(waiting);
      if (node.step.uniform() && !rounded_[value]) node.step.round = DType::kF32;
      program_.steps.push_back(node.step);
    }
    EmitChain(waiting);
    program_.result_in_place = nodes_[program_.result].by != Node::By::kLeaf;
    program_.streams = nodes_[program_.result].in_chain() &&
                       StoreCode(nodes_[program_.result].step.dtype) == ChainCode::kStore;
  }

  void EmitChain(std::vector<uint32_t>& values) {
    std::erase_if(values, [&](uint32_t value) { return WidenedInPlace(value); });
    if (values.empty()) return;
    Step step{.kind = Step::Kind::kChain, .dtype = DType::kF32, .value = values.back()};
    std::vector<ChainStep>& chain = step.chain;
    std::optional<uint32_t> held;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t value = values[i];
      const Node& node = nodes_[value];
      const Step& op = node.step;
      if (held != op.a) chain.push_back({LoadCode(nodes_[op.a].step.dtype), op.a, 0, 1});
      const bool widens = op.operands == 2 && WidenedInPlace(op.b);
      if (widens) {
        const uint32_t halves = nodes_[op.b].step.a;
        chain.push_back({node.code, halves, 0, 1, HalfForm(nodes_[halves].step.dtype)});
      } else if (node.by == Node::By::kOp) {
        chain.push_back({node.code, op.b, op.c, op.operands - 1});
      }
      held = value;
      const bool passed_on =
          uses_[value] == 1 && i + 1 < values.size() && nodes_[values[i + 1]].step.a == value;
      if (!passed_on) chain.push_back({StoreCode(op.dtype), value, 0, 1});
    }
    MarkFromAfar(chain);
    step.first_op = program_.chain_ops;
    program_.chain_ops += chain.size() + 1;
    program_.steps.push_back(std::move(step));
    values.clear();
  }

  // What a chain reads of inputs for the first time, and what it writes of the output: no tile in L1.
  void MarkFromAfar(std::vector<ChainStep>& chain) const {
    for (ChainStep& op : chain) {
      const bool seen = std::any_of(chain.data(), &op, [&](const ChainStep& earlier) {
        return !earlier.stores() && earlier.operands > 0 && earlier.a == op.a;
      });
      const bool input = nodes_[op.a].step.kind == Step::Kind::kLoad;
      if (op.stores() ? op.a == program_.result : op.operands == 1 && input && !seen)
        op.form |= kFromAfar;
    }
  }

  // Widened from halves only to be the second operand of one op, which does that itself.
  bool WidenedInPlace(uint32_t value) const {
    const Node& node = nodes_[value];
    if (node.by != Node::By::kMove || !IsHalf(nodes_[node.step.a].step.dtype)) return false;
    if (uses_[value] != 1 || value == program_.result) return false;
    const Node& reader = nodes_[reader_[value]];
    return reader.by == Node::By::kOp && reader.step.operands == 2 && reader.step.b == value;
  }

  const ir::PointwiseProgram& source_;
  std::vector<uint32_t> alias_;  // the value that holds instruction i's result
  std::vector<Node> nodes_;      // by value
  std::vector<int> uses_;
  std::vector<uint32_t> reader_;  // the last of them
  std::vector<bool> rounded_, seen_;
  std::vector<uint32_t> order_;
  Program program_;
};

}  // namespace

Result<Program> CompileProgram(const ir::PointwiseProgram& source) {
  return Compiler(source).Run();
}

}  // namespace liveshape::cpu::pw
