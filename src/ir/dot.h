// The graph for Graphviz: `dot -Tsvg`. Ops are boxes, with constants folded into their labels; inputs, outputs and
// states have shapes of their own; edges carry dtype and dims as expressions, dashed where a state is updated.
#pragma once

#include <string>

#include "ir/graph.h"

namespace liveshape::ir {

std::string ToDot(const Graph& graph);

}  // namespace liveshape::ir
