// What index and index_put share: torch's rule for the dims of x[..., i, ..., j, ...].
#pragma once

#include "ops/aten.h"
#include "ops/rules.h"

namespace liveshape::ops {

// Checks `axes` against the indices (inputs from `first_index` on) and gives the dims of the result.
Result<Dims> IndexedDims(const InferContext& c, const Dims& x, size_t first_index);

// How many dims of x[..., i, ..., j, ...] stand behind those that the indices give.
size_t DimsBehindIndices(const std::vector<int64_t>& axes, size_t rank);

// ATen's optional index tensors: their axes, and the tensors broadcast to one shape. A mask stands for as
// many indices as it has dims; what the export calls the number of its true elements is found in `exported`, the dims
// that it gives x[indices], or tensors that broadcast to them.
struct IndexArgs {
  std::vector<int64_t> axes;
  std::vector<ValueId> tensors;
  // Negative indices count from the end. Attribute `wrap`; false for ATen's ops on one dim (gather, scatter, index_select,
  // index_copy), to which a negative index is an error.
  bool wrap = true;
};
IndexArgs ReadIndices(AtenCall& c, ValueId x, const std::vector<ValueId>& indices,
                      const Dims& exported);
bool IsMask(const AtenCall& c, ValueId index);
// An index on every dim: `index` along `dim`, its own position along the others. What gather reads and
// scatter writes: x[index[i, j, k], j, k]. Nothing wraps.
IndexArgs AlongDim(AtenCall& c, ValueId index, int64_t dim);

// x read from the end of `dim`: strides of views are not negative.
ValueId Backwards(AtenCall& c, ValueId x, int64_t dim);

}  // namespace liveshape::ops
