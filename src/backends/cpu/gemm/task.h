// What the parts of the GEMM share: block sizes and the description of one task. Not for other folders.
#pragma once

#include <algorithm>

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/scratch.h"

namespace liveshape::cpu {

inline constexpr int64_t kBlockK = 256;      // a panel's block is 16 KB: half of L1
inline constexpr int64_t kFewRows = 16;      // M up to this is not packed
inline constexpr int64_t kFewQuantised = 4;  // M up to this dequantises in registers
inline constexpr int64_t kBlockRows = 144;   // rows of packed A: 144 x 256 floats are 147 KB of L2
inline constexpr int64_t kGroupPanels = 16;  // columns of a task, at least: 256
inline constexpr int64_t kMaxPackedPanels = 8;  // >= micro-inl.h's kMaxPanels on every ISA

// Scratch of one worker, in floats: blocks of A and B in f32, and sums that cannot stay in C. Grows with
// every dim, so what is planned for the largest shape is enough for every other.
template <typename Int>
struct GemmScratch {
  Int a, b, tile;
  // Of a call with these sizes; its own are not looked at.
  GemmScratch(const GemmCall& call, Int m, Int n, Int k) {
    const Int depth = AtMost(k, kBlockK), rows = AtMost(m, kBlockRows), panels = DivideUp(n, 16);
    a = rows * depth + 16;
    b = AtMost(panels, kMaxPackedPanels) * 16 * depth * (call.b.f32_panels() ? 0 : 1);
    tile = rows * 16;
    if (call.c_dtype != DType::kF32) tile = tile * AtMost(panels, kGroupPanels);
  }
  Int total() const { return RoundUp16(a + b + tile); }
};

inline GemmScratch<int64_t> LiveScratch(const GemmCall& call) {
  return {call, call.m, call.n, call.k};
}

struct GemmTask {
  const std::byte* a;  // of this batch
  const std::byte* b;
  std::byte* c;
  int64_t row_begin, row_end;
  int64_t panel_begin, panel_end;
  float* scratch;  // of this worker
};

// Rows a multiple of 4 KB apart lie in one set of L1, where B passes through as well.
inline bool RowsCollide(const GemmLeft& a) {
  return a.rank > 0 && a.strides[a.rank - 1] % 1024 == 0;
}

inline const std::byte* RowAddress(const GemmLeft& a, const std::byte* data, int64_t row) {
  int64_t offset = 0;
  for (int i = a.rank - 1; i > 0; --i) {
    offset += row % a.dims[i] * a.strides[i];
    row /= a.dims[i];
  }
  if (a.rank > 0) offset += row * a.strides[0];
  return data + offset * static_cast<int64_t>(SizeOf(a.dtype));
}

// Elements from batch 0 to batch `index`.
inline int64_t BatchOffset(const GemmCall& call, const int64_t* strides, int64_t index) {
  int64_t offset = 0;
  for (int i = call.batch_rank - 1; i >= 0; --i) {
    offset += index % call.batch_dims[i] * strides[i];
    index /= call.batch_dims[i];
  }
  return offset;
}

}  // namespace liveshape::cpu
