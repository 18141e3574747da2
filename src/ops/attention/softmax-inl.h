// The online softmax of one row of scores, and what is done with its weights. Hidden keys are a predicate: their
// scores, whatever was computed for them, are replaced by -inf before anything else looks, and their weight is
// exactly 0. Scores come in scaled: the scale is in the queries.
#if defined(LIVESHAPE_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_ATTENTION_SOFTMAX_INL_H_
#undef LIVESHAPE_ATTENTION_SOFTMAX_INL_H_
#else
#define LIVESHAPE_ATTENTION_SOFTMAX_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "backends/cpu/gemm/element-inl.h"
#include "backends/cpu/simd/math-inl.h"
#include "hwy/highway.h"
#include "ops/attention/cpu_call.h"
#include "ops/attention/mask-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// A maximum that stands for "nothing seen" must not be subtracted: -inf - -inf is NaN.
inline float Subtrahend(float maximum) { return maximum == kMinusInf ? 0.0f : maximum; }

// e^x, x <= 0 or NaN; below 2^-125 it is 0. As 2^n * 2^r with r = x log2(e) - n in one rounding, two thirds of
// ExpNonPositive's work: the relative error is 1.1e-7 at x = -1 and grows as the weight vanishes, to 2.3e-7 at -10
// and 1.3e-6 at -87.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Weight(D d, V x) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5 * 2^23 + 127 leaves n + 127 in the low bits. What comes of x below the limit is garbage, and dropped.
  const V magic = hn::Set(d, 12582912.0f + 127.0f), log2e = hn::Set(d, kLog2e);
  const V shifted = hn::MulAdd(x, log2e, magic);
  const V r = hn::MulSub(x, log2e, hn::Sub(shifted, magic));
  const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted)));
  // (2^r - 1) / r on |r| <= 1/2, to 2e-9 of 2^r.
  const V p = Horner(d, r, hn::Set(d, 1.53533585e-4f), 1.33988757e-3f, 9.61843738e-3f,
                     5.55033247e-2f, 2.40226479e-1f, 6.93147203e-1f);
  const V y = hn::MulAdd(hn::Mul(p, r), scale, scale);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -86.6f)), y);
}

// By how much sums shrink when the maximum grows.
HWY_INLINE float ShrinkFactor(float from, float to) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(Weight(d, hn::Set(d, from - Subtrahend(to))));
}

// Applies the mask to `visible` scores and makes the rest of the last vector -inf; the maximum of `before` and what
// is left. A NaN among the scores may or may not get here; it makes the total NaN.
template <class Mask>
HWY_INLINE float MaskedMaximum(float* scores, int64_t visible, const Mask& mask, float before) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  auto max0 = hn::Set(d, kMinusInf), max1 = max0;
  const auto at = [&](int64_t i) HWY_ATTR {
    const auto s = mask.Apply(d, hn::LoadU(d, scores + i), i);
    if constexpr (Mask::kHides) hn::StoreU(s, d, scores + i);
    return s;
  };
  int64_t i = 0;
  for (; i + 2 * kStep <= visible; i += 2 * kStep) {
    max0 = hn::Max(max0, at(i));
    max1 = hn::Max(max1, at(i + kStep));
  }
  if (i + kStep <= visible) max0 = hn::Max(max0, at(i)), i += kStep;
  if (i < visible) {
    const auto s = mask.ApplyFirst(d, hn::LoadU(d, scores + i), i, visible - i);
    const auto kept =
        hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(visible - i)), s, hn::Set(d, kMinusInf));
    hn::StoreU(kept, d, scores + i);
    max1 = hn::Max(max1, kept);
  }
  const float most = hn::GetLane(hn::MaxOfLanes(d, hn::Max(max0, max1)));
  return most > before ? most : before;
}

