// Elements of any dtype in a register, and back: floats as f32 or f64, integers and bool as i64.
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

inline double LoadNumber(DType dtype, const std::byte* from, int64_t i) {
  return dtype == DType::kF64 ? reinterpret_cast<const double*>(from)[i]
                              : LoadFloat(dtype, from, i);
}

inline int64_t LoadInteger(DType dtype, const std::byte* from, int64_t i) {
  switch (dtype) {
    case DType::kI64: return reinterpret_cast<const int64_t*>(from)[i];
    case DType::kI32: return reinterpret_cast<const int32_t*>(from)[i];
    case DType::kI16: return reinterpret_cast<const int16_t*>(from)[i];
    case DType::kI8: return reinterpret_cast<const int8_t*>(from)[i];
    case DType::kBool: return reinterpret_cast<const uint8_t*>(from)[i] != 0;
    default: return reinterpret_cast<const uint8_t*>(from)[i];
  }
}

inline void StoreNumber(DType dtype, std::byte* to, int64_t i, double value) {
  if (dtype == DType::kF64)
    reinterpret_cast<double*>(to)[i] = value;
  else
    StoreFloat(dtype, to, i, static_cast<float>(value));
}

inline void StoreInteger(DType dtype, std::byte* to, int64_t i, int64_t value) {
  switch (SizeOf(dtype)) {
    case 8: reinterpret_cast<int64_t*>(to)[i] = value; return;
    case 4: reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(value); return;
    case 2: reinterpret_cast<int16_t*>(to)[i] = static_cast<int16_t>(value); return;
    default: reinterpret_cast<int8_t*>(to)[i] = static_cast<int8_t>(value); return;
  }
}

}  // namespace liveshape::npu
