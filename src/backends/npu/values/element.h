// Elements of float dtypes as f32, and back.
#pragma once

#include <cstring>

#include "base/half.h"
#include "ir/dtype.h"

namespace liveshape::npu {

inline float LoadFloat(DType dtype, const std::byte* from, int64_t i) {
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(from)[i];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(from)[i];
  return dtype == DType::kF16 ? F32FromF16(bits) : F32FromBF16(bits);
}

inline void StoreFloat(DType dtype, std::byte* to, int64_t i, float value) {
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(to)[i] = value;
  } else {
    reinterpret_cast<uint16_t*>(to)[i] =
        dtype == DType::kF16 ? F16FromF32(value) : BF16FromF32(value);
  }
}

}  // namespace liveshape::npu
