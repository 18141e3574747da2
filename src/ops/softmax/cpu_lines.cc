#include "ops/softmax/cpu_lines.h"

#include <cmath>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/cpu_lines.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/math-inl.h"
#include "backends/cpu/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

template <class E, bool kLog>
void Row(const SoftmaxRow& row) {
  using T = typename E::Type;
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d), n = row.n;
  const T* x = static_cast<const T*>(row.x);
  T* y = static_cast<T*>(row.y);
  const float max = ExtremeRow<1>(e, x, n);
  if (row.masked_zero && max == -kInf) {
    std::memset(y, 0, n * sizeof(T));
    return;
  }
  // -inf - -inf is NaN, as torch has it for a row of only -inf. Sums as in SumRow.
  const auto shift = hn::Set(d, max);
  float* exps = row.exps;
  const auto exp_at = [&](int64_t i) HWY_ATTR {
    const auto v = ExpNonPositive(d, hn::Sub(LoadF32(e, d, x + i), shift));
    if constexpr (!kLog) hn::StoreU(v, d, exps + i);
    return v;
  };
  const int64_t block = 256 * lanes;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    auto s0 = hn::Zero(d), s1 = s0;
    int64_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      s0 = hn::Add(s0, exp_at(i));
      s1 = hn::Add(s1, exp_at(i + lanes));
    }
    if (i + lanes <= end) s0 = hn::Add(s0, exp_at(i)), i += lanes;
    if (i < end) {
      const auto v = ExpNonPositive(d, hn::Sub(LoadPartial(e, d, x + i, end - i, -kInf), shift));
      // Padding must not count where max is -inf or inf (the difference is NaN there).
      s1 = hn::Add(s1, hn::IfThenElseZero(hn::FirstN(d, end - i), v));
      if constexpr (!kLog) StorePartial(F32{}, v, d, exps + i, end - i);
    }
    sum += SumLanes(d, hn::Add(s0, s1));
  }
  int64_t i = 0;
  if constexpr (kLog) {
    const auto log_sum = hn::Set(d, std::log(static_cast<float>(sum)));
    const auto of = [&](auto v) HWY_ATTR { return hn::Sub(hn::Sub(v, shift), log_sum); };
    for (; i + lanes <= n; i += lanes) StoreF32(e, of(LoadF32(e, d, x + i)), d, y + i);
    if (i < n) StorePartial(e, of(LoadPartial(e, d, x + i, n - i)), d, y + i, n - i);
  } else {
    const auto scale = hn::Set(d, static_cast<float>(1.0 / sum));
    for (; i + lanes <= n; i += lanes)
      StoreF32(e, hn::Mul(hn::LoadU(d, exps + i), scale), d, y + i);
    if (i < n)
      StorePartial(e, hn::Mul(LoadPartial(F32{}, d, exps + i, n - i), scale), d, y + i, n - i);
  }
}

