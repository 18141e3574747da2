// One row of the online softmax. Hidden keys are a predicate: their scores, whatever was computed for them,
// are replaced by -inf before anything else looks, and their weight is exactly 0.
#if defined(LIVESHAPE_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_ATTENTION_SOFTMAX_INL_H_
#undef LIVESHAPE_ATTENTION_SOFTMAX_INL_H_
#else
#define LIVESHAPE_ATTENTION_SOFTMAX_INL_H_
#endif

#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/gemm/element-inl.h"
#include "backends/cpu/simd/math-inl.h"
#include "hwy/highway.h"
#include "ops/attention/cpu_call.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

constexpr float kMinusInf = -std::numeric_limits<float>::infinity();
using RowTag = hn::CappedTag<float, 16>;  // rows are padded to 16

// By how much sums shrink when the maximum grows by -x.
HWY_INLINE float ShrinkFactor(float x) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(ExpNonPositive(d, hn::Set(d, x)));
}

// A maximum that stands for "nothing seen" must not be subtracted: -inf - -inf is NaN.
inline float Subtrahend(float maximum) { return maximum == kMinusInf ? 0.0f : maximum; }

// Scores (raw products; `visible` of them count, the buffer is padded to 16) become weights in place, and
// maximum and total go on. Returns the factor by which earlier sums shrink. `mask` is added, null if none;
// where it is -inf the key is hidden. Weights from `visible` to `padded` are 0.
HWY_INLINE float SoftmaxRow(float* scores, int64_t visible, int64_t padded, const float* mask,
                            float scale, float& maximum, float& total) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  const auto minus_inf = hn::Set(d, kMinusInf);
  const auto vscale = hn::Set(d, scale);
  auto vmax = minus_inf;
  for (int64_t i = 0; i < visible; i += kStep) {
    auto s = hn::LoadU(d, scores + i);
    if (mask != nullptr) {
      const auto m = hn::LoadU(d, mask + i);
      s = hn::IfThenElse(hn::Eq(m, minus_inf), minus_inf, hn::MulAdd(s, vscale, m));
    } else {
      s = hn::Mul(s, vscale);
    }
    if (i + kStep > visible) {
      s = hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(visible - i)), s, minus_inf);
    }
    hn::StoreU(s, d, scores + i);
    vmax = hn::Max(vmax, s);
  }
  // A NaN among the scores may or may not get here; it makes the total NaN below.
  const float most = hn::GetLane(hn::MaxOfLanes(d, vmax));
  const float next = most > maximum ? most : maximum;
  const float base = Subtrahend(next);
  const auto vbase = hn::Set(d, base);
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i < visible; i += kStep) {
    const auto p = ExpNonPositive(d, hn::Sub(hn::LoadU(d, scores + i), vbase));
    hn::StoreU(p, d, scores + i);
    sum = hn::Add(sum, p);
  }
  for (; i < padded; i += kStep) hn::StoreU(hn::Zero(d), d, scores + i);
  const float added = hn::GetLane(hn::SumOfLanes(d, sum));
  const float shrink = ShrinkFactor(maximum - base);
  total = total * shrink + added;
  maximum = next;
  return shrink;
}

// One row of the mask over keys [begin, begin + count) as what is added: 0 or -inf for a bool mask. False
// if every key is hidden.
template <typename T>
bool LoadMask(const AttentionCall& call, const AttentionRow& row, int64_t begin, int64_t count,
              float* to) {
  const View& mask = *call.mask;
  const int64_t stride = mask.strides[3];
  const int64_t offset = row.Offset(mask) + begin * stride, padded = RoundUp16(count);
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  const auto minus_inf = hn::Set(d, kMinusInf);
  if (mask.dtype == DType::kBool) {
    const hn::RebindToSigned<RowTag> di;
    const hn::Rebind<uint8_t, RowTag> bytes;
    const uint8_t* from = mask.as<const uint8_t>() + offset;
    int64_t i = 0;
    for (; stride == 1 && i + kStep <= count; i += kStep) {
      const auto keep = hn::Ne(hn::PromoteTo(di, hn::LoadU(bytes, from + i)), hn::Zero(di));
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, keep), hn::Zero(d), minus_inf), d, to + i);
    }
    for (; i < count; ++i) to[i] = from[i * stride] != 0 ? 0.0f : kMinusInf;
  } else {
    const T* from = mask.as<const T>() + offset;
    if (stride == 1)
      WidenRow(from, count, to);
    else
      for (int64_t i = 0; i < count; ++i) to[i] = ToFloat(from[i * stride]);
  }
  for (int64_t i = count; i < padded; ++i) to[i] = kMinusInf;
  auto hidden = hn::Eq(minus_inf, minus_inf);
  for (int64_t i = 0; i < padded; i += kStep)
    hidden = hn::And(hidden, hn::Eq(hn::LoadU(d, to + i), minus_inf));
  return !hn::AllTrue(d, hidden);
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
HWY_INLINE bool AllFinite(const float* x, int64_t count) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  // Four sums: one would wait for itself, a twentieth of the time of 64 queries by 128 keys.
  const auto zero = hn::Zero(d);
  auto s0 = zero, s1 = zero, s2 = zero, s3 = zero;
  int64_t i = 0;
  for (; i + 4 * kStep <= count; i += 4 * kStep) {
    s0 = hn::MulAdd(hn::LoadU(d, x + i), zero, s0);
    s1 = hn::MulAdd(hn::LoadU(d, x + i + kStep), zero, s1);
    s2 = hn::MulAdd(hn::LoadU(d, x + i + 2 * kStep), zero, s2);
    s3 = hn::MulAdd(hn::LoadU(d, x + i + 3 * kStep), zero, s3);
  }
  for (; i < count; i += kStep) s0 = hn::MulAdd(hn::LoadU(d, x + i), zero, s0);
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))) == 0;
}

// to[0..16) += the weighted sum of a panel of values [k][16]: the micro kernel's sums in its order, over
// visible keys only. For values that are not finite, where 0 * v would be NaN.
HWY_INLINE void AddVisibleValues(const float* panel, const float* weights, const float* mask,
                                 int64_t visible, float* to) {
  const RowTag d;
  constexpr int64_t kStep = hn::MaxLanes(RowTag());
  for (int64_t e = 0; e < 16; e += kStep) {
    auto sum = hn::Zero(d);
    for (int64_t n = 0; n < visible; ++n) {
      if (mask != nullptr && mask[n] == kMinusInf) continue;
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
