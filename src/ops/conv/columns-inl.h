// Depthwise windows of any padding, column by column down the plane: every row of the image is read once, where it lies,
// for all pixel rows that see it.
#if defined(LIVESHAPE_CONV_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_COLUMNS_INL_H_
#undef LIVESHAPE_CONV_COLUMNS_INL_H_
#else
#define LIVESHAPE_CONV_COLUMNS_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "hwy/highway.h"
#include "ops/conv/cpu_call.h"
#include "ops/conv/depthwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET != HWY_SCALAR
// What the pixel rows of a task see: tap [p, q] of pixel [i, j] is first[(i * step + p) * line + j * step + q], and zero
// where that is outside of the image.
struct Seen {
  const float* first;
  int64_t line;
  int64_t top, bottom;  // the image's rows and columns, counted from `first`
  int64_t left, right;
};

constexpr int kRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 32 : 16;

template <int kSize>
struct ColumnTaps {
  HWY_ALIGN float weights[kSize * kSize * kPixelLanes];  // [across][down], each a vector
  float bias;
};

enum class Columns {
  kInside,
  kEdge,   // some of what they see is outside of the image
  kShort,  // also the rows are less than the vectors, the last of which ends with them
};

// Pixels [at, at + kWide vectors) of all rows. Where windows move by two, lanes are in the order of LaneOf<2>. The taps of
// a pixel come row by row.
template <int kSize, int kStep, int kWide, Columns kWhich>
HWY_NOINLINE void DownColumns(const ColumnTaps<kSize>& taps, const Seen& seen, int64_t rows,
                              int64_t width, int64_t at, const float* limit, float* to) {
  constexpr bool kEdge = kWhich != Columns::kInside;
  constexpr int kAlive = (kSize + kStep - 1) / kStep;  // pixel rows that see one of the image's
  constexpr int kGroups = kAlive;  // of kStep taps across, which see the same vectors
  constexpr int kLanes = kPixelLanes;
  const Lane d;
  const auto pixel = [&](int v) -> int64_t {  // of each vector
    return kWhich == Columns::kShort && v == kWide - 1 ? width - kLanes : v * kLanes;
  };
  hn::Mask<Lane> inside[kEdge ? kGroups * kWide * kStep : 1];
  if constexpr (kEdge) {
    for (int64_t g = 0; g < kGroups; ++g) {
      for (int64_t v = 0; v < kWide * kStep; ++v) {
        const int64_t column = (at + g + pixel(v / kStep)) * kStep + v % kStep * kLanes;
        const auto first = [&](int64_t lanes) HWY_ATTR {
          return hn::FirstN(d, std::clamp<int64_t>(lanes, 0, kLanes));
        };
        inside[g * kWide * kStep + v] =
            hn::AndNot(first(seen.left - column), first(seen.right - column));
      }
    }
  }
  const auto bias = hn::Set(d, taps.bias);
  hn::Vec<Lane> sum[kAlive][kWide];
  HWY_UNROLL(7)
  for (int j = 0; j < kAlive; ++j) {
    HWY_UNROLL(3)
    for (int v = 0; v < kWide; ++v) sum[j][v] = hn::Zero(d);
  }
  const int64_t top = seen.top, bottom = seen.bottom, line = seen.line;
  const float* row = seen.first + at * kStep;
  to += at;
  for (int64_t i = 1 - kAlive, r = 0; i < rows; ++i) {  // the pixel row that is complete next
    HWY_UNROLL(2)
    for (int f = 0; f < kStep; ++f, ++r, row += line) {
      if (r < top || r >= bottom) continue;
      constexpr int64_t kAhead =
          1024;  // a plane or some rows: no stream that hardware would follow over pages
      HWY_UNROLL(6)
      for (int v = 0; v < kWide * kStep; ++v) __builtin_prefetch(row + kAhead + v * kLanes, 0, 3);
      const float* weight = taps.weights + f * kLanes;
      const auto add = [&](const hn::Vec<Lane>(&tap)[kWide]) HWY_ATTR {
        HWY_UNROLL(7)
        for (int j = 0; j < kAlive; ++j) {  // pixel row i + kAlive - 1 - j
          if (j * kStep + f >= kSize) continue;
          auto w = hn::Load(d, weight + j * kStep * kLanes);
          // Without, multiply-adds wait for the load ports: 5x5 windows take 1.25 times as long.
          if constexpr ((kAlive + 1) * kWide < kRegisters) KeepInRegister(w);
          HWY_UNROLL(3)
          for (int v = 0; v < kWide; ++v) sum[j][v] = hn::MulAdd(w, tap[v], sum[j][v]);
        }
        weight += kSize * kLanes;
      };
      for (int g = 0; g < kGroups; ++g) {
        const auto load = [&](int v) HWY_ATTR {
          const float* const from = row + (g + pixel(v / kStep)) * kStep + v % kStep * kLanes;
          if constexpr (!kEdge) return hn::LoadU(d, from);
          return hn::MaskedLoad(inside[g * kWide * kStep + v], d, from);
        };
        hn::Vec<Lane> tap[kWide];
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v) {
          tap[v] = load(kStep * v);
          if constexpr (kStep == 2) tap[v] = hn::OddEven(hn::Shuffle2301(load(2 * v + 1)), tap[v]);
        }
        add(tap);
        if (kStep == 1 || 2 * g + 1 == kSize) continue;
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v)
          tap[v] = hn::OddEven(load(2 * v + 1), hn::Shuffle2301(load(2 * v)));
        add(tap);
      }
    }
    if (i >= 0) {
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) {
        const hn::Vec<Lane> done[] = {InOrder<kStep>(hn::Add(sum[kAlive - 1][v], bias))};
        StoreRows(done, width, limit, to + pixel(v));
      }
      to += width;
    }
    HWY_UNROLL(7)
    for (int j = kAlive - 1; j > 0; --j) {
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) sum[j][v] = sum[j - 1][v];
    }
    HWY_UNROLL(3)
    for (int v = 0; v < kWide; ++v) sum[0][v] = hn::Zero(d);
  }
}

