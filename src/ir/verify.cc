#include <array>
#include <limits>

#include "ir/graph.h"
#include "ir/op.h"

namespace liveshape::ir {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph)
      : graph_(graph), table_(graph.table()), defined_(graph.values.size(), false) {
    for (const sym::SymbolInfo& symbol : table_.symbols()) known_.push_back(symbol.stage == 0);
    for (const HostValue& host : graph_.host_values)
      if (host.symbol < known_.size()) known_[host.symbol] = true;
  }

  Status Run() {
    LS_RETURN_IF_ERROR(CheckValues());
    LS_RETURN_IF_ERROR(CheckInputs());
    LS_RETURN_IF_ERROR(CheckConstants());
    LS_RETURN_IF_ERROR(CheckStates());
    for (const Node& node : graph_.nodes) {
      Status status = CheckNode(node);
      if (!status.ok()) return std::move(status).Prefixed(Describe(node));
    }
    LS_RETURN_IF_ERROR(CheckResults());
    return CheckShapeFacts();
  }

 private:
  Status CheckOwned(Expr e, std::string_view what) const {
    if (!e) return InvalidArgument("{} has no expression", what);
    if (&e.table() != &table_) return InvalidArgument("{} is of another graph's table", what);
    return {};
  }

  // An expression of this graph's table that is an integer.
  Status CheckExpr(Expr e, std::string_view what) const {
    LS_RETURN_IF_ERROR(CheckOwned(e, what));
    if (e.is_float_valued())
      return InvalidArgument("{} is {}: a float where an integer is needed", what, ToString(e));
    return {};
  }

  Status CheckValues() const {
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.value(id);
      for (Expr dim : value.type.dims)
        LS_RETURN_IF_ERROR(CheckExpr(dim, fmt::format("a dim of value %{} `{}`", id, value.name)));
      if (static_cast<int>(value.type.dtype) >= kDTypeCount || value.origin > Origin::kState)
        return InvalidArgument("value %{} `{}` has no such dtype or origin", id, value.name);
    }
    return {};
  }

  // The value that input, constant or state `index` brings into being. A value that no entry and no node
  // brings into being may exist, as passes leave them; it must not be read.
  Status Define(ValueId id, Origin origin, size_t index, std::string_view what,
                std::string_view name) {
    if (id >= graph_.values.size())
      return InvalidArgument("{} `{}` is value %{}; there are {}", what, name, id,
                             graph_.values.size());
    const Value& value = graph_.value(id);
    if (value.origin != origin || value.index != index || defined_[id])
      return InvalidArgument("{} {} `{}` is value %{}, which has another origin", what, index, name,
                             id);
    defined_[id] = true;
    return {};
  }

  Status CheckInputs() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      if (input.value != kNoValue) {
        LS_RETURN_IF_ERROR(Define(input.value, Origin::kInput, i, "input", input.name));
        for (Expr dim : graph_.type(input.value).dims)
          LS_RETURN_IF_ERROR(CheckKnownAtBind(dim, input.name));
        continue;
      }
      LS_RETURN_IF_ERROR(CheckExpr(input.scalar, fmt::format("integer input `{}`", input.name)));
      if (!input.scalar.is_symbol() && !input.scalar.is_int())
        return InvalidArgument("integer input `{}` is {}: neither a symbol nor a constant",
                               input.name, ToString(input.scalar));
      LS_RETURN_IF_ERROR(CheckKnownAtBind(input.scalar, input.name));
    }
    return {};
  }

  // What an input must be is compared with what it is at bind: kernels rely on it.
  Status CheckKnownAtBind(Expr size, std::string_view input) const {
    if (table_.StageOf(size) == 0) return {};
    return InvalidArgument("input `{}` has the size {}, which only data tells", input,
                           ToString(size));
  }

  Status CheckStored(ValueId id, DType dtype, std::span<const int64_t> dims, std::string_view what,
                     std::string_view name) const {
    const TensorType& type = graph_.type(id);
    bool same = type.dtype == dtype && type.dims.size() == dims.size();
    for (size_t i = 0; same && i < dims.size(); ++i)
      same = dims[i] >= 0 && type.dims[i].is_int(dims[i]);
    if (same) return {};
    return InvalidArgument("{} `{}` is {}[{}], its value %{} is {}", what, name,
                           liveshape::Name(dtype), fmt::join(dims, ", "), id, ToString(type));
  }

  Status CheckConstants() {
    for (size_t i = 0; i < graph_.constants.size(); ++i) {
      const Constant& c = graph_.constants[i];
      LS_RETURN_IF_ERROR(Define(c.value, Origin::kConstant, i, "constant", c.name));
      LS_RETURN_IF_ERROR(CheckStored(c.value, c.dtype, c.dims, "constant", c.name));
      const std::optional<size_t> bytes = StoredBytes(c);
      if (!bytes)
        return InvalidArgument("constant `{}` [{}] cannot be stored in its layout", c.name,
                               fmt::join(c.dims, ", "));
      const bool unbound = !c.external.empty() && c.data.empty();
      if (!unbound && c.data.size() != *bytes)
        return InvalidArgument("constant `{}` [{}] has {} bytes, expected {}", c.name,
                               fmt::join(c.dims, ", "), c.data.size(), *bytes);
    }
    return {};
  }

  Status CheckStates() {
    for (size_t i = 0; i < graph_.states.size(); ++i) {
      const State& s = graph_.states[i];
      LS_RETURN_IF_ERROR(Define(s.value, Origin::kState, i, "state", s.name));
      LS_RETURN_IF_ERROR(CheckStored(s.value, s.dtype, s.dims, "state", s.name));
      const std::optional<size_t> bytes = DenseBytes(s.dtype, s.dims);
      if (!bytes || s.initial.size() != *bytes)
        return InvalidArgument("state `{}` [{}] has {} initial bytes, expected {}", s.name,
                               fmt::join(s.dims, ", "), s.initial.size(), bytes.value_or(0));
    }
    return {};
  }

  bool IsDefined(ValueId id) const { return id < defined_.size() && defined_[id]; }

  Status CheckNode(const Node& node) {
    if (!node.op) return InvalidArgument("has no op");
    std::vector<const TensorType*> types;
    types.reserve(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id != kNoValue && !IsDefined(id))
        return InvalidArgument("input {} is value %{}, which nothing before it makes", i, id);
      types.push_back(id == kNoValue ? nullptr : &graph_.type(id));
      if (id == kNoValue) continue;
      const bool packed = static_cast<int>(i) == node.op->packed_input;
      if (!packed || (IsQuantised(id) && !node.op->reads_quantised))
        LS_RETURN_IF_ERROR(CheckDense(id, fmt::format("input {}", i)));
    }
    for (const auto& [key, attr] : node.attrs) {
      if (const auto* exprs = std::get_if<std::vector<Expr>>(&attr))
        for (Expr e : *exprs) LS_RETURN_IF_ERROR(CheckExpr(e, fmt::format("attribute `{}`", key)));
      if (const auto* program = std::get_if<PointwiseProgram>(&attr)) {
        Status status = CheckProgram(*program, types);
        if (!status.ok()) return std::move(status).Prefixed(fmt::format("attribute `{}`", key));
      }
    }

    if (node.op->gives_symbol) LS_RETURN_IF_ERROR(GiveSymbol(node));
    LS_ASSIGN_OR_RETURN(const std::vector<TensorType> inferred,
                        node.op->infer({table_, node, types}));
    if (inferred.size() != node.outputs.size())
      return InvalidArgument("has {} outputs, its op gives {}", node.outputs.size(),
                             inferred.size());
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId id = node.outputs[i];
      if (id >= graph_.values.size())
        return InvalidArgument("output {} is value %{}; there are {}", i, id, graph_.values.size());
      if (graph_.value(id).origin != Origin::kNode || defined_[id])
        return InvalidArgument("output {} is value %{}, which something else makes already", i, id);
      if (!Agree(graph_.type(id), inferred[i]))
        return InvalidArgument("output {} is stored as {}, its op's shape rule gives {}", i,
                               ToString(graph_.type(id)), ToString(inferred[i]));
      for (const auto& [key, attr] : node.attrs)
        if (const auto* program = std::get_if<PointwiseProgram>(&attr))
          LS_RETURN_IF_ERROR(CheckProgramResult(*program, inferred[i]));
      defined_[id] = true;
    }
    Status known;
    graph_.ForEachExpr(node, [&](Expr e) {
      if (known.ok()) known = CheckKnown(e);
    });
    return known;
  }

  // A symbol born from data has one giver, before everything that has it in its sizes.
  Status GiveSymbol(const Node& node) {
    const Attr* symbol = node.Find("symbol");
    const int64_t* index = symbol ? std::get_if<int64_t>(symbol) : nullptr;
    if (index == nullptr || *index < 0 || *index >= static_cast<int64_t>(known_.size()))
      return InvalidArgument("gives no symbol of the table its value");
    const auto at = static_cast<size_t>(*index);
    if (table_.symbols()[at].stage < 2 || known_[at])
      return InvalidArgument("gives `{}` a value, which has one already",
                             table_.symbols()[at].name);
    known_[at] = true;
    return {};
  }

  Status CheckKnown(Expr e) const {
    if (!e || table_.StageOf(e) == 0) return {};
    for (uint32_t s : table_.FreeSymbols(e))
      if (!known_[s])
        return InvalidArgument("{} has `{}`, which nothing before it gives a value", ToString(e),
                               table_.symbols()[s].name);
    return {};
  }

  bool IsQuantised(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.origin == Origin::kConstant &&
           graph_.constants[value.index].encoding != Encoding::kPlain;
  }

  // A packed constant has fewer or other bytes than its dims say.
  Status CheckDense(ValueId id, std::string_view reader) const {
    const Value& value = graph_.value(id);
    if (value.origin != Origin::kConstant) return {};
    const Constant& c = graph_.constants[value.index];
    if (!c.packed()) return {};
    return InvalidArgument("{} reads the constant `{}` ({}, {}), which is not stored as elements",
                           reader, c.name, Name(c.encoding), Name(c.layout));
  }

  // Dims may be spelled in two ways that are equal only under a guard; only a proof that they differ is
  // an error.
  bool Agree(const TensorType& a, const TensorType& b) const {
    if (a.dtype != b.dtype || a.dims.size() != b.dims.size()) return false;
    for (size_t i = 0; i < a.dims.size(); ++i)
      if (a.dims[i] != b.dims[i] && table_.IsTrue(Eq(a.dims[i], b.dims[i])) == sym::Tri::kNo)
        return false;
    return true;
  }

  Status CheckProgram(const PointwiseProgram& program,
                      std::span<const TensorType* const> inputs) const {
    if (program.code.empty()) return InvalidArgument("an empty program");
    for (Expr e : program.scalars) LS_RETURN_IF_ERROR(CheckOwned(e, "a scalar of the program"));
    for (size_t i = 0; i < program.code.size(); ++i) {
      Status status = CheckInstruction(program, i, inputs);
      if (!status.ok()) return std::move(status).Prefixed(fmt::format("instruction {}", i));
    }
    return {};
  }

  Status CheckInstruction(const PointwiseProgram& program, size_t index,
                          std::span<const TensorType* const> inputs) const {
    const PwInstr& instr = program.code[index];
    if (instr.op >= PwOp::kCount || static_cast<int>(instr.dtype) >= kDTypeCount)
      return InvalidArgument("no such operation ({}) or dtype ({})", static_cast<int>(instr.op),
                             static_cast<int>(instr.dtype));
    const uint32_t operands[] = {instr.a, instr.b, instr.c};
    for (int i = 0; i < OperandCount(instr.op); ++i)
      if (operands[i] >= index)
        return InvalidArgument("{} reads t{}, which is not before it", Name(instr.op), operands[i]);

    const auto slot = static_cast<uint64_t>(instr.imm);  // a negative one is out of any range
    switch (instr.op) {
      case PwOp::kLoad:
        if (slot >= inputs.size() || !inputs[slot])
          return InvalidArgument("loads input {} of {}", instr.imm, inputs.size());
        if (inputs[slot]->dtype != instr.dtype)
          return InvalidArgument("loads input {} as {}, it is {}", instr.imm,
                                 liveshape::Name(instr.dtype),
                                 liveshape::Name(inputs[slot]->dtype));
        break;
      case PwOp::kScalar:
        if (slot >= program.scalars.size())
          return InvalidArgument("reads scalar {} of {}", instr.imm, program.scalars.size());
        if (program.scalars[slot].is_float_valued() && !IsFloat(instr.dtype))
          return InvalidArgument("reads scalar {} as {}: it is a float", instr.imm,
                                 liveshape::Name(instr.dtype));
        break;
      case PwOp::kConst:
        if (!ConstantFits(instr))
          return InvalidArgument("the constant {} does not fit {}", instr.imm,
                                 liveshape::Name(instr.dtype));
        break;
      default: break;
    }
    return {};
  }

  static bool ConstantFits(const PwInstr& instr) {
    const int64_t v = instr.imm;
    switch (instr.dtype) {
      case DType::kI32: return v == static_cast<int32_t>(v);
      case DType::kI16: return v == static_cast<int16_t>(v);
      case DType::kI8: return v == static_cast<int8_t>(v);
      case DType::kU8: return v == static_cast<uint8_t>(v);
      case DType::kBool: return v == 0 || v == 1;
      default: return true;
    }
  }

  static Status CheckProgramResult(const PointwiseProgram& program, const TensorType& output) {
    for (const PwInstr& instr : program.code)
      if (instr.op == PwOp::kIota && static_cast<uint64_t>(instr.imm) >= output.dims.size())
        return InvalidArgument("iota along dim {} of {}", instr.imm, ToString(output));
    if (program.code.back().dtype != output.dtype)
      return InvalidArgument("the program gives {}, the output is {}",
                             liveshape::Name(program.code.back().dtype), ToString(output));
    return {};
  }

  Status CheckResult(const Output& output) const {
    const std::string what = fmt::format("output `{}`", output.name);
    LS_RETURN_IF_ERROR(CheckExpr(output.scalar, what));
    return CheckKnown(output.scalar).Prefixed(what);
  }

  Status CheckResults() const {
    for (const Output& output : graph_.outputs) {
      if (output.value == kNoValue)
        LS_RETURN_IF_ERROR(CheckResult(output));
      else if (!IsDefined(output.value))
        return InvalidArgument("output `{}` is value %{}, which nothing makes", output.name,
                               output.value);
      else
        LS_RETURN_IF_ERROR(CheckDense(output.value, fmt::format("output `{}`", output.name)));
    }
    for (const State& state : graph_.states) {
      if (!IsDefined(state.result))
        return InvalidArgument("state `{}` becomes value %{}, which nothing makes", state.name,
                               state.result);
      if (!Agree(graph_.type(state.result), graph_.type(state.value)))
        return InvalidArgument("state `{}` is {}, its result %{} is {}", state.name,
                               ToString(graph_.type(state.value)), state.result,
                               ToString(graph_.type(state.result)));
      LS_RETURN_IF_ERROR(CheckDense(state.result, fmt::format("state `{}`", state.name)));
    }
    return {};
  }

  Status CheckShapeFacts() const {
    for (const Guard& guard : graph_.guards) {
      LS_RETURN_IF_ERROR(CheckExpr(guard.condition, fmt::format("guard `{}`", guard.text)));
      LS_RETURN_IF_ERROR(
          CheckKnown(guard.condition).Prefixed(fmt::format("guard `{}`", guard.text)));
    }
    for (const HostValue& host : graph_.host_values) {
      if (host.symbol >= table_.symbols().size())
        return InvalidArgument("a host value is symbol {} of {}", host.symbol,
                               table_.symbols().size());
      const std::string& name = table_.symbols()[host.symbol].name;
      LS_RETURN_IF_ERROR(CheckExpr(host.element, fmt::format("the element of `{}`", name)));
      if (table_.symbols()[host.symbol].stage != 1 || table_.StageOf(host.element) != 0)
        return InvalidArgument(
            "host value `{}` must be a symbol of stage 1 whose place is known at bind", name);
      ValueId source = kNoValue;
      if (host.source == Origin::kInput && host.index < graph_.inputs.size())
        source = graph_.inputs[host.index].value;
      if (host.source == Origin::kState && host.index < graph_.states.size())
        source = graph_.states[host.index].value;
      if (source == kNoValue)
        return InvalidArgument("host value `{}` is read from no tensor input and no state", name);
      if (!IsInteger(graph_.type(source).dtype))
        return InvalidArgument("host value `{}` is read from `{}`, which is {}: not integers", name,
                               graph_.value(source).name, ToString(graph_.type(source)));
    }
    return {};
  }

  const Graph& graph_;
  sym::Table& table_;
  std::vector<bool> defined_;
  std::vector<bool> known_;  // symbols that have a value by now
};

}  // namespace

