// Vectors of f16, bf16 and f32 elements as f32, and row conversions. Included per target, as Highway's
// own -inl headers (see simd/dispatch.h).
//
//   auto v = LoadF32(F16{}, d, p);       // p: const uint16_t*; as many as d has lanes
//   StoreF32(F16{}, v, d, q);            // rounds to nearest even
#if defined(LS_SIMD_HALF_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_HALF_INL
#undef LS_SIMD_HALF_INL
#else
#define LS_SIMD_HALF_INL
#endif

#include <cstring>
#include <type_traits>

#include "base/half.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Element kinds that are computed in f32. `Type` is what memory holds.
struct F32 {
  using Type = float;
  static HWY_INLINE float One(float v) { return v; }
  static HWY_INLINE float Narrow(float v) { return v; }
};
struct F16 {
  using Type = uint16_t;
  static HWY_INLINE float One(uint16_t v) { return F32FromF16(v); }
  static HWY_INLINE uint16_t Narrow(float v) { return F16FromF32(v); }
};
struct BF16 {
  using Type = uint16_t;
  static HWY_INLINE float One(uint16_t v) { return F32FromBF16(v); }
  static HWY_INLINE uint16_t Narrow(float v) { return BF16FromF32(v); }
};

#define LS_NATIVE_F16 (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

template <class D>
HWY_INLINE hn::Vec<D> LoadF32(F32, D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadF32(BF16, D d, const uint16_t* p) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<uint16_t, D> d16;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, p))));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadF32(F16, D d, const uint16_t* p) {
#if LS_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = F32FromF16(p[i]);
  return hn::Load(d, lanes);
#endif
}

template <class D>
HWY_INLINE void StoreF32(F32, hn::Vec<D> v, D d, float* p) {
  hn::StoreU(v, d, p);
}

template <class D>
HWY_INLINE void StoreF32(BF16, hn::Vec<D> v, D d, uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
  const auto quiet =
      hn::Or(hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000)), hn::Set(du, 0x7fc0));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  rounded = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, rounded)), d16, p);
}

template <class D>
HWY_INLINE void StoreF32(F16, hn::Vec<D> v, D d, uint16_t* p) {
#if LS_NATIVE_F16
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
#else
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(v, d, lanes);
  for (size_t i = 0; i < hn::Lanes(d); ++i) p[i] = F16FromF32(lanes[i]);
#endif
}

// What an element kind holds of v: rounded for the halves.
template <class E, class D, class V>
HWY_INLINE V Rounded(E e, D d, V v) {
  if constexpr (sizeof(typename E::Type) == sizeof(float)) {
    return v;
  } else {
    typename E::Type narrow[HWY_MAX_BYTES / sizeof(float)];
    StoreF32(e, v, d, narrow);
    return LoadF32(e, d, narrow);
  }
}

inline constexpr size_t kMaxLanesF32 = HWY_MAX_BYTES / sizeof(float);

// n < kMaxLanesF32 elements in at most four moves: a loop over them, or memcpy of a length unknown, costs a short row as much
// as its arithmetic.
template <typename T>
HWY_INLINE void CopyFew(const T* from, T* to, size_t n) {
  static_assert(kMaxLanesF32 <= 16);
  const auto piece = [&](auto size) HWY_ATTR {
    constexpr size_t k = size;
    if (k >= kMaxLanesF32 || (n & k) == 0) return;
    std::memcpy(to, from, k * sizeof(T));
    from += k, to += k;
  };
  piece(std::integral_constant<size_t, 8>()), piece(std::integral_constant<size_t, 4>());
  piece(std::integral_constant<size_t, 2>()), piece(std::integral_constant<size_t, 1>());
}

// The first `n` < Lanes(d) elements; lanes beyond are `fill`. Never reads beyond p[n - 1].
template <class E, class D>
HWY_INLINE hn::Vec<D> LoadPartial(E e, D d, const typename E::Type* p, size_t n,
                                  float fill = 0.0f) {
  const auto mask = hn::FirstN(d, n);
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // Elsewhere Highway loads the whole vector and masks it then.
  if constexpr (sizeof(typename E::Type) == sizeof(float))
    return hn::IfThenElse(mask, hn::MaskedLoad(mask, d, p), hn::Set(d, fill));
#endif
  typename E::Type lanes[kMaxLanesF32] = {};
  CopyFew(p, lanes, n);
  return hn::IfThenElse(mask, LoadF32(e, d, lanes), hn::Set(d, fill));
}

template <class E, class D>
HWY_INLINE void StorePartial(E e, hn::Vec<D> v, D d, typename E::Type* p, size_t n) {
  typename E::Type lanes[kMaxLanesF32];
  StoreF32(e, v, d, lanes);
  CopyFew(lanes, p, n);
}

// A row of any element kind to f32 and back.
template <class E>
HWY_INLINE void RowToF32(E e, const typename E::Type* from, float* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(LoadF32(e, d, from + i), d, to + i);
  for (; i < n; ++i) to[i] = E::One(from[i]);
}

template <class E>
HWY_INLINE void RowFromF32(E e, const float* from, typename E::Type* to, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) StoreF32(e, hn::LoadU(d, from + i), d, to + i);
  for (; i < n; ++i) to[i] = E::Narrow(from[i]);
}

// The lanes of a vector, added in an order that is the target's.
template <class D>
HWY_INLINE float SumLanes(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
