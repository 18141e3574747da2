// Weights of linear layers and embeddings in 8 or 4 bits, on request. Like packing, it takes only constants
// that row readers alone use, so that nothing else has to know of the encoding.
#include <algorithm>

#include "ir/op.h"
#include "ops/linear/quantised.h"
#include "passes/passes.h"
#include "passes/weights.h"

namespace liveshape::passes {

Status QuantiseWeights(ir::Graph& graph, const PassOptions& options) {
  if (options.quantise == ir::Encoding::kPlain) return {};
  WeightEditor weights(graph);
  for (const Weight& weight : weights.found()) {
    const bool readable = std::ranges::all_of(
        weight.readers, [&](uint32_t node) { return graph.nodes[node].op->reads_quantised; });
    if (!readable) continue;
    const ir::Constant& c = graph.constants[weight.constant];
    auto packed = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(
        ops::QuantisedBytes(options.quantise, weight.source.rows, weight.source.cols)));
    Status status = ops::Quantise(options.quantise, weight.source, packed->data());
    if (!status.ok())
      return std::move(status).Prefixed(fmt::format(
          "constant `{}` cannot be quantised (compile without --quant, or repair it)", c.name));
    if (options.quantised) options.quantised({c.name, c.data.size(), packed->size()});
    if (options.forget) options.forget(c.data);
    weights.Replace(weight, options.quantise, std::move(packed));
  }
  weights.Finish();
  return EliminateDeadCode(graph, options);
}

}  // namespace liveshape::passes