// A row's last vectors end with it and repeat some pixels of those before.
template <int kSize, int kStep>
void DownPlane(const ConvCall& call, const DepthwiseTask& task, const float* plane,
               const Taps& from, float*, const float* limit, float* to) {
  // As many sums as AVX2 has registers for; by one they would wait for one another.
  constexpr int kWide = kSize == 3 || kStep == 2 ? 3 : 2;
  const Lane d;
  ColumnTaps<kSize> taps;
  taps.bias = from.bias;
  HWY_UNROLL(7)
  for (int p = 0; p < kSize; ++p) {
    HWY_UNROLL(7)
    for (int q = 0; q < kSize; ++q)
      hn::Store(hn::Set(d, from.weight[(p * kSize + q) * 16]), d,
                taps.weights + (q * kSize + p) * kPixelLanes);
  }
  const int64_t rows = task.end - task.begin, width = call.out_width;
  const int64_t top = task.begin * kStep - call.h.before;
  const Seen seen{.first = plane + top * call.x_strides[2] - call.w.before,
                  .line = call.x_strides[2],
                  .top = -top,
                  .bottom = call.height - top,
                  .left = call.w.before,
                  .right = call.w.before + call.width};
  // kVectors of each row from `at` on, or its last.
  const auto columns = [&](auto vectors, int64_t at) HWY_ATTR {
    constexpr int kVectors = vectors.value, kSpan = kVectors * kPixelLanes;
    if (kVectors > 1 && width < kSpan)
      return DownColumns<kSize, kStep, kVectors, Columns::kShort>(taps, seen, rows, width, 0, limit,
                                                                  to);
    if (at > 0 && at + kSpan > width) at = width - kSpan;
    const int64_t end = (at + kSpan) * kStep + (kSize - 1) / kStep * kStep;  // of columns read
    if (at * kStep >= seen.left && end <= seen.right)
      return DownColumns<kSize, kStep, kVectors, Columns::kInside>(taps, seen, rows, width, at,
                                                                   limit, to);
    DownColumns<kSize, kStep, kVectors, Columns::kEdge>(taps, seen, rows, width, at, limit, to);
  };
  const int64_t all = (width + kPixelLanes - 1) / kPixelLanes;  // vectors of a row
  for (int64_t v = 0; v < all;) {
    const int64_t some = all - v, at = v * kPixelLanes;
    if (kWide == 3 && some >= 3 && some != 4) {
      columns(std::integral_constant<int, kWide>(), at);
      v += 3;
    } else if (some >= 2) {
      columns(std::integral_constant<int, 2>(), at);
      v += 2;
    } else {
      columns(std::integral_constant<int, 1>(), at);
      v += 1;
    }
  }
}

#endif

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
