// A square of 4-byte elements turned over: what copies of transposed views are made of.
#pragma once

#include <cstdint>

namespace liveshape::cpu {

inline constexpr int64_t kTransposeBlock = 16;  // 64 bytes: a cache line of either side

// to[r * pitch + c] = from[r + c * stride] for r, c < kTransposeBlock.
using TransposeFn = void (*)(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch);
TransposeFn FindTranspose();  // for the active ISA

// As many columns as wanted of four rows: to[r * pitch + c] = from[r + c * stride] for r < 4, c < columns.
using TransposeStripFn = void (*)(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch,
                                  int64_t columns);
TransposeStripFn FindTransposeStrip();

}  // namespace liveshape::cpu
