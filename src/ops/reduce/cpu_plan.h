// A reduction over the live dims: kept and reduced dims apart, extents of 1 dropped, neighbours merged.
#pragma once

#include "backends/cpu/rows.h"

namespace liveshape::cpu {

enum class ReduceKind : uint8_t { kSum, kMean, kProd, kMax, kMin, kAny, kAll };

struct ReducePlan {
  struct Dims {
    int rank = 0;
    int64_t dims[kMaxRank];
    int64_t strides[kMaxRank];
    int64_t count = 1;

    void Append(int64_t extent, int64_t stride) {
      count *= extent;
      if (extent == 1) return;
      const bool merge = rank > 0 && strides[rank - 1] == stride * extent;
      if (!merge) dims[rank++] = 1;
      dims[rank - 1] *= extent;
      strides[rank - 1] = stride;
    }
    int64_t inner() const { return rank == 0 ? 1 : dims[rank - 1]; }
    int64_t inner_stride() const { return rank == 0 ? 0 : strides[rank - 1]; }
  };
  Dims kept, reduced;
  // Memory runs along the kept dims: outputs are made a block of columns at a time, else one by one.
  bool by_columns = false;
};

// Columns a block: accumulators stay in L1, and a row of a block is long enough for the prefetcher (64
// columns of a 4096 x 4096 f32 ran at 4 GB/s: a new page every 256 bytes).
inline constexpr int64_t kReduceColumns = 256;

// Sums of f32, f16 and bf16 along dense runs (cpu_rows.cc); the rest is plain loops (cpu.cc).
using SumRunFn = double (*)(const void* x, int64_t n);
using ExtremeRunFn = float (*)(const void* x, int64_t n);
// out[c] += x[r * row_stride + c] for r < rows, c < columns <= kReduceColumns.
using SumColumnsFn = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t columns,
                              double* out);
struct ReduceRuns {
  SumRunFn sum;
  ExtremeRunFn max, min;
  SumColumnsFn sum_columns;
};
ReduceRuns FindReduceRuns(DType dtype);  // f32, f16 or bf16, for the active ISA

}  // namespace liveshape::cpu
