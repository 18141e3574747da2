#include "ops/pool/cpu_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/cpu_rows.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

struct Larger {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return MaxNaN(d, a, b);
  }
  HWY_INLINE float operator()(float a, float b) const { return b > a || b != b ? b : a; }
};
struct Sum {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
  HWY_INLINE float operator()(float a, float b) const { return a + b; }
};

template <class Op>
void Rows(const float* const* rows, int64_t count, int64_t n, float* to) {
  const Op op;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::LoadU(d, rows[0] + i);
    for (int64_t r = 1; r < count; ++r) v = op(d, v, hn::LoadU(d, rows[r] + i));
    hn::StoreU(v, d, to + i);
  }
  for (; i < n; ++i) {
    float v = rows[0][i];
    for (int64_t r = 1; r < count; ++r) v = op(v, rows[r][i]);
    to[i] = v;
  }
}

// Every second element from `from` on; reads one more.
template <class D>
HWY_INLINE hn::Vec<D> EverySecond(D d, const float* from) {
  hn::Vec<D> even, odd;
  hn::LoadInterleaved2(d, from, even, odd);
  return even;
}

template <class Op, bool kSecond>
int64_t VectorTaps(const float* from, int64_t taps, int64_t dilation, int64_t n, float* to) {
  const Op op;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto load = [&](const float* at) HWY_ATTR {
    if constexpr (kSecond)
      return EverySecond(d, at);
    else
      return hn::LoadU(d, at);
  };
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const float* at = from + j * (kSecond ? 2 : 1);
    auto v = load(at);
    for (int64_t q = 1; q < taps; ++q) v = op(d, v, load(at + q * dilation));
    hn::StoreU(v, d, to + j);
  }
  return j;
}

template <class Op>
void Taps(const float* from, int64_t stride, int64_t taps, int64_t dilation, int64_t n, float* to) {
  const Op op;
  int64_t j = 0;
  if (stride == 1) j = VectorTaps<Op, false>(from, taps, dilation, n, to);
  if (stride == 2) j = VectorTaps<Op, true>(from, taps, dilation, n, to);
  for (; j < n; ++j) {
    float v = from[j * stride];
    for (int64_t q = 1; q < taps; ++q) v = op(v, from[j * stride + q * dilation]);
    to[j] = v;
  }
}

PoolRows Find(bool max) {
  return max ? PoolRows{Rows<Larger>, Taps<Larger>} : PoolRows{Rows<Sum>, Taps<Sum>};
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Find);
}  // namespace

PoolRows FindPoolRows(bool max) { return LS_SIMD(Find)(max); }

}  // namespace liveshape::cpu
#endif
