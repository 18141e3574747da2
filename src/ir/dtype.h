// Element types, as torch has them. The numeric codes are part of the artifact: never reorder.
#pragma once

#include <cstddef>
#include <cstdint>

namespace liveshape {

// clang-format off
enum class DType : uint8_t {
  kF32 = 0, kF16 = 1, kBF16 = 2, kF64 = 3,
  kI64 = 4, kI32 = 5, kI16 = 6, kI8 = 7, kU8 = 8,
  kBool = 9,
};
// clang-format on
inline constexpr int kDTypeCount = 10;

constexpr size_t SizeOf(DType t) {
  constexpr size_t kSizes[kDTypeCount] = {4, 2, 2, 8, 8, 4, 2, 1, 1, 1};
  return kSizes[static_cast<int>(t)];
}
constexpr bool IsFloat(DType t) { return t <= DType::kF64; }
constexpr bool IsInteger(DType t) { return t >= DType::kI64 && t <= DType::kU8; }

const char* Name(DType t);  // "f32", "bf16", "i64", "bool"

}  // namespace liveshape
