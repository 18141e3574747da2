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
// taps for the shuffles of one. kSize: of windows whose rows and taps are so many and side by side; 0: of any.
template <class Op, int kStride, int kSize>
struct Windows {
  explicit Windows(const PoolTaps& taps)
      : t(taps),
        rows(kSize ? kSize : taps.rows),
        taps(kSize ? kSize : taps.taps),
        dilation(kSize ? 1 : taps.dilation),
        pairs(kStride == 2 && dilation == 1) {}
  const PoolTaps& t;
  const int64_t rows, taps, dilation;
  const bool pairs;
  static constexpr hn::ScalableTag<float> d{};
  using V = hn::Vec<hn::ScalableTag<float>>;

  // Elements that the vector of windows from pixel j on reads, of those that begin with the row.
  HWY_INLINE int64_t Reach(int64_t j) const {
    const int64_t last = (taps - 1) & (pairs ? -2 : -1);
    return kStride * (j + static_cast<int64_t>(hn::Lanes(d))) + last * dilation;
  }
  HWY_INLINE V At(int64_t j) const {
    const Op op;
    V v = hn::Zero(d), even, odd;
    for (int64_t q = 0; q < taps;) {
      Load(j * kStride + q * dilation, even, odd);
      v = q == 0 ? even : op(d, v, even);
      ++q;
      if (pairs && q < taps) v = op(d, v, odd), ++q;
    }
    return v;
  }

 private:
  // The rows of a window first: elements are told apart once for all of them.
  HWY_INLINE void Load(int64_t at, V& even, V& odd) const {
    const Op op;
    const float* from = t.from + at;
    V low = hn::LoadU(d, from), high = kStride == 2 ? hn::LoadU(d, from + hn::Lanes(d)) : low;
    for (int64_t r = 1; r < rows; ++r) {
      from += t.row_step;
      low = op(d, low, hn::LoadU(d, from));
      if (kStride == 2) high = op(d, high, hn::LoadU(d, from + hn::Lanes(d)));
    }
    even = low, odd = high;
#if HWY_TARGET != HWY_SCALAR
    if (kStride == 2) even = hn::ConcatEven(d, high, low), odd = hn::ConcatOdd(d, high, low);
#endif
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

// One row of pixels by vectors; returns how many it made. What it writes beyond them, up to `writable`, comes later.
template <class Op, int kStride, int kSize>
HWY_INLINE int64_t VectorRow(const Windows<Op, kStride, kSize>& windows, int64_t n, float divisor,
                             float* to, int64_t writable) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d), readable = windows.t.readable;
  const auto by = hn::Set(d, divisor);
  int64_t j = 0;
  for (; j + lanes <= n && windows.Reach(j) <= readable; j += lanes)
    hn::StoreU(Op::Finish(windows.At(j), by), d, to + j);
  if (j == n) return n;
  // The last vector again, further on, or a part of the first.
  if (n >= lanes && windows.Reach(n - lanes) <= readable) {
    hn::StoreU(Op::Finish(windows.At(n - lanes), by), d, to + n - lanes);
    return n;
  }
  if (n - j < lanes && windows.Reach(j) <= readable) {
    const auto v = Op::Finish(windows.At(j), by);
    if (j + lanes <= writable)
      hn::StoreU(v, d, to + j);
    else
      StorePartial(F32{}, v, d, to + j, n - j);
    return n;
  }
  return j;
}

// kStride: 0: of any.
template <class Op, int kStride, int kSize>
void TapRows(PoolTaps t, const PoolOutput& rows, int64_t n, float divisor, float* to) {
  int64_t left = rows.count;
  if constexpr (kStride > 0) {
    // Rows of less than a vector, and in them no case to tell apart: images of a few pixels are many.
    const Windows<Op, kStride, kSize> windows(t);
    const hn::ScalableTag<float> d;
    const int64_t lanes = hn::Lanes(d), reach = windows.Reach(0);
    const auto by = hn::Set(d, divisor);
    if (n < lanes) {
      for (; left > 0 && reach <= t.readable && lanes <= (left - 1) * rows.to_step + n; --left) {
        hn::StoreU(Op::Finish(windows.At(0), by), d, to);
        t.from += rows.from_step;
        t.readable -= rows.from_step;
        to += rows.to_step;
      }
    }
  }
  for (; left > 0; --left) {
    int64_t j = 0;
    if constexpr (kStride > 0) {
      const Windows<Op, kStride, kSize> windows(t);
      j = VectorRow(windows, n, divisor, to, (left - 1) * rows.to_step + n);
    }
    for (; j < n; ++j) to[j] = Op::Finish(OneWindow<Op>(t, j), divisor);
    t.from += rows.from_step;
    t.readable -= rows.from_step;
    to += rows.to_step;
  }
}

template <class Op, int kStride>
void TapRowsOf(const PoolTaps& t, const PoolOutput& rows, int64_t n, float divisor, float* to) {
  const bool square = t.rows == t.taps && t.dilation == 1;
  if (square && t.taps == 2) return TapRows<Op, kStride, 2>(t, rows, n, divisor, to);
  if (square && t.taps == 3) return TapRows<Op, kStride, 3>(t, rows, n, divisor, to);
  TapRows<Op, kStride, 0>(t, rows, n, divisor, to);
}

template <class Op>
void Taps(const PoolTaps& t, const PoolOutput& rows, int64_t n, float divisor, float* to) {
  if (n > 1 && t.stride == 1) return TapRowsOf<Op, 1>(t, rows, n, divisor, to);
  if (n > 1 && t.stride == 2) return TapRowsOf<Op, 2>(t, rows, n, divisor, to);
  TapRows<Op, 0, 0>(t, rows, n, divisor, to);
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
