// Gathers and scatters: x[..., i, ..., j, ...] on one side, on the other a tensor that has the indices' dims in place of
// the axes. For every outer position: load a tile of the indices, turn them into addresses (vector unit: wrap negative
// ones, check, multiply by strides, add), and let the DMA gather or scatter boxes of the inner dims.
#pragma once

#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

struct IndexedMove {
  View x;                     // the side that is indexed
  std::vector<View> indices;  // i64 or i32, of equal dims
  std::vector<size_t> axes;   // of x, one an index
  std::vector<size_t> outer;  // dims of x that lead on the other side
  std::vector<size_t> inner;  // dims of x that end it
  View dense;                 // [outer, indices' dims, inner]
  bool wrap = true;           // negative indices count from the end
  bool scatter = false;       // from dense to x
  bool accumulate = false;    // a scatter that adds: entry by entry, since two may name one place
  // x is a matrix in panels of 16 rows (ops/linear/panel.h), axis 0 indexed.
  bool panels = false;
};

Status LowerIndexed(KernelBuilder& k, const IndexedMove& move);

// Of index and index_put: which dims of x lead, and which end, the side that is not indexed.
void SplitDims(IndexedMove& move);

}  // namespace liveshape::npu
