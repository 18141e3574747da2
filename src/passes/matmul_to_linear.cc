// A batched product whose right side is one matrix, repeated, is a linear layer: torch's decomposition of
// `linear` on a batch expands the weight. As a linear its weight is packed and streamed once.
#include <algorithm>

#include "ops/ops.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// The matrix that `value` repeats along its batch dims and no others, or kNoValue.
ValueId RepeatedMatrix(const ir::Graph& graph, const std::vector<uint32_t>& producers,
                       ValueId value) {
  const uint32_t producer = producers[value];
  if (producer == ir::Graph::kNoNode || graph.nodes[producer].op != &ops::kExpand)
    return ir::kNoValue;
  const ValueId source = graph.nodes[producer].inputs[0];
  const ir::Dims &matrix = graph.type(source).dims, &wide = graph.type(value).dims;
  return std::ranges::equal(matrix, std::span(wide).last(2)) ? source : ir::kNoValue;
}

}  // namespace

Status MatmulToLinear(ir::Graph& graph, const PassOptions&) {
  const std::vector<uint32_t> producers = graph.Producers();
  Rewriter rewrite(graph);
  const uint32_t count = static_cast<uint32_t>(graph.nodes.size());
  for (uint32_t n = 0; n < count; ++n) {
    if (graph.nodes[n].op != &ops::kMatmul) continue;
    const ValueId left = graph.nodes[n].inputs[0], old = graph.nodes[n].outputs[0];
    const ValueId matrix = RepeatedMatrix(graph, producers, graph.nodes[n].inputs[1]);
    if (matrix == ir::kNoValue) continue;
    rewrite.Before(n);
    LS_ASSIGN_OR_RETURN(ValueId weight, rewrite.Emit(ops::kPermute, {matrix},
                                                     {{"perm", std::vector<int64_t>{1, 0}}}));
    LS_ASSIGN_OR_RETURN(ValueId product, rewrite.Emit(ops::kLinear, {left, weight}, {}));
    rewrite.Replace(old, product);
  }
  rewrite.Finish();
  return {};
}

}  // namespace liveshape::passes
