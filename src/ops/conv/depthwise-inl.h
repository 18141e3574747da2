// Depthwise 3x3 windows straight from rows that lie dense in memory, and what they share with others.
#if defined(LIVESHAPE_CONV_DEPTHWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_DEPTHWISE_INL_H_
#undef LIVESHAPE_CONV_DEPTHWISE_INL_H_
#else
#define LIVESHAPE_CONV_DEPTHWISE_INL_H_
#endif

#include <type_traits>

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

struct Taps {
  const float* line;       // the first pixel's row
  const float* weight;     // [taps], 16 apart
  const int64_t* offsets;  // of each tap from `line`
  int64_t count;
  float bias;
};

// Pixel rows of one task, four at a time, the last four of which may repeat some: f(their number as a constant, the first).
template <typename F>
HWY_INLINE void ForRows(int64_t rows, F&& f) {
  if (rows < 4) {
    for (int64_t i = 0; i < rows; ++i) f(std::integral_constant<int, 1>(), i);
    return;
  }
  for (int64_t i = 0; i < rows; i += 4) {
    if (i + 4 > rows) i = rows - 4;
    f(std::integral_constant<int, 4>(), i);
  }
}

// One vector a row. Where rows are shorter than a vector, what lies beyond is the next ones', which are stored later;
// beyond `limit` is another worker's.
template <class D>
HWY_INLINE void StoreRow(D d, hn::Vec<D> sum, int64_t width, const float* limit, float* row) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(d));
  if (width < kLanes && row + kLanes > limit) {
    HWY_ALIGN float edge[kLanes];
    hn::Store(sum, d, edge);
    for (int64_t j = 0; j < width; ++j) row[j] = edge[j];
  } else {
    hn::StoreU(sum, d, row);
  }
}
template <int kRows>
HWY_INLINE void StoreRows(const hn::Vec<Lane> (&sum)[kRows], int64_t width, const float* limit,
                          float* to) {
  HWY_UNROLL(4)
  for (int i = 0; i < kRows; ++i) StoreRow(Lane(), sum[i], width, limit, to + i * width);
}

using DenseFn = void (*)(const ConvCall& call, const DepthwiseTask& task, const float* plane,
                         const Taps& taps, float* zeros, const float* limit, float* to);

#if HWY_TARGET != HWY_SCALAR
// Straight from rows that lie dense in memory, where a window reaches at most into the neighbouring pixel's: laying
// them out costs more than the taps do. Lanes that would read beside the row are shifted in as zeros.
//
// Where windows move by two, lanes hold the pixels 0, n / 2, 1, n / 2 + 1, ... of n: every second column of two vectors,
// taken without crossing blocks of 128 bits. Sums are put in order once, before they are stored.
template <int kStep>
constexpr int LaneOf(int pixel) {
  constexpr int kHalf = kPixelLanes / 2;
  return kStep == 1 ? pixel : pixel < kHalf ? 2 * pixel : 2 * (pixel - kHalf) + 1;
}

template <int kStep, int kBy>  // 1: up, a zero comes first; -1: down, it comes last
struct Shift {
  alignas(64) int32_t from[kPixelLanes] = {};
  alignas(64) int32_t keep[kPixelLanes] = {};
  constexpr Shift() {
    for (int i = 0; i < kPixelLanes; ++i) {
      const bool inside = i >= kBy && i - kBy < kPixelLanes;
      from[LaneOf<kStep>(i)] = inside ? LaneOf<kStep>(i - kBy) : 0;
      keep[LaneOf<kStep>(i)] = inside ? -1 : 0;
    }
  }
};
struct Order {
  alignas(64) int32_t from[kPixelLanes] = {};
  constexpr Order() {
    for (int i = 0; i < kPixelLanes; ++i) from[i] = LaneOf<2>(i);
  }
};
template <int kLanes, int kBy>
struct Rotation {
  alignas(64) int32_t from[kLanes] = {};
  constexpr Rotation() {
    for (int i = 0; i < kLanes; ++i) from[i] = (i - kBy + kLanes) % kLanes;
  }
};
// Tables, not made where they are used: a vector read right after its lanes were written one by one stalls.
template <int kStep, int kBy>
constexpr Shift<kStep, kBy> kShift;
constexpr Order kOrder;
template <int kLanes, int kBy>
constexpr Rotation<kLanes, kBy> kRotation;

template <int kStep, int kBy>
HWY_INLINE hn::Vec<Lane> ShiftLanes(hn::Vec<Lane> v) {
  const Lane d;
  const hn::RebindToSigned<Lane> di;
  const Shift<kStep, kBy>& shift = kShift<kStep, kBy>;
  const auto moved = hn::TableLookupLanes(v, hn::SetTableIndices(d, shift.from));
  return hn::And(moved, hn::BitCast(d, hn::Load(di, shift.keep)));
}

// As ShiftLanes of a vector whose last lane is zero, for those who do not read it.
template <int kBy, class D>
HWY_INLINE hn::Vec<D> RotateLanes(D d, hn::Vec<D> v) {
  return hn::TableLookupLanes(v, hn::SetTableIndices(d, kRotation<hn::MaxLanes(D()), kBy>.from));
}

