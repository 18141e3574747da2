// Tiles that no input gives: constants, sizes of the shape program, indices.
#pragma once

#include <bit>
#include <cstddef>

#include "ops/pointwise/cpu_tiles.h"

namespace liveshape::cpu::pw {

// Stores `value(i)` as the tile type of `dtype`.
template <typename Value>
void Generate(DType dtype, std::byte* to, int64_t n, Value value) {
  auto fill = [&]<typename T>(T*) {
    T* y = reinterpret_cast<T*>(to);
    const bool truth = dtype == DType::kBool;
    for (int64_t i = 0; i < n; ++i) y[i] = truth ? T(value(i) != 0) : static_cast<T>(value(i));
  };
  switch (TileType(dtype)) {
    case DType::kF32: return fill(static_cast<float*>(nullptr));
    case DType::kF64: return fill(static_cast<double*>(nullptr));
    case DType::kI64: return fill(static_cast<int64_t*>(nullptr));
    case DType::kI32: return fill(static_cast<int32_t*>(nullptr));
    case DType::kI16: return fill(static_cast<int16_t*>(nullptr));
    case DType::kI8: return fill(static_cast<int8_t*>(nullptr));
    default: return fill(static_cast<uint8_t*>(nullptr));
  }
}

inline void GenerateNumber(DType dtype, bool is_float, int64_t bits, std::byte* to, int64_t n) {
  if (is_float) {
    Generate(dtype, to, n, [v = std::bit_cast<double>(bits)](int64_t) { return v; });
  } else {
    Generate(dtype, to, n, [bits](int64_t) { return bits; });
  }
}

}  // namespace liveshape::cpu::pw
