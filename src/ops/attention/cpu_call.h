// What the two attention kernels share: the call, and which keys a row may see.
//
// Query heads of one group share keys and values, so the unit of work is a (batch, group) with
// rows = S * heads-per-group, ordered by position first: row r is position r / heads, head r % heads. Rows
// that are neighbours see nearly the same keys, and K/V is read once for all of them (no repeat).
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernel.h"
#include "backends/cpu/scratch.h"

namespace liveshape::cpu {

enum class AllMasked : uint8_t { kZero, kMean, kNan };

struct AttentionCall {
  const View *q, *k, *v, *mask, *row_limits;  // the last two may be null
  const View* out;
  float scale;
  bool has_limit;
  int64_t limit;
  AllMasked all_masked;

  int64_t batch() const { return q->dims[0]; }
  int64_t groups() const { return k->dims[1]; }
  int64_t heads() const { return groups() == 0 ? 0 : q->dims[1] / groups(); }  // of one group
  int64_t positions() const { return q->dims[2]; }
  int64_t keys() const { return k->dims[2]; }
  int64_t depth() const { return q->dims[3]; }            // D
  int64_t width() const { return v->dims[3]; }            // E
  int64_t rows() const { return positions() * heads(); }  // of one (batch, group)
};

struct AttentionRow {
  int64_t batch, head, position;

  AttentionRow() = default;
  AttentionRow(const AttentionCall& call, int64_t batch, int64_t group, int64_t row)
      : batch(batch),
        head(group * call.heads() + row % call.heads()),
        position(row / call.heads()) {}

  int64_t Offset(const View& x) const {  // of [b, h, s] in a view with that order of dims
    return batch * x.strides[0] + head * x.strides[1] + position * x.strides[2];
  }
  // Keys [0, n) are visible, before the mask is asked.
  int64_t Visible(const AttentionCall& call) const {
    int64_t n = call.keys();
    if (call.has_limit) n = std::min(n, std::max<int64_t>(0, call.limit + position));
    if (call.row_limits != nullptr) {
      n = std::clamp<int64_t>(call.row_limits->as<const int64_t>()[Offset(*call.row_limits)], 0, n);
    }
    return n;
  }
  int64_t OutOffset(const AttentionCall& call) const {
    return ((batch * call.q->dims[1] + head) * call.positions() + position) * call.width();
  }
};

// How many tasks of rows x keys make a claim worth a thread: about 5 us of work.
inline int64_t AttentionGrain(const AttentionCall& call, int64_t rows, int64_t keys) {
  constexpr int64_t kWork = 1 << 17;  // multiply-adds
  return 1 + kWork / (1 + rows * keys * (call.depth() + call.width() + 8));
}

// Blocked over rows and keys: prefill. Any strides.
inline constexpr int64_t kAttentionRows = 192;  // of a block at most: 96 is 3 % slower
inline constexpr int64_t kFewestRows = 48;      // where blocks are made for the sake of threads
inline constexpr int64_t kAttentionKeys = 128;  // K and V blocks of 64 KB at D = 128, in L2
inline constexpr int64_t kTileRows = 12;        // rows of a tile, at most, on any ISA

// Floats of scratch of one worker; grows with each argument.
template <typename Int>
struct BlockScratch {
  Int queries, key_panels, value_panels, scores, sums, state, mean;
  BlockScratch(Int rows, Int keys, Int depth, Int width) {
    rows = AtMost(rows, kAttentionRows);
    keys = AtMost(RoundUp16(keys), kAttentionKeys);
    queries = rows * RoundUp16(depth);
    key_panels = keys * depth;
    value_panels = keys * RoundUp16(width);
    scores = keys * kTileRows;  // of one tile: they stay in L1
    sums = rows * RoundUp16(width);
    state = 2 * rows;
    mean = 2 * RoundUp16(width);
  }
  Int total() const {
    return RoundUp16(queries + key_panels + value_panels + scores + sums + state + mean);
  }
};

// Few rows: decode. Keys are cut into chunks that are worked on independently and merged in order, so
// that one sequence keeps many threads busy; the cut depends on nothing but the key's index.
inline constexpr int64_t kDecodeRows = 8;
inline constexpr int64_t kDecodeKeys = 256;

// A chunk's result for one row: maximum, sum of weights, padding, weighted sum of values.
template <typename Int>
Int PartialFloats(Int width) {
  return RoundUp16(width) + 16;
}

template <typename Int>
struct ChunkScratch {
  Int queries, scores, value_panel;
  ChunkScratch(Int rows, Int keys, Int depth) {
    keys = AtMost(RoundUp16(keys), kDecodeKeys);
    rows = AtMost(rows, kDecodeRows);
    queries = rows * depth;
    scores = rows * keys;
    value_panel = 16 * keys;
  }
  Int total() const { return RoundUp16(queries + scores + value_panel); }
};

}  // namespace liveshape::cpu
