// Sizes born from data cut a run into stages. Each symbol gets the earliest stage in which it can be known,
// and nodes come in the order of their stages, so that a run waits for data as seldom as the graph allows.
#include <algorithm>

#include "ir/op.h"
#include "passes/passes.h"

namespace liveshape::passes {

Status OrderByStage(ir::Graph& graph, const PassOptions&) {
  constexpr sym::Stage kBeforeKernels = 1;
  if (std::ranges::none_of(graph.nodes, [](const ir::Node& n) { return n.op->gives_symbol; }))
    return {};
  std::vector<sym::Stage> of_value(graph.values.size(), kBeforeKernels);
  std::vector<std::pair<sym::Stage, ir::Node>> nodes;
  for (ir::Node& node : graph.nodes) {
    sym::Stage stage = kBeforeKernels;
    for (ir::ValueId in : node.inputs)
      if (in != ir::kNoValue) stage = std::max(stage, of_value[in]);
    // Symbols in here were given their stage by nodes before this one.
    graph.ForEachExpr(node, [&](ir::Expr e) { stage = std::max(stage, graph.table().StageOf(e)); });
    for (ir::ValueId out : node.outputs) of_value[out] = stage;
    if (node.op->gives_symbol) {
      if (stage == std::numeric_limits<sym::Stage>::max())
        return Unsupported("sizes are born from sizes {} times over", stage);
      graph.table().SetStage(static_cast<uint32_t>(node.Int("symbol")),
                             static_cast<sym::Stage>(stage + 1));
    }
    nodes.emplace_back(stage, std::move(node));
  }
  std::ranges::stable_sort(nodes, {}, [](const auto& entry) { return entry.first; });
  for (size_t i = 0; i < nodes.size(); ++i) graph.nodes[i] = std::move(nodes[i].second);
  return {};
}

}  // namespace liveshape::passes
