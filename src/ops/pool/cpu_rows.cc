#include "ops/pool/cpu_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/cpu_rows.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/half-inl.h"
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
  template <class V>
  static HWY_INLINE V Finish(V v, V) {
    return v;
  }
  static HWY_INLINE float Finish(float v, float) { return v; }
};
struct Sum {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::Add(a, b);
  }
  HWY_INLINE float operator()(float a, float b) const { return a + b; }
  template <class V>
  static HWY_INLINE V Finish(V v, V divisor) {
    return hn::Div(v, divisor);
  }
  static HWY_INLINE float Finish(float v, float divisor) { return v / divisor; }
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
  if (i == n) return;
  auto v = LoadPartial(F32{}, d, rows[0] + i, n - i);
  for (int64_t r = 1; r < count; ++r) v = op(d, v, LoadPartial(F32{}, d, rows[r] + i, n - i));
  hn::StoreU(v, d, to + i);
}

// The windows of vectors of pixels that are kStride (1 or 2) apart. Every second element comes with its neighbour: two
// taps for the shuffles of one.
template <class Op, int kStride>
struct Windows {
  explicit Windows(const PoolTaps& taps) : t(taps), pairs(kStride == 2 && taps.dilation == 1) {}
  const PoolTaps& t;
  const bool pairs;
  static constexpr hn::ScalableTag<float> d{};
  using V = hn::Vec<hn::ScalableTag<float>>;

  // Elements that the vector of windows from pixel j on reads, of those that begin with the row.
  HWY_INLINE int64_t Reach(int64_t j) const {
    const int64_t last = (t.taps - 1) & (pairs ? -2 : -1);
    return kStride * (j + static_cast<int64_t>(hn::Lanes(d))) + last * t.dilation;
  }
  HWY_INLINE V At(int64_t j) const {
    const Op op;
    V v = hn::Zero(d), even, odd;
    for (int64_t q = 0; q < t.taps;) {
      Load(j * kStride + q * t.dilation, even, odd);
      v = q == 0 ? even : op(d, v, even);
      ++q;
      if (pairs && q < t.taps) v = op(d, v, odd), ++q;
    }
    return v;
  }

 private:
  HWY_INLINE void Load(int64_t at, V& even, V& odd) const {
    const Op op;
    LoadRow(t.from + at, even, odd);
    for (int64_t r = 1; r < t.rows; ++r) {
      V even_r, odd_r;
      LoadRow(t.from + r * t.row_step + at, even_r, odd_r);
      even = op(d, even, even_r);
      if (pairs) odd = op(d, odd, odd_r);
    }
  }
  HWY_INLINE void LoadRow(const float* at, V& even, V& odd) const {
    if constexpr (kStride == 2)
      hn::LoadInterleaved2(d, at, even, odd);
    else
      even = odd = hn::LoadU(d, at);
  }
};

template <class Op>
float OneWindow(const PoolTaps& t, int64_t j) {
  const Op op;
  float v = 0;
  for (int64_t q = 0; q < t.taps; ++q) {
    const int64_t at = j * t.stride + q * t.dilation;
    float of_rows = t.from[at];
    for (int64_t r = 1; r < t.rows; ++r) of_rows = op(of_rows, t.from[r * t.row_step + at]);
    v = q == 0 ? of_rows : op(v, of_rows);
  }
  return v;
}

// Returns how many pixels it made.
template <class Op, int kStride>
int64_t VectorTaps(const PoolTaps& t, int64_t n, float divisor, float* to) {
  const Windows<Op, kStride> windows(t);
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto by = hn::Set(d, divisor);
  int64_t j = 0;
  for (; j + lanes <= n && windows.Reach(j) <= t.readable; j += lanes)
    hn::StoreU(Op::Finish(windows.At(j), by), d, to + j);
  if (j == n) return n;
  // The last vector again, further on, or a part of the first.
  if (n >= lanes && windows.Reach(n - lanes) <= t.readable) {
    hn::StoreU(Op::Finish(windows.At(n - lanes), by), d, to + n - lanes);
    return n;
  }
  if (n - j < lanes && windows.Reach(j) <= t.readable) {
    StorePartial(F32{}, Op::Finish(windows.At(j), by), d, to + j, n - j);
    return n;
  }
  return j;
}

template <class Op>
void Taps(const PoolTaps& first, int64_t count, int64_t from_step, int64_t n, float divisor,
          float* to) {
  PoolTaps t = first;
  for (int64_t r = 0; r < count; ++r, t.from += from_step, t.readable -= from_step, to += n) {
    int64_t j = 0;
    if (t.stride == 1) j = VectorTaps<Op, 1>(t, n, divisor, to);
    if (t.stride == 2) j = VectorTaps<Op, 2>(t, n, divisor, to);
    for (; j < n; ++j) to[j] = Op::Finish(OneWindow<Op>(t, j), divisor);
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
