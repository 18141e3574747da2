// One pointwise instruction over one tile: functions that the fused engine (cpu.cc) strings together. A tile is at most kTile elements, in cache. In tiles f16 and bf16 are f32 values, already
// rounded; bool is one byte, any non-zero is true.
#pragma once

#include <cstdint>

#include "backends/cpu/simd/isa.h"
#include "ir/dtype.h"
#include "ir/pointwise.h"

namespace liveshape::cpu::pw {

// 4 KB of f32: a chain of five live values and its operands stay in a 32 KB L1.
inline constexpr int64_t kTile = 1024;
// Of a step that needs no memory but its operands and the output. What a tile costs apart from its elements (some 20 ns,
// as much as an addition of 200) is paid less often.
inline constexpr int64_t kLongTile = 16 * kTile;

struct Tile {
  const void* a;
  const void* b;
  const void* c;
  void* out;  // may be an operand with elements of the same size
  int64_t n;
};
// False: an integer was divided by zero.
using TileFn = bool (*)(const Tile& tile);

constexpr bool IsHalf(DType t) { return t == DType::kF16 || t == DType::kBF16; }
constexpr DType TileType(DType t) { return IsHalf(t) ? DType::kF32 : t; }

// Null where there is none, or where this build lacks the ISA. `dtype` is that of the operands (for
// where: of b and c), a TileType. f32 arithmetic is not here: that is of chains (cpu_chain.h).
TileFn FindTile(ir::PwOp op, DType dtype, Isa isa);
TileFn CastTile(DType from, DType to, Isa isa);  // both TileTypes
TileFn F64Power(int exponent, Isa isa);          // 3 and -2: torch's special cases of pow

// A part of FindTile: f32 functions (cpu_math.cc).
TileFn F32MathTile(ir::PwOp op, Isa isa);

}  // namespace liveshape::cpu::pw
