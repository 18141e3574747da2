// A constant that is only read reshaped is stored in that shape, so that later passes see what its reader sees:
// a convolution's weight is a matrix.
#include <algorithm>

#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {

Status ReshapeConstants(ir::Graph& graph, const PassOptions& options) {
  const Matcher m(graph);
  std::vector<ValueId> replacement(graph.values.size(), ir::kNoValue);
  for (ir::Constant& c : graph.constants) {
    const bool plain = c.layout == ir::ConstantLayout::kPlain && c.encoding == ir::Encoding::kPlain;
    if (!plain || !c.external.empty() || m.IsKept(c.value) || m.Users(c.value).size() != 1)
      continue;
    const Node& reader = graph.nodes[m.Users(c.value)[0]];
    if (reader.op != &ops::kReshape) continue;
    const Dims& dims = graph.type(reader.outputs[0]).dims;
    if (!std::ranges::all_of(dims, [](Expr d) { return d.is_int(); })) continue;
    c.dims.clear();
    for (Expr d : dims) c.dims.push_back(d.value());
    graph.values[c.value].type.dims = dims;
    replacement[reader.outputs[0]] = c.value;
  }
  graph.ReplaceUses(replacement);
  return EliminateDeadCode(graph, options);
}

}  // namespace liveshape::passes
