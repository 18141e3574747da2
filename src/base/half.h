// f16 and bf16 to and from f32, one element at a time, rounding to nearest even. Highway's scalar
// target truncates and has no infinities, so the CPU's portable ISA uses these too. Vectors: backends/cpu/simd/half-inl.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace liveshape {

inline float F32FromBF16(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

inline uint16_t BF16FromF32(float f) {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if (f != f) return static_cast<uint16_t>(0x7fc0 | ((bits >> 16) & 0x8000));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// The two below are M. Dukhan's FP16 algorithms (as in c10/util/Half.h): scaling by powers of two lets
// the float unit do denormals and rounding.
inline float F32FromF16(uint16_t h) {
  const uint32_t w = static_cast<uint32_t>(h) << 16;
  const uint32_t sign = w & 0x80000000u;
  const uint32_t two_w = w + w;
  const float normal = std::bit_cast<float>((two_w >> 4) + (0xE0u << 23)) * 0x1.0p-112f;
  const float denormal = std::bit_cast<float>((two_w >> 17) | (126u << 23)) - 0.5f;
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(two_w < (1u << 27) ? denormal : normal));
}

inline uint16_t F16FromF32(float f) {
  float base = (std::fabs(f) * 0x1.0p+112f) * 0x1.0p-110f;
  const uint32_t w = std::bit_cast<uint32_t>(f);
  const uint32_t shl1_w = w + w;
  uint32_t bias = shl1_w & 0xFF000000u;
  if (bias < 0x71000000u) bias = 0x71000000u;
  base = std::bit_cast<float>((bias >> 1) + 0x07800000u) + base;
  const uint32_t bits = std::bit_cast<uint32_t>(base);
  const uint32_t magnitude = ((bits >> 13) & 0x7C00u) + (bits & 0x0FFFu);
  return static_cast<uint16_t>(((w & 0x80000000u) >> 16) |
                               (shl1_w > 0xFF000000u ? 0x7E00u : magnitude));
}

}  // namespace liveshape