template <int kStep>
HWY_INLINE hn::Vec<Lane> InOrder(hn::Vec<Lane> v) {
  const Lane d;
  return kStep == 1 ? v : hn::TableLookupLanes(v, hn::SetTableIndices(d, kOrder.from));
}

// What the taps of a row see for the pixels [at, at + lanes).
enum class Part {
  kFirst,
  kMiddle,
  kLast,
  kWhole,   // the row is a vector
  kNarrow,  // the row is less
};
template <int kStep, Part kPart>
HWY_INLINE void DenseTaps(const float* row, int64_t at, int64_t width, hn::Vec<Lane> (&tap)[3]) {
  constexpr bool kFirst = kPart != Part::kMiddle && kPart != Part::kLast;
  constexpr bool kLast = kPart != Part::kMiddle && kPart != Part::kFirst;
  const Lane d;
  const auto load = [&](int64_t column) HWY_ATTR {
    if constexpr (kPart != Part::kNarrow) return hn::LoadU(d, row + column);
    const int64_t inside = kStep * width - column;
    return hn::MaskedLoad(hn::FirstN(d, inside > 0 ? inside : 0), d, row + column);
  };
  if constexpr (kStep == 1) {
    tap[1] = load(at);
    tap[0] = kFirst ? ShiftLanes<1, 1>(tap[1]) : load(at - 1);
    tap[2] = kLast ? ShiftLanes<1, -1>(tap[1]) : load(at + 1);
  } else {
    const auto even = [&](int64_t column) HWY_ATTR {
      return hn::OddEven(hn::Shuffle2301(load(column + kPixelLanes)), load(column));
    };
    const auto odd = [&](int64_t column) HWY_ATTR {
      return hn::OddEven(load(column + kPixelLanes), hn::Shuffle2301(load(column)));
    };
    tap[1] = even(2 * at);
    tap[2] = odd(2 * at);
    tap[0] = kFirst ? ShiftLanes<2, 1>(tap[2]) : odd(2 * at - 2);
  }
}

// rows: of the image, from the first that the first pixel row sees; those outside are zeros.
template <int kRows, int kStep>
HWY_NOINLINE void DenseRows(const Taps& taps, const float* const* rows, int64_t width,
                            const float* limit, float* to) {
  const Lane d;
  hn::Vec<Lane> w[9];
  HWY_UNROLL(9)
  for (int t = 0; t < 9; ++t) w[t] = hn::Set(d, taps.weight[t * 16]);
  const auto bias = hn::Set(d, taps.bias);
  const auto pixels = [&](auto part, int64_t at) HWY_ATTR {
    hn::Vec<Lane> sum[kRows];
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) sum[i] = hn::Zero(d);
    HWY_UNROLL(9)
    for (int r = 0; r < (kRows - 1) * kStep + 3; ++r) {
      hn::Vec<Lane> tap[3];
      if constexpr (kStep == 2) {  // by one, the multiply-adds take longer than the rows
        constexpr int64_t kAhead = 1024;
        __builtin_prefetch(rows[r] + 2 * at + kAhead, 0, 3);
        __builtin_prefetch(rows[r] + 2 * at + kAhead + kPixelLanes, 0, 3);
      }
      DenseTaps<kStep, part.value>(rows[r], at, width, tap);
      HWY_UNROLL(4)
      for (int i = 0; i < kRows; ++i) {
        const int p = r - i * kStep;
        if (p < 0 || p >= 3) continue;
        HWY_UNROLL(3)
        for (int q = 0; q < 3; ++q) sum[i] = hn::MulAdd(w[p * 3 + q], tap[q], sum[i]);
      }
    }
    HWY_UNROLL(4)
    for (int i = 0; i < kRows; ++i) sum[i] = InOrder<kStep>(hn::Add(sum[i], bias));
    StoreRows(sum, width, limit, to + at);
  };
  if (width < kPixelLanes) return pixels(std::integral_constant<Part, Part::kNarrow>(), 0);
  if (width == kPixelLanes) return pixels(std::integral_constant<Part, Part::kWhole>(), 0);
  pixels(std::integral_constant<Part, Part::kFirst>(), 0);
  for (int64_t at = kPixelLanes; at + kPixelLanes < width; at += kPixelLanes)
    pixels(std::integral_constant<Part, Part::kMiddle>(), at);
  pixels(std::integral_constant<Part, Part::kLast>(), width - kPixelLanes);
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

template <int kStep>
void DensePlane(const ConvCall& call, const DepthwiseTask& task, const float* plane,
                const Taps& taps, float* zeros, const float* limit, float* to) {
  FillZero(zeros, call.width);
  const int64_t count = task.end - task.begin, width = call.out_width;
  ForRows(count, [&](auto some, int64_t first) HWY_ATTR {
    constexpr int kSeen = (some.value - 1) * kStep + 3;
    const float* rows[kSeen];
    for (int r = 0; r < kSeen; ++r) {
      const int64_t row = (task.begin + first) * kStep - call.h.before + r;
      rows[r] = row >= 0 && row < call.height ? plane + row * call.x_strides[2] : zeros;
    }
    DenseRows<some.value, kStep>(taps, rows, width, limit, to + first * width);
  });
}
#endif

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
