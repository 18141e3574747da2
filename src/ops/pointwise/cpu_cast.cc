// Conversions between the types that tiles hold, as plain loops that the compiler vectorises for each instruction set.
#include <limits>
#include <type_traits>

#include "ops/pointwise/cpu_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/cpu_cast.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")  // see cpu_typed.cc
#endif

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using pw::Tile;
using pw::TileFn;

struct Bool { uint8_t byte; };

// Truncates. Out of range and NaN, which C++ leaves undefined, give what x86 gives torch: the least int64
// or int32; narrower types take the low bits of that (u8 of int64).
template <typename To, typename From>
To FloatToInt(From x) {
  using Via = std::conditional_t<sizeof(To) == 8 || std::is_same_v<To, uint8_t>, int64_t, int32_t>;
  constexpr From kLimit = static_cast<From>(sizeof(Via) == 8 ? 0x1p63 : 0x1p31);
  const bool fits = (x >= -kLimit) & (x < kLimit);
  const Via wide = static_cast<Via>(fits ? x : From{0});  // converted in any case, as vectors are
  return static_cast<To>(fits ? wide : std::numeric_limits<Via>::min());
}

template <typename To, typename From>
To Convert(From x) {
  if constexpr (std::is_same_v<From, Bool>) {
    if constexpr (std::is_same_v<To, Bool>)
      return Bool{x.byte != 0};
    else
      return static_cast<To>(x.byte != 0);
  } else if constexpr (std::is_same_v<To, Bool>) {
    return Bool{x != From{0}};  // NaN is true
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return FloatToInt<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename From, typename To>
bool CastLoop(const Tile& t) {
  const From* a = static_cast<const From*>(t.a);
  To* out = static_cast<To*>(t.out);
  const int64_t n = t.n;  // see cpu_typed.cc
  for (int64_t i = 0; i < n; ++i) out[i] = Convert<To>(a[i]);
  return true;
}

template <typename From>
TileFn CastFrom(DType to) {
  switch (to) {
    case DType::kF32: return CastLoop<From, float>;
    case DType::kF64: return CastLoop<From, double>;
    case DType::kI64: return CastLoop<From, int64_t>;
    case DType::kI32: return CastLoop<From, int32_t>;
    case DType::kI16: return CastLoop<From, int16_t>;
    case DType::kI8: return CastLoop<From, int8_t>;
    case DType::kU8: return CastLoop<From, uint8_t>;
    case DType::kBool: return CastLoop<From, Bool>;
    default: return nullptr;
  }
}

TileFn FindCast(DType from, DType to) {
  switch (from) {
    case DType::kF32: return CastFrom<float>(to);
    case DType::kF64: return CastFrom<double>(to);
    case DType::kI64: return CastFrom<int64_t>(to);
    case DType::kI32: return CastFrom<int32_t>(to);
    case DType::kI16: return CastFrom<int16_t>(to);
    case DType::kI8: return CastFrom<int8_t>(to);
    case DType::kU8: return CastFrom<uint8_t>(to);
    case DType::kBool: return CastFrom<Bool>(to);
    default: return nullptr;
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindCast);
}  // namespace

pw::TileFn pw::CastTile(DType from, DType to, Isa isa) {
  const auto find = FindCastPerIsa[static_cast<int>(isa)];
  return find ? find(from, to) : nullptr;
}

}  // namespace liveshape::cpu
#endif
