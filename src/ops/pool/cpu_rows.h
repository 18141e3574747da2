// f32 windows in two steps, the second from cache: rows of the window into one row, then its taps.
#pragma once

#include <cstdint>

namespace liveshape::cpu {

// Elements that a caller of `taps` must be able to read (and does not need) beyond the last it asks for.
inline constexpr int64_t kPoolSlack = 64;

struct PoolRows {
  // to[i] = maximum or sum of the `count` rows' [i], i < n; `to` may be one of them. A NaN on any side stays.
  void (*rows)(const float* const* rows, int64_t count, int64_t n, float* to);
  // to[j] = maximum or sum over q < taps of from[j * stride + q * dilation], j < n.
  void (*taps)(const float* from, int64_t stride, int64_t taps, int64_t dilation, int64_t n,
               float* to);
};
PoolRows FindPoolRows(bool max);  // for the active ISA

}  // namespace liveshape::cpu
