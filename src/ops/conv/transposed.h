#pragma once

#include "ops/aten.h"

namespace liveshape::ops {

// conv_transpose over `spatial` dims: the convolution that it is, of an input with zeros between its pixels.
std::vector<ValueId> TransposedConv(AtenCall& c, size_t spatial);

}  // namespace liveshape::ops