// Two vectors of columns (a whole line of memory on most targets) from `first` on; the second, or a part of the
// second, or all but a part of the first may be missing.
template <class E, bool kLog, bool kWhole>
void TwoVectors(const SoftmaxColumns& c, int64_t first) {
  using T = typename E::Type;
  const E e;
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = hn::Lanes(d), left = c.columns - first;
  const int64_t left0 = left < lanes ? left : lanes, left1 = left - left0;
  const T* x = static_cast<const T*>(c.x) + first;
  T* y = static_cast<T*>(c.y) + first;
  // Of the f32 kind the exponentials lie in the result.
  constexpr bool kInResult = sizeof(T) == sizeof(float);
  float* exps = kInResult ? reinterpret_cast<float*>(y) : c.exps;
  const int64_t exps_stride = kInResult ? c.y_stride : kSoftmaxColumnsAtOnce;
  const auto load = [&](auto kind, const auto* at, V& v0, V& v1) HWY_ATTR {
    if constexpr (kWhole) {
      v0 = LoadF32(kind, d, at);
      v1 = LoadF32(kind, d, at + lanes);
    } else {
      v0 = left0 == lanes ? LoadF32(kind, d, at) : LoadPartial(kind, d, at, left0);
      v1 = LoadPartial(kind, d, at + left0, left1);
    }
  };
  const auto store = [&](auto kind, V v0, V v1, auto* at) HWY_ATTR {
    if constexpr (kWhole) {
      StoreF32(kind, v0, d, at);
      StoreF32(kind, v1, d, at + lanes);
    } else {
      if (left0 == lanes)
        StoreF32(kind, v0, d, at);
      else
        StorePartial(kind, v0, d, at, left0);
      StorePartial(kind, v1, d, at + left0, left1);
    }
  };
  V v0, v1;
  V max0 = hn::Set(d, -kInf), max1 = max0;
  for (int64_t i = 0; i < c.n; ++i) {
    load(e, x + i * c.x_stride, v0, v1);
    max0 = MaxNaN(d, max0, v0);
    max1 = MaxNaN(d, max1, v1);
  }
  // f32 sums of 256 elements, those added in double: how long a line is does not show in its last digits.
  double sums[2 * kMaxLanesF32] = {};
  HWY_ALIGN float part[2 * kMaxLanesF32];
  for (int64_t begin = 0; begin < c.n; begin += 256) {
    const int64_t end = begin + 256 < c.n ? begin + 256 : c.n;
    V s0 = hn::Zero(d), s1 = s0;
    for (int64_t i = begin; i < end; ++i) {
      load(e, x + i * c.x_stride, v0, v1);
      v0 = ExpNonPositive(d, hn::Sub(v0, max0));
      v1 = ExpNonPositive(d, hn::Sub(v1, max1));
      s0 = hn::Add(s0, v0);
      s1 = hn::Add(s1, v1);
      if constexpr (!kLog) store(F32{}, v0, v1, exps + i * exps_stride);
    }
    hn::Store(s0, d, part);
    hn::Store(s1, d, part + lanes);
    for (int64_t k = 0; k < 2 * lanes; ++k) sums[k] += part[k];
  }
  for (int64_t k = 0; k < 2 * lanes; ++k)
    part[k] = static_cast<float>(kLog ? sums[k] : 1 / sums[k]);
  V end0 = hn::Load(d, part), end1 = hn::Load(d, part + lanes);
  if constexpr (kLog) end0 = Log(d, end0), end1 = Log(d, end1);
  const V lowest = hn::Set(d, -kInf);
  const auto mask0 = hn::Eq(max0, lowest), mask1 = hn::Eq(max1, lowest);
  const bool zeros = c.masked_zero && !hn::AllFalse(d, hn::Or(mask0, mask1));
  for (int64_t i = 0; i < c.n; ++i) {
    if constexpr (kLog) {
      load(e, x + i * c.x_stride, v0, v1);
      v0 = hn::Sub(hn::Sub(v0, max0), end0);
      v1 = hn::Sub(hn::Sub(v1, max1), end1);
    } else {
      load(F32{}, exps + i * exps_stride, v0, v1);
      v0 = hn::Mul(v0, end0);
      v1 = hn::Mul(v1, end1);
      if (zeros) v0 = hn::IfThenZeroElse(mask0, v0), v1 = hn::IfThenZeroElse(mask1, v1);
    }
    store(e, v0, v1, y + i * c.y_stride);
  }
}

template <class E, bool kLog>
void Columns(const SoftmaxColumns& c) {
  const int64_t two = 2 * hn::Lanes(hn::ScalableTag<float>());
  int64_t first = 0;
  for (; first + two <= c.columns; first += two) TwoVectors<E, kLog, true>(c, first);
  if (first < c.columns) TwoVectors<E, kLog, false>(c, first);
}

template <class E>
SoftmaxFns FunctionsOf(bool log) {
  return log ? SoftmaxFns{Row<E, true>, Columns<E, true>}
             : SoftmaxFns{Row<E, false>, Columns<E, false>};
}

SoftmaxFns Find(DType dtype, bool log) {
  return dtype == DType::kF32   ? FunctionsOf<F32>(log)
         : dtype == DType::kF16 ? FunctionsOf<F16>(log)
                                : FunctionsOf<BF16>(log);
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Find);

template <bool kLog>
void RowDouble(const SoftmaxRow& row) {
  const double* x = static_cast<const double*>(row.x);
  double* y = static_cast<double*>(row.y);
  double max = x[0], sum = 0;
  for (int64_t i = 1; i < row.n; ++i) max = x[i] > max || x[i] != x[i] ? x[i] : max;
  const bool zero = row.masked_zero && max == -HUGE_VAL;
  for (int64_t i = 0; i < row.n; ++i) {
    const double v = std::exp(x[i] - max);
    sum += v;
    y[i] = kLog ? x[i] - max : v;
  }
  const double log_sum = std::log(sum);
  for (int64_t i = 0; i < row.n; ++i) y[i] = zero ? 0 : kLog ? y[i] - log_sum : y[i] / sum;
}
}  // namespace

SoftmaxFns FindSoftmax(DType dtype, bool log) {
  if (dtype == DType::kF64) return {log ? RowDouble<true> : RowDouble<false>, nullptr};
  return LS_SIMD(Find)(dtype, log);
}

}  // namespace liveshape::cpu
#endif
