// What the depthwise kernels share, and 3x3 windows over rows of less than a vector.
#if defined(LIVESHAPE_CONV_DEPTHWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_DEPTHWISE_INL_H_
#undef LIVESHAPE_CONV_DEPTHWISE_INL_H_
#else
#define LIVESHAPE_CONV_DEPTHWISE_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "ops/conv/cpu_call.h"
#include "ops/conv/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// Some pixel rows of one output channel.
struct DepthwiseTask {
  int64_t image, channel;  // of the input
  int64_t row;             // output channel
  int64_t begin, end;      // pixel rows
  float* scratch;
};

// A vector of which `live` lanes are of the row. What lies beyond is stored later, but not from `limit` on: that is another
// worker's.
template <class D>
HWY_INLINE void StoreRow(D d, hn::Vec<D> sum, int64_t live, const float* limit, float* row) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  if (live < kLanes && row + kLanes > limit) {
    HWY_ALIGN float edge[kLanes];
    hn::Store(sum, d, edge);
    for (int64_t j = 0; j < live; ++j) row[j] = edge[j];
  } else {
    hn::StoreU(sum, d, row);
  }
}

#if HWY_TARGET != HWY_SCALAR
template <int kLanes, int kBy>
struct Rotation {
  alignas(64) int32_t from[kLanes] = {};
  constexpr Rotation() {
    for (int i = 0; i < kLanes; ++i) from[i] = (i - kBy + kLanes) % kLanes;
  }
};
// Tables, not made where they are used: a vector read right after its lanes were written one by one stalls.
template <int kLanes, int kBy>
constexpr Rotation<kLanes, kBy> kRotation;

// Of a vector whose last lane is zero: shifted, as far as a row of fewer lanes sees.
template <int kBy, class D>
HWY_INLINE hn::Vec<D> RotateLanes(D d, hn::Vec<D> v) {
  return hn::TableLookupLanes(v, hn::SetTableIndices(d, kRotation<hn::MaxLanes(D()), kBy>.from));
}

// How the pixel rows [begin, end) of a 3x3 window that moves by one go down an image. All of an image of four rows with one
// of padding above and below: row 0 completes no pixel row (early 1), rows 1 to 3 complete one each (full 3), and the last
// one ends below the image (ending 1).
struct RowsSeen {
  int64_t first;                // row of the image that is seen
  int64_t above = 0;            // pixel rows that see none of it yet
  int64_t early = 0, full = 0;  // image rows that complete no pixel row, or one each
  int64_t ending = 0;           // pixel rows that the image's end completes
  int64_t below = 0;            // and that see none of it any more
  int64_t skipped = 0;          // of the two that its end may complete: those before `begin`
  RowsSeen(const ConvCall& call, int64_t begin, int64_t end) {
    const int64_t before = call.h.before;
    first = std::max<int64_t>(0, begin - before);
    const int64_t rows = std::max<int64_t>(0, std::min(call.height, end + 2 - before) - first);
    above = std::clamp<int64_t>(first + before - 2 - begin, 0, end - begin);
    early = std::clamp<int64_t>(begin + above + 2 - before - first, 0, rows);
    full = rows - early;
    const int64_t next = begin + above + full, last = first + rows;
    skipped = std::clamp<int64_t>(next - (last - 2 + before), 0, 2);
    ending = std::min(end - next, 2 - skipped);
    below = end - next - ending;
  }
};

// Rows of less than a vector: down the plane, each row of the image is read once, for the three pixel rows that see it.
// What it adds to each is summed by itself: a vector a row is too little to hide one chain through all taps. kWhole: what a
// vector has beyond the last row may be written.
template <bool kWhole, class D>
HWY_INLINE void NarrowPlane3x3(D d, const RowsSeen& seen, int64_t width, const float* from,
                               int64_t step, const float* weight, float bias, const float* limit,
                               float* to) {
  using V = hn::Vec<D>;
  V w[9];
  HWY_UNROLL(9)
  for (int t = 0; t < 9; ++t) w[t] = hn::Set(d, weight[t * 16]);
  const V start = hn::Set(d, bias);
  const auto inside = hn::FirstN(d, width);
  const auto store = [&](V sum) HWY_ATTR {
    if constexpr (kWhole)
      hn::StoreU(sum, d, to);
    else
      StoreRow(d, sum, width, limit, to);
    to += width;
  };
  V upper = start, lower = start;  // of the pixel rows whose last and middle the next row is
  // Adds a row; the pixel row that it completes.
  const auto add = [&]() HWY_ATTR {
    __builtin_prefetch(from + 512, 0, 3);
    const V row = hn::MaskedLoad(inside, d, from);
    from += step;
    const V tap[] = {RotateLanes<1>(d, row), row, RotateLanes<-1>(d, row)};
    const auto sum_of = [&](int p) HWY_ATTR {
      const V some = hn::Mul(w[3 * p], tap[0]);
      return hn::MulAdd(w[3 * p + 2], tap[2], hn::MulAdd(w[3 * p + 1], tap[1], some));
    };
    const V sum = hn::Add(upper, sum_of(2));
    upper = hn::Add(lower, sum_of(1));
    lower = hn::Add(start, sum_of(0));
    return sum;
  };
  for (int64_t i = 0; i < seen.above; ++i) store(start);
  for (int64_t i = 0; i < seen.early; ++i) add();
  for (int64_t i = 0; i < seen.full; ++i) store(add());
  for (int64_t i = 0; i < seen.ending; ++i) store(i + seen.skipped == 0 ? upper : lower);
  for (int64_t i = 0; i < seen.below; ++i) store(start);
}

#endif

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