std::optional<size_t> DenseBytes(DType dtype, std::span<const int64_t> dims) {
  size_t bytes = SizeOf(dtype);
  for (int64_t d : dims)
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(d), &bytes)) return {};
  return bytes;
}

std::optional<size_t> StoredBytes(const Constant& constant) {
  const bool quantised = constant.encoding != Encoding::kPlain;
  if (constant.layout == ConstantLayout::kPlain)
    return quantised ? std::nullopt : DenseBytes(constant.dtype, constant.dims);
  if (constant.dims.size() != 2) return {};
  const int64_t rows = constant.dims[0], cols = constant.dims[1];
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() - 31;
  if (rows < 0 || cols < 0 || rows > kMost || cols > kMost) return {};
  const int64_t panels = (rows + 15) / 16, groups = (cols + 31) / 32;
  if (!quantised) return DenseBytes(constant.dtype, std::array{panels * 16, cols});
  if (constant.dtype != DType::kF32 && constant.dtype != DType::kF16 &&
      constant.dtype != DType::kBF16)
    return {};
  const int64_t bits = constant.encoding == Encoding::kQ8SymG32 ? 8 : 4;
  const int64_t block = 16 * (2 + 32 * bits / 8);  // a scale and 32 elements for each of 16 rows
  return DenseBytes(DType::kU8, std::array{panels, groups, block});
}

Status Verify(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace liveshape::ir