// Scores become weights in place, 0 from `visible` to `padded`; their sum. Both are multiples of the vector, or
// MaskedMaximum has filled the last one.
HWY_INLINE float Weigh(float* scores, int64_t visible, int64_t padded, float maximum) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  const auto base = hn::Set(d, Subtrahend(maximum));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i < visible; i += kStep) {
    const auto p = Weight(d, hn::Sub(hn::LoadU(d, scores + i), base));
    hn::StoreU(p, d, scores + i);
    sum = hn::Add(sum, p);
  }
  for (; i < padded; i += kStep) hn::StoreU(hn::Zero(d), d, scores + i);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void ScaleRow(float* row, int64_t padded, float by) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  const auto factor = hn::Set(d, by);
  for (int64_t i = 0; i < padded; i += kStep)
    hn::StoreU(hn::Mul(hn::LoadU(d, row + i), factor), d, row + i);
}

// The mean of v over all keys, as torch gives where every score is the same finite number.
template <typename T>
void MeanOfValues(const AttentionCall& call, int64_t batch, int64_t group, float* mean,
                  float* part) {
  const View& v = *call.v;
  const int64_t width = call.width();
  for (int64_t e = 0; e < width; ++e) mean[e] = 0;
  for (int64_t begin = 0; begin < call.keys();
       begin += 256) {  // blocks: a long sum keeps its digits
    for (int64_t e = 0; e < width; ++e) part[e] = 0;
    for (int64_t t = begin; t < std::min(begin + 256, call.keys()); ++t) {
      const T* row =
          v.as<const T>() + batch * v.strides[0] + group * v.strides[1] + t * v.strides[2];
      for (int64_t e = 0; e < width; ++e) part[e] += ToFloat(row[e * v.strides[3]]);
    }
    for (int64_t e = 0; e < width; ++e) mean[e] += part[e];
  }
  for (int64_t e = 0; e < width; ++e) mean[e] /= static_cast<float>(call.keys());
}

// Whether x * 0 is 0 for every element: then a weight of 0 hides a value, else it must be skipped.
// `count` is a multiple of 16.
template <typename T>
HWY_INLINE bool AllFinite(const T* x, int64_t count) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  // Four sums: one would wait for itself, a twentieth of the time of 64 queries by 128 keys.
  const auto zero = hn::Zero(d);
  auto s0 = zero, s1 = zero, s2 = zero, s3 = zero;
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep) {
    s0 = hn::MulAdd(LoadAsFloat(d, x + i), zero, s0);
    s1 = hn::MulAdd(LoadAsFloat(d, x + i + kStep), zero, s1);
    s2 = hn::MulAdd(LoadAsFloat(d, x + i + 2 * kStep), zero, s2);
    s3 = hn::MulAdd(LoadAsFloat(d, x + i + 3 * kStep), zero, s3);
  }
  for (; i < count; i += kStep) s0 = hn::MulAdd(LoadAsFloat(d, x + i), zero, s0);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))) == 0;
}

// to[0..16) += the weighted sum of a panel of values [k][16]: the micro kernel's sums in its order, over
// visible keys only. For values that are not finite, where 0 * v would be NaN.
template <class Mask>
HWY_INLINE void AddVisibleValues(const float* panel, const float* weights, const Mask& mask,
                                 int64_t visible, float* to) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  for (int64_t e = 0; e < 16; e += kStep) {
    auto sum = hn::Zero(d);
    for (int64_t n = 0; n < visible; ++n) {
      if (mask.Hidden(n)) continue;
      sum = hn::MulAdd(hn::Set(d, weights[n]), hn::LoadU(d, panel + n * 16 + e), sum);
    }
    hn::StoreU(hn::Add(hn::LoadU(d, to + e), sum), d, to + e);
  }
}

// Writes a row that saw at least one key: sums / total.
template <typename T>
HWY_INLINE void FinishRow(float* sums, float total, int64_t width, T* to) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  const auto vtotal = hn::Set(d, total);
  for (int64_t e = 0; e < width; e += kStep) {
    hn::StoreU(hn::Div(hn::LoadU(d, sums + e), vtotal), d, sums + e);
  }
  NarrowRow(sums, width, to);
}

template <typename T>
void FillRow(float value, int64_t width, T* to) {
  for (int64_t e = 0; e < width; ++e) to[e] = FromFloat<T>(value);
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
