#include <iterator>

#include "import/pt2/dump.h"

namespace liveshape::pt2 {
namespace {

// `Symbol('s0', positive=True, integer=True)` -> `s0`, `Integer(2)` -> `2`: the structure stays, the noise goes.
std::string ShortExpr(std::string_view expr) {
  constexpr std::string_view kSymbol = "Symbol('", kInteger = "Integer(";
  std::string text;
  while (!expr.empty()) {
    const std::string_view start = expr.starts_with(kSymbol)    ? kSymbol
                                   : expr.starts_with(kInteger) ? kInteger
                                                                : "";
    if (!start.empty()) {
      const size_t end = expr.find(start == kSymbol ? '\'' : ')', start.size());
      const size_t close = end == expr.npos ? end : expr.find(')', end);
      if (close != expr.npos) {
        text += expr.substr(start.size(), end - start.size());
        expr.remove_prefix(close + 1);
        continue;
      }
    }
    text += expr[0];
    expr.remove_prefix(1);
  }
  return text;
}

std::string Str(const SymInt& value) {
  return value.is_expr() ? ShortExpr(value.expr) : fmt::format("{}", value.value);
}

template <typename T>
std::string Str(const SymArg<T>& arg) {
  return arg.is_name() ? arg.name : fmt::format("{}", arg.value);
}

std::string Str(const Arg& arg);

template <typename T>
std::string Join(const std::vector<T>& list) {
  std::string text;
  for (const auto& element : list)
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ", ", Str(element));
  return text;
}

std::string Str(const Arg& arg) {
  if (auto name = arg.value_name(); !name.empty()) return std::string(name);
  if (auto* graph = arg.As<GraphArg>())
    return fmt::format("graph {} ({} nodes)", graph->name, graph->graph->nodes.size());
  if (auto* list = arg.As<std::vector<SymIntArg>>()) return fmt::format("[{}]", Join(*list));
  if (auto names = arg.tensors()) return fmt::format("[{}]", fmt::join(*names, ", "));
  return DumpArg(arg);
}

std::string Str(const TensorMeta& meta) {
  return fmt::format("{}[{}]", Name(meta.dtype), Join(meta.sizes));
}

// The graph value's type, where it is a tensor or a symbolic int.
std::string TypeOf(const Graph& graph, const Arg& arg) {
  if (auto name = arg.tensor())
    if (const TensorMeta* meta = graph.FindTensor(*name)) return Str(*meta);
  if (auto* sym = arg.As<SymIntArg>(); sym && sym->is_name())
    if (auto found = graph.sym_int_values.find(sym->name); found != graph.sym_int_values.end())
      return fmt::format("int {}", Str(found->second));
  return arg.kind();
}

void AppendNodes(std::string& out, const Graph& graph, std::string_view indent) {
  for (const Node& node : graph.nodes) {
    out += indent;
    for (size_t i = 0; i < node.outputs.size(); ++i)
      fmt::format_to(std::back_inserter(out), "{}{}: {}", i ? ", " : "", Str(node.outputs[i]),
                     TypeOf(graph, node.outputs[i]));
    if (!node.outputs.empty()) out += " = ";
    out += node.target;
    out += '(';
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const NamedArg& input = node.inputs[i];
      out += i ? ", " : "";
      if (input.is_keyword) fmt::format_to(std::back_inserter(out), "{}=", input.name);
      out += Str(input.arg);
    }
    out += ')';
    if (!node.source.empty()) fmt::format_to(std::back_inserter(out), "  # {}", node.source.str());
    out += '\n';
    for (const NamedArg& input : node.inputs)
      if (auto* sub = input.arg.As<GraphArg>()) {
        fmt::format_to(std::back_inserter(out), "{}  graph {}({}) -> {}:\n", indent, sub->name,
                       Join(sub->graph->inputs), Join(sub->graph->outputs));
        AppendNodes(out, *sub->graph, fmt::format("{}    ", indent));
      }
  }
}

}  // namespace

std::string DumpText(const Pt2Archive& archive) {
  const Program& program = archive.program();
  std::string out;
  const auto line = [&]<typename... Args>(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
    out += '\n';
  };
  line("pt2: torch {}, schema {}.{}, dialect {}, {} nodes{}", program.torch_version,
       program.schema_version.major, program.schema_version.minor, program.dialect,
       program.graph.nodes.size(), archive.weights_dropped() ? ", weights dropped" : "");
  line("inputs:");
  for (const InputSpec& spec : program.input_specs) {
    const Weight* weight = archive.FindWeight(spec);
    line("  {}: {}  {} {}{}",
         spec.arg.value_name().empty() ? Str(spec.arg) : std::string(spec.arg.value_name()),
         TypeOf(program.graph, spec.arg), Name(spec.kind),
         spec.target.empty() ? spec.path : spec.target,
         weight ? fmt::format(" at {}+{}", archive.storage(*weight).path, weight->storage_offset)
                : "");
  }
  line("outputs:");
  for (const OutputSpec& spec : program.output_specs)
    line("  {}: {}  {} {}", Str(spec.arg), TypeOf(program.graph, spec.arg), Name(spec.kind),
         spec.target.empty() ? spec.path : spec.target);
  line("ranges:");
  for (const auto& [key, range] : program.range_constraints)
    line("  {} in [{}, {}]", key, range.lo ? fmt::format("{}", *range.lo) : "-inf",
         range.hi ? fmt::format("{}", *range.hi) : "inf");
  if (!program.guards_code.empty()) line("guards:");
  for (const std::string& guard : program.guards_code) line("  {}", guard);
  line("nodes:");
  AppendNodes(out, program.graph, "  ");
  if (!archive.extras().empty()) line("extra files:");
  for (const auto& [name, text] : archive.extras()) line("  {} ({} bytes)", name, text.size());
  return out;
}

}  // namespace liveshape::pt2
