#include <bit>
#include <iterator>

#include "ir/graph.h"
#include "ir/op.h"

namespace liveshape::ir {
namespace {

template <typename List, typename ToText>
std::string Join(const List& list, ToText to_text) {
  std::string text;
  for (const auto& item : list) {
    if (!text.empty()) text += ", ";
    text += to_text(item);
  }
  return text;
}

std::string Text(Expr e) { return e ? sym::ToString(e) : "?"; }

// Shortest text that reads back to the same double, and that shows it is one: `1.0`, `1e-06`.
std::string Text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string Text(const PointwiseProgram& program, size_t index) {
  const PwInstr& instr = program.code[index];
  std::string text = fmt::format("t{}:{} = {}", index, Name(instr.dtype), Name(instr.op));
  switch (instr.op) {
    case PwOp::kConst:
      return text + " " +
             (IsFloat(instr.dtype) ? Text(std::bit_cast<double>(instr.imm))
                                   : std::to_string(instr.imm));
    case PwOp::kScalar: {
      const auto slot = static_cast<uint64_t>(instr.imm);
      return text + " " + (slot < program.scalars.size() ? Text(program.scalars[slot]) : "?");
    }
    case PwOp::kLoad:
    case PwOp::kIota: return text + " " + std::to_string(instr.imm);
    default: break;
  }
  const uint32_t operands[] = {instr.a, instr.b, instr.c};
  for (int i = 0; i < OperandCount(instr.op); ++i) text += fmt::format(" t{}", operands[i]);
  return text;
}

std::string ValueText(const Graph& graph, ValueId id) {
  if (id >= graph.values.size()) return fmt::format("%{} (no such value)", id);
  const Value& value = graph.value(id);
  return fmt::format("%{} {}: {}", id, value.name, ToString(value.type));
}

std::string NodeText(const Graph& graph, const Node& node) {
  std::string text = Join(node.outputs, [&](ValueId id) { return ValueText(graph, id); });
  text += fmt::format(" = {}({})", node.op ? node.op->name : "?", Join(node.inputs, [](ValueId id) {
                        return id == kNoValue ? std::string("none") : fmt::format("%{}", id);
                      }));
  for (const auto& [key, attr] : node.attrs) text += fmt::format(" {}={}", key, ToString(attr));
  // The node's name is told only where no output carries it.
  std::string remark;
  if (node.outputs.size() != 1 || node.outputs[0] >= graph.values.size() ||
      graph.value(node.outputs[0]).name != node.name)
    remark += " " + node.name;
  if (!node.source.empty()) remark += " " + node.source;
  return remark.empty() ? text : text + "   #" + remark;
}

}  // namespace

const char* Name(Encoding encoding) {
  constexpr const char* kNames[] = {"plain", "q8_sym_g32", "q4_sym_g32"};
  return kNames[static_cast<int>(encoding)];
}

const char* Name(ConstantLayout layout) {
  constexpr const char* kNames[] = {"plain", "panel16"};
  return kNames[static_cast<int>(layout)];
}

namespace {

std::string ConstantText(const Graph& graph, const Constant& constant) {
  std::string text = ValueText(graph, constant.value);
  if (constant.encoding != Encoding::kPlain) text += fmt::format(" {}", Name(constant.encoding));
  if (constant.layout != ConstantLayout::kPlain) text += fmt::format(" {}", Name(constant.layout));
  if (!constant.external.empty()) text += fmt::format(" external `{}`", constant.external);
  if (!constant.data.empty()) text += fmt::format(" {} bytes", constant.data.size());
  return text;
}

std::string StateText(const Graph& graph, const State& state) {
  std::string text = ValueText(graph, state.value);
  return state.result == state.value ? text + " read only"
                                     : text + fmt::format(" -> %{}", state.result);
}

std::string SymbolText(const sym::SymbolInfo& symbol) {
  std::string text = symbol.name;
  if (!symbol.display.empty()) text += fmt::format(" `{}`", symbol.display);
  text += fmt::format(" in [{}, {}]", symbol.lo,
                      symbol.hi == sym::Interval::kPosInf ? "inf" : std::to_string(symbol.hi));
  if (symbol.stage != 0) text += fmt::format(" stage {}", symbol.stage);
  return text;
}

std::string HostValueText(const Graph& graph, const HostValue& host) {
  const auto& symbols = graph.table().symbols();
  const std::string symbol = host.symbol < symbols.size() ? symbols[host.symbol].name : "?";
  std::string source = "?";
  if (host.source == Origin::kInput && host.index < graph.inputs.size())
    source = graph.inputs[host.index].name;
  if (host.source == Origin::kState && host.index < graph.states.size())
    source = graph.states[host.index].name;
  return fmt::format("{} = {}[{}]", symbol, source, Text(host.element));
}

template <typename List, typename ToText>
void Section(std::string& out, const char* title, const List& list, ToText to_text) {
  if (list.empty()) return;
  out += title;
  out += '\n';
  for (const auto& item : list) out += "  " + to_text(item) + "\n";
}

}  // namespace

std::string ToString(const TensorType& type) {
  return fmt::format("{}[{}]", liveshape::Name(type.dtype),
                     Join(type.dims, [](Expr e) { return Text(e); }));
}

std::string ToString(const Attr& attr) {
  struct {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return Text(v); }
    std::string operator()(const std::string& v) const { return fmt::format("\"{}\"", v); }
    std::string operator()(const std::vector<int64_t>& v) const {
      return "[" + Join(v, [](int64_t i) { return std::to_string(i); }) + "]";
    }
    std::string operator()(const std::vector<Expr>& v) const {
      return "[" + Join(v, [](Expr e) { return Text(e); }) + "]";
    }
    std::string operator()(const PointwiseProgram& v) const {
      std::string text;
      for (size_t i = 0; i < v.code.size(); ++i) text += (i ? "; " : "") + Text(v, i);
      return "{" + text + "}";
    }
  } to_text;
  return std::visit(to_text, attr);
}

std::string Print(const Graph& graph) {
  std::string out = fmt::format("graph {}\n", graph.name);
  Section(out, "symbols", graph.table().symbols(), SymbolText);
  Section(out, "inputs", graph.inputs, [&](const Input& input) {
    return (input.value == kNoValue ? fmt::format("{}: int = {}", input.name, Text(input.scalar))
                                    : ValueText(graph, input.value)) +
           (input.used ? "" : " unused");
  });
  Section(out, "states", graph.states, [&](const State& s) { return StateText(graph, s); });
  Section(out, "constants", graph.constants,
          [&](const Constant& c) { return ConstantText(graph, c); });
  Section(out, "host values", graph.host_values,
          [&](const HostValue& h) { return HostValueText(graph, h); });
  Section(out, "nodes", graph.nodes, [&](const Node& n) { return NodeText(graph, n); });
  Section(out, "outputs", graph.outputs, [](const Output& output) {
    return output.value == kNoValue ? fmt::format("{}: int = {}", output.name, Text(output.scalar))
                                    : fmt::format("{} = %{}", output.name, output.value);
  });
  Section(out, "guards", ListedGuards(graph),
          [](const Guard& guard) { return Text(guard.condition) + "   # " + guard.text; });
  return out;
}

}  // namespace liveshape::ir
