#include "ir/op.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// Keeps the constants that are read; values refer to constants by index, so those are renumbered.
void DropUnusedConstants(ir::Graph& graph, const std::vector<bool>& live) {
  std::vector<ir::Constant> kept;
  for (ir::Constant& constant : graph.constants) {
    if (!live[constant.value]) continue;
    graph.values[constant.value].index = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(constant));
  }
  graph.constants = std::move(kept);
}

// A host value that nothing asks for any more costs a read of data in every run.
void DropUnusedHostValues(ir::Graph& graph, const std::vector<bool>& live_symbols) {
  std::erase_if(graph.host_values, [&](const ir::HostValue& h) { return !live_symbols[h.symbol]; });
}

void MarkSymbols(const ir::Graph& graph, ir::Expr e, std::vector<bool>& live) {
  if (e)
    for (uint32_t s : graph.table().FreeSymbols(e)) live[s] = true;
}

std::vector<bool> LiveSymbols(const ir::Graph& graph) {
  std::vector<bool> live(graph.table().symbols().size(), false);
  for (const ir::Node& node : graph.nodes) {
    for (ir::ValueId out : node.outputs)
      for (ir::Expr d : graph.type(out).dims) MarkSymbols(graph, d, live);
    for (const auto& [name, attr] : node.attrs) {
      if (auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr))
        for (ir::Expr e : *exprs) MarkSymbols(graph, e, live);
      if (auto* program = std::get_if<ir::PointwiseProgram>(&attr))
        for (ir::Expr e : program->scalars) MarkSymbols(graph, e, live);
    }
  }
  for (const ir::Output& output : graph.outputs) MarkSymbols(graph, output.scalar, live);
  for (const ir::Guard& guard : graph.guards) MarkSymbols(graph, guard.condition, live);
  return live;
}

}  // namespace

Status EliminateDeadCode(ir::Graph& graph, const PassOptions&) {
  std::vector<bool> live(graph.values.size(), false);
  for (const ir::Output& output : graph.outputs)
    if (output.value != ir::kNoValue) live[output.value] = true;
  for (const ir::State& state : graph.states)
    if (state.result != ir::kNoValue) live[state.result] = true;
  std::vector<bool> keep(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    for (ir::ValueId out : graph.nodes[n].outputs) keep[n] = keep[n] || live[out];
    if (!keep[n]) continue;
    for (ir::ValueId in : graph.nodes[n].inputs)
      if (in != ir::kNoValue) live[in] = true;
  }
  std::vector<ir::Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (keep[n]) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);
  DropUnusedConstants(graph, live);
  DropUnusedHostValues(graph, LiveSymbols(graph));
  return {};
}

}  // namespace liveshape::passes
