// c[m, n] += a[m, k] * b[k, n], all f32 and row-major: what stands for the arrays. For every element k ascends, so that its
// sum depends on nothing but its row and its column.
#pragma once

#include <cstdint>

namespace liveshape::npu {

struct MultiplyTile {
  float* c;
  const float* a;
  const float* b;
  int64_t m, k, n;
};
void MultiplyAdd(const MultiplyTile& tile);

}  // namespace liveshape::npu
