// What index and index_put share: torch's rule for the dims of x[..., i, ..., j, ...].
#pragma once

#include "ops/aten.h"
#include "ops/rules.h"

namespace liveshape::ops {

// Checks `axes` against the indices (inputs from `first_index` on) and gives the dims of the result.
Result<Dims> IndexedDims(const InferContext& c, const Dims& x, size_t first_index);

// ATen's optional index tensors: their axes, and the tensors broadcast to one shape.
struct IndexArgs {
  std::vector<int64_t> axes;
  std::vector<ValueId> tensors;
};
// An index on every dim: `index` along `dim`, its own position along the others. What gather reads and
// scatter writes: x[index[i, j, k], j, k].
IndexArgs AlongDim(AtenCall& c, ValueId index, int64_t dim);
IndexArgs ReadIndices(AtenCall& c, ValueId x, const std::vector<ValueId>& indices);

}  // namespace liveshape::ops
