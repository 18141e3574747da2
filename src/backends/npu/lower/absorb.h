// Copies that need not be made. A reshape that strides cannot express is a step of its own in the plan; a pointwise
// chain that reads its result can read the source instead, if the axes of both have a common refinement
// (sym/axis_split.h) and the source still lies there. Then the copy has no kernel.
#pragma once

#include <map>
#include <vector>

#include "plan/locations.h"

namespace liveshape::npu {

struct Absorbed {
  std::vector<bool> dropped;  // by step
  // By step, then by input: what it reads instead.
  std::vector<std::map<size_t, const plan::Operand*>> instead;
};

Absorbed AbsorbCopies(const ir::Graph& graph, const plan::Plan& plan,
                      const plan::Locations& locations);

}  // namespace liveshape::npu
