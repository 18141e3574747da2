// f32 windows, rows first. Where windows overlap or reach beyond the image, in two steps, the second from cache: the rows
// of a window into one row, then its taps; else in one, for many rows of the output.
#pragma once

#include <cstdint>

namespace liveshape::cpu {

// Elements beyond the last one asked for that `rows` may write.
inline constexpr int64_t kPoolSlack = 64;

// Of the windows of a row of the output.
struct PoolTaps {
  const float* from;
  int64_t rows, row_step;  // of a window: how many, how far apart
  int64_t readable;        // elements that may be read from the window's last row on
  int64_t stride, taps, dilation;
};

struct PoolOutput {
  int64_t count;
  int64_t from_step, to_step;  // from one to the next: elements of the image, of the output
};

struct PoolRows {
  // to[i] = maximum or sum of the `count` rows' [i], i < n; `to` may be one of them. A NaN on any side stays.
  void (*rows)(const float* const* rows, int64_t count, int64_t n, float* to);
  // to[j] = maximum, or sum / divisor, over q < taps of the rows' [j * stride + q * dilation], j < n; and so for each of
  // the rows of the output. What lies between two of these, n.. to_step, may be overwritten.
  void (*taps)(const PoolTaps& t, const PoolOutput& rows, int64_t n, float divisor, float* to);
};
PoolRows FindPoolRows(bool max);  // for the active ISA

}  // namespace liveshape::cpu
