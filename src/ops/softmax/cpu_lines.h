// Softmax, or its logarithm, of lines of f32, f16 and bf16 (computed in f32) or f64: maximum, exponentials and their
// sum, scaling. A line of only -inf gives NaN, or zeros where that was asked for.
#pragma once

#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

// One line, dense.
struct SoftmaxRow {
  const void* x;
  void* y;      // may be x
  float* exps;  // n floats; may be y where that is f32
  int64_t n;    // > 0
  bool masked_zero;
};

// Neighbouring lines: element i of line c is x[i * x_stride + c]. Vectors hold one element each of several lines, so
// nothing is gathered and nothing is added across lanes.
struct SoftmaxColumns {
  const void* x;
  int64_t x_stride;
  void* y;  // may be x
  int64_t y_stride;
  float* exps;  // SoftmaxColumnFloats(n) floats; not used where y is f32
  int64_t n;    // > 0
  int64_t columns;
  bool masked_zero;
};
inline constexpr int64_t kSoftmaxColumnsAtOnce = 32;  // two vectors of the widest target
inline int64_t SoftmaxColumnFloats(int64_t n) { return n * kSoftmaxColumnsAtOnce; }

struct SoftmaxFns {
  void (*row)(const SoftmaxRow& row);
  void (*columns)(const SoftmaxColumns& columns);  // null for f64
};
SoftmaxFns FindSoftmax(DType dtype, bool log);  // for the active ISA

}  // namespace liveshape::cpu
