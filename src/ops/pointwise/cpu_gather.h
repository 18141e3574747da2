// Where the elements of a pointwise input lie, in the order of the output:
//
//   Source sources[inputs];
//   const Space space = Collapse(out, inputs, sources);
//   Place place(space, begin);                                   // where a tile begins
//   const Gathered x = Gather(sources[0], space, place, n, /*may_splat=*/true, memory);
//   place.Advance(space, n);                                     // or Seek, beyond the row
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernel.h"

namespace liveshape::cpu::pw {

inline constexpr int kMaxRank = 32;

// The output's dims with extents of 1 dropped and neighbours merged where every input allows it.
struct Space {
  int rank = 0;
  int64_t dims[kMaxRank];
  int64_t numel = 1;
  int64_t inner() const { return rank == 0 ? 1 : dims[rank - 1]; }
};

// An input over the collapsed dims.
struct Source {
  bool flat;    // dense in the output's order
  bool same;    // one element for all
  size_t size;  // of an element
  const std::byte* data;
  int64_t strides[kMaxRank];  // in elements
  // Of 4 bytes, and dense across the rows: kStrip of them are turned over at once.
  bool transposed(const Space& space) const {
    return space.rank > 1 && strides[space.rank - 1] > 1 && strides[space.rank - 2] == 1 &&
           size == sizeof(uint32_t);
  }
};
inline constexpr int64_t kStrip = 4;

Space Collapse(const View& out, std::span<const View> inputs, Source* sources);

struct Gathered {
  const std::byte* data;
  bool splat = false;
};

// Where a tile begins.
struct Place {
  int64_t begin;         // in row-major order
  int64_t at[kMaxRank];  // index by dim

  Place(const Space& space, int64_t first) { Seek(space, first); }
  void Seek(const Space& space, int64_t first) {
    begin = first;
    for (int d = space.rank - 1; d >= 0; --d) {
      at[d] = first % space.dims[d];
      first /= space.dims[d];
    }
  }
  // Beyond n elements, which end in this row or with it: no division.
  void Advance(const Space& space, int64_t n) {
    begin += n;
    if (space.rank == 0) return;
    at[space.rank - 1] += n;
    for (int d = space.rank - 1; d > 0 && at[d] == space.dims[d]; --d) {
      at[d] = 0;
      ++at[d - 1];
    }
  }
};

// The n elements from `place` on, in row-major order: a pointer into the input where they lie dense, or are all one and
// `may_splat`, else a copy in `to`.
Gathered Gather(const Source& source, const Space& space, const Place& place, int64_t n,
                bool may_splat, std::byte* to);

}  // namespace liveshape::cpu::pw
