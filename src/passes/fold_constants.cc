// What depends on constants only is computed once, at compile, by the kernels that would compute it later.
#include "ir/op.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

constexpr int64_t kMostBytes =
    16 << 20;  // a broadcast folded to its full size would bloat the artifact

bool IsStatic(const ir::TensorType& type) {
  int64_t bytes = static_cast<int64_t>(SizeOf(type.dtype));
  for (ir::Expr d : type.dims) {
    if (!d.is_int() || d.value() < 0 || (d.value() > 0 && bytes > kMostBytes / d.value()))
      return false;
    bytes *= d.value();
  }
  return true;
}

bool HasSymbols(const ir::Graph& graph, const ir::Node& node) {
  auto dynamic = [&](const std::vector<ir::Expr>& list) {
    for (ir::Expr e : list)
      if (!graph.table().FreeSymbols(e).empty()) return true;
    return false;
  };
  for (const auto& [name, attr] : node.attrs) {
    if (auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr); exprs && dynamic(*exprs))
      return true;
    if (auto* program = std::get_if<ir::PointwiseProgram>(&attr);
        program && dynamic(program->scalars))
      return true;
  }
  return false;
}

ir::Attrs ImportAttrs(const ir::Attrs& attrs, sym::Table& table) {
  ir::Attrs copy = attrs;
  for (auto& [name, attr] : copy) {
    if (auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr))
      for (ir::Expr& e : *exprs) e = table.Import(e);
    if (auto* program = std::get_if<ir::PointwiseProgram>(&attr))
      for (ir::Expr& e : program->scalars) e = table.Import(e);
  }
  return copy;
}

}  // namespace

Status FoldConstants(ir::Graph& graph, const PassOptions& options) {
  if (!options.evaluate) return {};
  const std::vector<uint32_t> producers = graph.Producers();
  std::vector<bool> constant(graph.values.size(), false), folded(graph.values.size(), false);
  for (const ir::Constant& c : graph.constants) constant[c.value] = c.external.empty();
  for (const ir::Node& node : graph.nodes) {
    bool fold = !HasSymbols(graph, node);
    for (ir::ValueId in : node.inputs) fold = fold && (in == ir::kNoValue || constant[in]);
    for (ir::ValueId out : node.outputs) fold = fold && IsStatic(graph.type(out));
    for (ir::ValueId out : node.outputs) constant[out] = folded[out] = fold;
  }
  // What the rest of the graph reads of it. A view costs nothing, so what lies behind it is folded instead;
  // a program without inputs (an arange, a fill) is cheaper to run than to load.
  auto source = [&](ir::ValueId v) {
    while (folded[v] && graph.nodes[producers[v]].op->view) v = graph.nodes[producers[v]].inputs[0];
    return v;
  };
  std::vector<ir::ValueId> frontier;
  std::vector<bool> in_frontier(graph.values.size(), false);
  auto want = [&](ir::ValueId v) {
    if (v == ir::kNoValue || !folded[v]) return;
    v = source(v);
    if (!folded[v] || in_frontier[v] || graph.nodes[producers[v]].inputs.empty()) return;
    in_frontier[v] = true;
    frontier.push_back(v);
  };
  const auto is_folded = [&](const ir::Node& node) {
    return !node.outputs.empty() && folded[node.outputs[0]];
  };
  for (const ir::Node& node : graph.nodes)
    if (!is_folded(node))
      for (ir::ValueId in : node.inputs) want(in);
  for (const ir::Output& output : graph.outputs) want(output.value);
  for (const ir::State& state : graph.states) want(state.result);
  if (frontier.empty()) return {};

  auto constants = std::make_unique<ir::Graph>();
  std::vector<ir::ValueId> moved(graph.values.size(), ir::kNoValue);
  for (const ir::Constant& c : graph.constants)
    if (c.external.empty()) moved[c.value] = constants->AddConstant(c);
  for (const ir::Node& node : graph.nodes) {
    if (!is_folded(node)) continue;
    std::vector<ir::ValueId> inputs;
    for (ir::ValueId in : node.inputs) inputs.push_back(in == ir::kNoValue ? in : moved[in]);
    LS_ASSIGN_OR_RETURN(auto outputs,
                        constants->AddNode(*node.op, std::move(inputs),
                                           ImportAttrs(node.attrs, constants->table()), node.name));
    for (size_t i = 0; i < outputs.size(); ++i) moved[node.outputs[i]] = outputs[i];
  }
  for (ir::ValueId v : frontier)
    constants->outputs.push_back({.name = graph.value(v).name, .value = moved[v]});
  LS_RETURN_IF_ERROR(EliminateDeadCode(*constants, options));
  LS_ASSIGN_OR_RETURN(auto results, options.evaluate(std::move(constants)));

  std::vector<ir::ValueId> replacement(graph.values.size(), ir::kNoValue);
  for (size_t i = 0; i < frontier.size(); ++i) {
    const ir::TensorType& type = graph.type(frontier[i]);
    ir::Constant c;
    c.name = fmt::format("folded.{}", graph.value(frontier[i]).name);
    c.dtype = type.dtype;
    for (ir::Expr d : type.dims) c.dims.push_back(d.value());
    auto bytes = std::make_shared<std::vector<std::byte>>(std::move(results.at(i)));
    c.data = *bytes;
    c.owner = bytes;
    replacement[frontier[i]] = graph.AddConstant(std::move(c));
  }
  replacement.resize(graph.values.size(), ir::kNoValue);
  graph.ReplaceUses(replacement);
  return EliminateDeadCode(graph, options);
}

}  // namespace liveshape::passes
