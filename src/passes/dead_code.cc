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

}  // namespace

// From the back: whoever makes a live value, or gives a live symbol its value, is live.
Status EliminateDeadCode(ir::Graph& graph, const PassOptions&) {
  std::vector<bool> live(graph.values.size(), false);
  for (const ir::Output& output : graph.outputs)
    if (output.value != ir::kNoValue) live[output.value] = true;
  for (const ir::State& state : graph.states)
    if (state.result != ir::kNoValue) live[state.result] = true;
  std::vector<bool> live_symbols(graph.table().symbols().size(), false);
  for (const ir::Output& output : graph.outputs) MarkSymbols(graph, output.scalar, live_symbols);
  for (const ir::Guard& guard : graph.guards) MarkSymbols(graph, guard.condition, live_symbols);
  std::vector<bool> keep(graph.nodes.size(), false);
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const ir::Node& node = graph.nodes[n];
    keep[n] = node.op->gives_symbol && live_symbols[static_cast<size_t>(node.Int("symbol"))];
    for (ir::ValueId out : node.outputs) keep[n] = keep[n] || live[out];
    if (!keep[n]) continue;
    for (ir::ValueId in : node.inputs)
      if (in != ir::kNoValue) live[in] = true;
    graph.ForEachExpr(node, [&](ir::Expr e) { MarkSymbols(graph, e, live_symbols); });
  }
  std::vector<ir::Node> nodes;
  for (size_t n = 0; n < graph.nodes.size(); ++n)
    if (keep[n]) nodes.push_back(std::move(graph.nodes[n]));
  graph.nodes = std::move(nodes);
  DropUnusedConstants(graph, live);
  DropUnusedHostValues(graph, live_symbols);
  return {};
}

}  // namespace liveshape::passes
