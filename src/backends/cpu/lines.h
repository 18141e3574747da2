// The lines of two views along one dim, which may lie anywhere: every other dim, in order.
//
//   const Lines lines(x, y, dim);
//   args.pool.ParallelFor(lines.count, RowGrain(x.dims[dim]), [&](int64_t begin, int64_t end, int) {
//     RowWalker<2> walk = lines.At(begin);
//     for (int64_t r = begin; r < end; ++r, walk.Next()) f(x + walk.offset(0), y + walk.offset(1));
//   });
#pragma once

#include "backends/cpu/rows.h"

namespace liveshape::cpu {

struct Lines {
  // `columns`: another dim to leave out, where the caller takes many lines side by side.
  Lines(const View& x, const View& y, int dim, int columns = -1) {
    for (int d = 0; d < x.rank; ++d) {
      if (d == dim || d == columns) continue;
      dims[rank] = x.dims[d];
      in[rank] = x.strides[d];
      out[rank++] = y.strides[d];
      count *= x.dims[d];
    }
  }
  RowWalker<2> At(int64_t line) const { return {dims, rank, {in, out}, line}; }

  int64_t dims[kMaxRank], in[kMaxRank], out[kMaxRank];
  int rank = 0;
  int64_t count = 1;
};

}  // namespace liveshape::cpu
