#include "ir/dot.h"

#include "ir/op.h"

namespace liveshape::ir {
namespace {

// Inside double quotes; `\n` in a label is a line break and is written by us, not found in names.
std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

std::string Shortened(std::string text) {
  constexpr size_t kMost = 60;
  return text.size() > kMost ? text.substr(0, kMost - 3) + "..." : text;
}

class DotWriter {
 public:
  explicit DotWriter(const Graph& graph) : graph_(graph), source_(graph.values.size()) {}

  std::string Write() {
    out_ = fmt::format("digraph \"{}\" {{\n", Escaped(graph_.name));
    out_ += "  node [shape=box, fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\"];\n";
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const Input& input = graph_.inputs[i];
      const bool scalar = input.value == kNoValue;
      Vertex(fmt::format("input{}", i), "ellipse",
             {input.name, scalar ? "int = " + Text(input.scalar) : ""});
      if (!scalar) source_[input.value] = fmt::format("input{}", i);
    }
    for (size_t i = 0; i < graph_.states.size(); ++i) {
      Vertex(fmt::format("state{}", i), "cylinder",
             {graph_.states[i].name, ToString(graph_.type(graph_.states[i].value))});
      source_[graph_.states[i].value] = fmt::format("state{}", i);
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) Node(n);
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const Output& output = graph_.outputs[i];
      const bool scalar = output.value == kNoValue;
      const std::string id = fmt::format("output{}", i);
      std::vector<std::string> lines = {output.name};
      if (scalar) lines.push_back("int = " + Text(output.scalar));
      if (!scalar && graph_.value(output.value).origin == Origin::kConstant)
        lines.push_back(ConstantLine(output.value));
      Vertex(id, "ellipse", lines);
      if (!scalar) Edge(output.value, id, "");
    }
    for (size_t i = 0; i < graph_.states.size(); ++i)
      if (graph_.states[i].result != graph_.states[i].value)
        Edge(graph_.states[i].result, fmt::format("state{}", i), "style=dashed, constraint=false");
    return out_ + "}\n";
  }

 private:
  static std::string Text(Expr e) { return e ? sym::ToString(e) : "?"; }

  std::string ConstantLine(ValueId value) const {
    const Constant& constant = graph_.constants[graph_.value(value).index];
    return fmt::format("{} {}{}", constant.name, ToString(graph_.type(value)),
                       constant.external.empty() ? "" : " external");
  }

  void Vertex(const std::string& id, const char* shape, const std::vector<std::string>& lines) {
    std::string label;
    for (const std::string& line : lines)
      if (!line.empty()) label += (label.empty() ? "" : "\\n") + Escaped(line);
    out_ += fmt::format("  {} [shape={}, label=\"{}\"];\n", id, shape, label);
  }

  // Constants have no vertex, so no edge.
  void Edge(ValueId from, const std::string& to, std::string_view style) {
    if (from == kNoValue || source_[from].empty()) return;
    out_ += fmt::format("  {} -> {} [label=\"{}\"{}{}];\n", source_[from], to,
                        Escaped(ToString(graph_.type(from))), style.empty() ? "" : ", ", style);
  }

  void Node(size_t n) {
    const ir::Node& node = graph_.nodes[n];
    const std::string id = fmt::format("node{}", n);
    std::vector<std::string> lines = {node.op->name, node.name, node.source};
    for (const auto& [key, attr] : node.attrs) {
      const bool program = std::holds_alternative<PointwiseProgram>(attr);
      if (key != "dims") lines.push_back(Shortened((program ? "" : key + "=") + ToString(attr)));
    }
    for (const ValueId in : node.inputs)
      if (in != kNoValue && graph_.value(in).origin == Origin::kConstant)
        lines.push_back(ConstantLine(in));
    Vertex(id, node.op->view ? "plaintext" : "box", lines);
    for (const ValueId in : node.inputs) Edge(in, id, "");
    for (const ValueId out : node.outputs) source_[out] = id;
  }

  const Graph& graph_;
  std::vector<std::string> source_;  // the vertex that gives each value; empty: a constant
  std::string out_;
};

}  // namespace

std::string ToDot(const Graph& graph) { return DotWriter(graph).Write(); }

}  // namespace liveshape::ir
