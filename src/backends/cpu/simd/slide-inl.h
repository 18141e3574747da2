// Windows over lanes: what unaligned loads would give, from vectors that are in registers. Included per target, as Highway's
// own -inl headers (see simd/dispatch.h); not for the scalar one, which has no lanes to move.
//
// Loads that cross lines of the cache take twice as long or more: a 3 x 3 window over rows that begin anywhere runs at
// half of its speed with them (Zen 5: 7.2 ns a row of 56 with loads, 4.2 with slides).
#if defined(LS_SIMD_SLIDE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_SLIDE_INL
#undef LS_SIMD_SLIDE_INL
#else
#define LS_SIMD_SLIDE_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// The lanes of `low` from kBy on, then the first kBy of `high`. Of 4-byte lanes.
template <int kBy, class D, class V = hn::Vec<D>>
HWY_INLINE V Slide(D d, V high, V low) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
  static_assert(0 <= kBy && kBy < kLanes && sizeof(hn::TFromD<D>) == 4);
  if constexpr (kBy == 0) {
    return low;
  } else if constexpr (kLanes == 4) {
    return hn::CombineShiftRightBytes<4 * kBy>(d, high, low);
  } else if constexpr (kLanes == 8) {
    const V middle = hn::ConcatLowerUpper(d, high, low);  // Highway shifts blocks of 4 lanes
    if constexpr (kBy == 4) return middle;
    if constexpr (kBy < 4) return hn::CombineShiftRightBytes<4 * kBy>(d, middle, low);
    if constexpr (kBy > 4) return hn::CombineShiftRightBytes<4 * (kBy - 4)>(d, high, middle);
  } else {
#if HWY_TARGET == HWY_AVX3
    const hn::RebindToSigned<D> di;
    using I = hn::Vec<decltype(di)>;
    const auto slid = _mm512_alignr_epi32(hn::BitCast(di, high).raw, hn::BitCast(di, low).raw, kBy);
    return hn::BitCast(d, I{slid});
#endif
  }
}
#endif

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
