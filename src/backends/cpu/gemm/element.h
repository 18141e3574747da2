// f16 and bf16 as types of their own, so that kernels are templates over what memory holds.
#pragma once

#include <cstdint>

#include "base/half.h"

namespace liveshape::cpu {

struct Half { uint16_t bits; };
struct BFloat { uint16_t bits; };

inline float ToFloat(float value) { return value; }
inline float ToFloat(Half value) { return F32FromF16(value.bits); }
inline float ToFloat(BFloat value) { return F32FromBF16(value.bits); }

template <typename T>
T FromFloat(float value);
template <>
inline float FromFloat<float>(float value) {
  return value;
}
template <>
inline Half FromFloat<Half>(float value) {
  return {F16FromF32(value)};
}
template <>
inline BFloat FromFloat<BFloat>(float value) {
  return {BF16FromF32(value)};
}

}  // namespace liveshape::cpu
