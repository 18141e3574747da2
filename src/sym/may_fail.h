// Whether evaluating can fail, by ranges. Private to sym/.
#pragma once

#include "sym/node.h"

namespace liveshape::sym {

// Whether applying this node to values of its arguments can fail. Partial sums and products count.
bool OwnStepMayFail(const Node& node);

}  // namespace liveshape::sym
