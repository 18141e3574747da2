// Weights of linear layers and convolutions are stored as the CPU's matmul streams them, so that a load is
// an mmap. A tied embedding reads rows of the same constant: it is stored once.
#include <algorithm>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/weights.h"

namespace liveshape::passes {

Status PackWeights(ir::Graph& graph, const PassOptions& options) {
  WeightEditor weights(graph);
  for (const Weight& weight : weights.found()) {
    const bool has_product = std::ranges::any_of(weight.readers, [&](uint32_t node) {
      return graph.nodes[node].op == &ops::kLinear || graph.nodes[node].op == &ops::kConv;
    });
    if (!has_product) continue;
    const ops::PanelSource& source = weight.source;
    auto packed = std::make_shared<std::vector<std::byte>>(
        static_cast<size_t>(ops::Panel16Bytes(source.rows, source.cols, source.dtype)));
    ops::PackPanel16(source, packed->data());
    if (options.forget) options.forget(graph.constants[weight.constant].data);
    weights.Replace(weight, ir::Encoding::kPlain, std::move(packed));
  }
  weights.Finish();
  return EliminateDeadCode(graph, options);
}

}  // namespace liveshape::passes
