// A reduction over the live dims: kept and reduced dims apart, extents of 1 dropped, neighbours merged; and how it is
// cut. Outputs are made a block at a time. Where blocks are few and long, the outermost reduced dim is cut into slices
// too, whose results are merged in order. Both depend on the dims alone, so no result depends on the threads.
#pragma once

#include "backends/cpu/rows.h"
#include "backends/cpu/scratch.h"

namespace liveshape::cpu {

enum class ReduceKind : uint8_t { kSum, kMean, kProd, kMax, kMin, kAny, kAll };

// Outputs a block: accumulators stay in L1, and a row of a block of columns is a page of f32, within which hardware
// fetches ahead (4096 x 4096 f32: 64 columns ran at 4 GB/s, 256 on an Intel Xeon at 22, 1024 at 27).
inline constexpr int64_t kReduceBlock = 1024;
// Slices are cut until there are so many tasks, or so few elements in each.
inline constexpr int64_t kReduceTasks = 32, kReduceTaskElements = 32768;

// Outputs [first, first + n).
struct ReduceBlock { int64_t first, n; };

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
    // To [begin, begin + extent) of the outermost dim, or what there is of it.
    void Narrow(int64_t begin, int64_t extent) {
      extent = std::min(extent, dims[0] - begin);
      count = count / dims[0] * extent;
      dims[0] = extent;
    }
    int64_t outer_stride() const { return rank == 0 ? 0 : strides[0]; }
    int64_t inner() const { return rank == 0 ? 1 : dims[rank - 1]; }
    int64_t inner_stride() const { return rank == 0 ? 0 : strides[rank - 1]; }
  };
  Dims kept, reduced;
  // Memory runs along the kept dims: the outputs of a block are made together, else one by one.
  bool by_columns = false;
  int64_t block = 1;  // outputs of a block; the last of a row of blocks may have fewer
  int64_t blocks = 0;
  int64_t slices = 1, slice = 0;  // how many, and how much of reduced.dims[0] each has

  // Every output is made of one dense run, and these are equally far apart.
  bool IsRuns() const {
    return !by_columns && kept.rank <= 1 && reduced.rank == 1 && reduced.inner_stride() == 1;
  }
  // Once kept and reduced are known.
  void Cut() {
    by_columns = kept.rank > 0 && kept.inner() >= 4 &&
                 (reduced.rank == 0 || kept.inner_stride() < reduced.inner_stride());
    const int64_t work = std::max<int64_t>(1, reduced.count);
    block = by_columns ? kReduceBlock : std::min(kReduceBlock, RowGrain(work));
    blocks = kept.count / row() * DivideUp(row(), block);
    if (reduced.rank == 0 || reduced.count == 0) return;
    const int64_t most = std::min(kReduceTasks / blocks,
                                  kept.count * reduced.count / (blocks * kReduceTaskElements));
    slice = DivideUp(reduced.dims[0], std::clamp<int64_t>(most, 1, reduced.dims[0]));
    slices = DivideUp(reduced.dims[0], slice);
  }
  // Blocks do not cross a row.
  int64_t row() const { return by_columns ? kept.inner() : kept.count; }
  ReduceBlock BlockAt(int64_t b) const {
    const int64_t per_row = DivideUp(row(), block), at = b % per_row * block;
    return {b / per_row * row() + at, std::min(block, row() - at)};
  }
};

// Of the slices' results, 8 bytes each at most: there are slices only from two tasks' elements on.
template <typename Int>
Int ReduceScratchBytes(Int elements) {
  return AtMost(DivideDown(elements, 2 * kReduceTaskElements), kReduceTasks / 4) *
         (4 * kReduceBlock * int64_t{sizeof(double)});
}

// Sums of f32, f16 and bf16 along dense runs (cpu_rows.cc); the rest is plain loops (cpu.cc).
// out[r] of x[r * row_stride .. + n) for r < rows.
using SumRunsFn = void (*)(const void* x, int64_t n, int64_t row_stride, int64_t rows, double* out);
using ExtremeRunsFn = void (*)(const void* x, int64_t n, int64_t row_stride, int64_t rows,
                               float* out);
// out[c] += x[r * row_stride + c] for r < rows, c < columns <= kReduceBlock.
using SumColumnsFn = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t columns,
                              double* out);
// out[c] = the largest or smallest of itself and x[r * row_stride + c], likewise.
using ExtremeColumnsFn = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t columns,
                                  float* out);
// out[i] = acc[i] / count, rounded.
using FinishFn = void (*)(const double* acc, int64_t n, double count, float* out);
struct ReduceRuns {
  SumRunsFn sum;
  ExtremeRunsFn max, min;
  SumColumnsFn sum_columns;
  ExtremeColumnsFn max_columns, min_columns;
};
ReduceRuns FindReduceRuns(DType dtype);  // f32, f16 or bf16, for the active ISA
FinishFn FindReduceFinish();

}  // namespace liveshape::cpu
