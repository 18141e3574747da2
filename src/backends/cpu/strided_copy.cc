#include "backends/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/rows.h"
#include "backends/cpu/transpose.h"

namespace liveshape::cpu {
namespace {

// The view with extents of 1 dropped and neighbours merged where their strides allow.
struct Dense {
  int rank = 0;
  int64_t dims[kMaxRank];
  int64_t strides[kMaxRank];
};

Dense Collapse(const View& view) {
  Dense c;
  for (int d = 0; d < view.rank; ++d) {
    if (view.dims[d] == 1) continue;
    const bool merge = c.rank > 0 && c.strides[c.rank - 1] == view.strides[d] * view.dims[d];
    if (!merge) c.dims[c.rank++] = 1;
    c.dims[c.rank - 1] *= view.dims[d];
    c.strides[c.rank - 1] = view.strides[d];
  }
  return c;
}

template <typename T>
void CopyRow(const T* from, int64_t stride, T* to, int64_t n) {
  if (stride == 1) {
    std::memcpy(to, from, n * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * stride];
  }
}

// 64 bytes of a row of either side a block: each cache line is read once and written once.
template <typename T>
constexpr int64_t kBlock = 64 / sizeof(T);

// to[r][c] = from[r + c * stride] for a rows x columns block, through a buffer so that both sides are
// walked along their lines.
template <typename T>
void TransposeBlock(TransposeFn transpose, const T* from, int64_t stride, T* to, int64_t pitch,
                    int64_t rows, int64_t columns) {
  constexpr int64_t n = kBlock<T>;
  if (rows == n && columns == n && sizeof(T) == sizeof(uint32_t)) {
    static_assert(kBlock<uint32_t> == kTransposeBlock);
    return transpose(reinterpret_cast<const uint32_t*>(from), stride,
                     reinterpret_cast<uint32_t*>(to), pitch);
  }
  if (rows == n && columns == n) {
    T block[n][n];
    for (int64_t c = 0; c < n; ++c) std::memcpy(block[c], from + c * stride, sizeof(block[c]));
    for (int64_t r = 0; r < n; ++r) {
      T line[n];
      for (int64_t c = 0; c < n; ++c) line[c] = block[c][r];
      std::memcpy(to + r * pitch, line, sizeof(line));
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[r * pitch + c] = from[r + c * stride];
  }
}

// The last dim is far apart in memory and dim `k` is dense: planes [k, last] are transposed by blocks.
template <typename T>
void CopyTransposed(const Dense& c, int k, const T* from, T* to, ThreadPool& pool) {
  const int last = c.rank - 1;
  const int64_t rows = c.dims[k], columns = c.dims[last];
  int64_t dims[kMaxRank], in[kMaxRank], out[kMaxRank];
  int outer = 0;
  int64_t planes = 1, pitch = 1, dense = 1;
  for (int d = last; d >= 0; --d) {
    if (d == k) pitch = dense;
    dense *= c.dims[d];
  }
  int64_t below = dense;
  for (int d = 0; d < last; ++d) {
    below /= c.dims[d];
    if (d == k) continue;
    dims[outer] = c.dims[d];
    in[outer] = c.strides[d];
    out[outer++] = below;
    planes *= c.dims[d];
  }
  // A band of four blocks: each page of a far-apart column gives four lines before the next is visited.
  constexpr int64_t n = kBlock<T>, band = 4 * n;
  const TransposeFn transpose = FindTranspose();
  const int64_t bands = (rows + band - 1) / band;
  const int64_t grain = std::max<int64_t>(1, 16384 / (band * columns));
  pool.ParallelFor(planes * bands, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b) {
      const RowWalker<2> plane(dims, outer, {in, out}, b / bands);
      const int64_t first = b % bands * band, last_row = std::min(first + band, rows);
      for (int64_t col = 0; col < columns; col += n) {
        for (int64_t r = first; r < last_row; r += n) {
          TransposeBlock(transpose, from + plane.offset(0) + r + col * c.strides[last],
                         c.strides[last], to + plane.offset(1) + r * pitch + col, pitch,
                         std::min(n, rows - r), std::min(n, columns - col));
        }
      }
    }
  });
}

template <typename T>
void Copy(const Dense& c, const T* from, T* to, ThreadPool& pool) {
  if (c.rank == 0) {
    *to = *from;
    return;
  }
  const int last = c.rank - 1;
  if (c.rank == 1) {
    pool.ParallelFor(c.dims[0], 65536 / sizeof(T), [&](int64_t begin, int64_t end, int) {
      CopyRow(from + begin * c.strides[0], c.strides[0], to + begin, end - begin);
    });
    return;
  }
  if (c.strides[last] > 1) {
    for (int k = 0; k < last; ++k) {
      if (c.strides[k] == 1 && c.dims[k] >= 4) return CopyTransposed(c, k, from, to, pool);
    }
  }
  int64_t rows = 1;
  for (int d = 0; d < last; ++d) rows *= c.dims[d];
  const int64_t n = c.dims[last];
  pool.ParallelFor(rows, RowGrain(n), [&](int64_t begin, int64_t end, int) {
    RowWalker<1> walk(c.dims, last, {c.strides}, begin);
    for (int64_t r = begin; r < end; ++r, walk.Next())
      CopyRow(from + walk.offset(0), c.strides[last], to + r * n, n);
  });
}

}  // namespace

void StridedCopy(const View& from, std::byte* to, ThreadPool& pool) {
  if (from.numel() == 0) return;
  LS_CHECK(from.rank <= kMaxRank);
  const Dense c = Collapse(from);
  switch (SizeOf(from.dtype)) {
    case 1: return Copy(c, from.as<const uint8_t>(), reinterpret_cast<uint8_t*>(to), pool);
    case 2: return Copy(c, from.as<const uint16_t>(), reinterpret_cast<uint16_t*>(to), pool);
    case 4: return Copy(c, from.as<const uint32_t>(), reinterpret_cast<uint32_t*>(to), pool);
    default: return Copy(c, from.as<const uint64_t>(), reinterpret_cast<uint64_t*>(to), pool);
  }
}

}  // namespace liveshape::cpu
