// What a pointwise chain computes on scratchpad bytes: the CPU's tile functions, over the tile of a compute record.
// Operands: the result, then the inputs, all dense. Indices along a dim come from the record's extents and arguments.
#pragma once

#include "backends/npu/lower/kernel.h"

namespace liveshape::npu {

Result<ValueFunction> PointwiseValues(const ir::PointwiseProgram& program,
                                      std::vector<DType> inputs);

}  // namespace liveshape::npu
