// Sums and maxima of a row of f32, f16 or bf16, per target. The order of additions depends on the row's
// length alone: four vectors of partial sums over blocks of 512 vectors, blocks added in double, so no sum in
// f32 has more than 128 terms however long the row is.
#if defined(LS_SIMD_REDUCE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_REDUCE_INL
#undef LS_SIMD_REDUCE_INL
#else
#define LS_SIMD_REDUCE_INL
#endif

#include <algorithm>
#include <limits>

#include "backends/cpu/simd/half-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// f is a function object: V operator()(D, V). `fill` must be where f is 0: what the tail is padded with.
template <class E, class F>
HWY_INLINE double SumRow(E e, const typename E::Type* x, int64_t n, float fill, const F& f) {
  // Rows come from L2 and beyond: half of AVX-512 is as fast in L1 and 5 % faster there (Zen 4).
  const hn::CappedTag<float, 8> d;
  const int64_t lanes = hn::Lanes(d);
  const int64_t block = 512 * lanes;
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = hn::Add(s0, f(d, LoadF32(e, d, x + i)));
      s1 = hn::Add(s1, f(d, LoadF32(e, d, x + i + lanes)));
      s2 = hn::Add(s2, f(d, LoadF32(e, d, x + i + 2 * lanes)));
      s3 = hn::Add(s3, f(d, LoadF32(e, d, x + i + 3 * lanes)));
    }
    for (; i + lanes <= end; i += lanes) s0 = hn::Add(s0, f(d, LoadF32(e, d, x + i)));
    if (i < end) s1 = hn::Add(s1, f(d, LoadPartial(e, d, x + i, end - i, fill)));
    total += SumLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  }
  return total;
}

struct Identity {
  template <class D, class V>
  HWY_INLINE V operator()(D, V v) const {
    return v;
  }
};

// The largest element (kSign 1) or the smallest (-1); NaN if there is one. n > 0.
template <int kSign, class E>
HWY_INLINE float ExtremeRow(E e, const typename E::Type* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const float lowest = kSign * -std::numeric_limits<float>::infinity();
  auto best0 = hn::Set(d, lowest), best1 = best0, best2 = best0, best3 = best0;
  auto nan0 = hn::IsNaN(best0), nan1 = nan0;
  // A NaN is remembered apart, so that what Max makes of it does not matter.
  const auto take = [](auto& best, auto& nan, auto v) HWY_ATTR {
    nan = hn::Or(nan, hn::IsNaN(v));
    best = kSign > 0 ? hn::Max(v, best) : hn::Min(v, best);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    take(best0, nan0, LoadF32(e, d, x + i));
    take(best1, nan1, LoadF32(e, d, x + i + lanes));
    take(best2, nan0, LoadF32(e, d, x + i + 2 * lanes));
    take(best3, nan1, LoadF32(e, d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) take(best0, nan0, LoadF32(e, d, x + i));
  if (i < n) take(best1, nan1, LoadPartial(e, d, x + i, n - i, lowest));
  take(best0, nan0, best2);
  take(best1, nan1, best3);
  take(best0, nan0, best1);
  if (!hn::AllFalse(d, hn::Or(nan0, nan1))) return std::numeric_limits<float>::quiet_NaN();
  return hn::GetLane(kSign > 0 ? hn::MaxOfLanes(d, best0) : hn::MinOfLanes(d, best0));
}

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
