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

#include "backends/cpu/simd/slide-inl.h"
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

// Pixel rows that see one row of the image.
constexpr int RowsAlive(int size, int step) { return (size + step - 1) / step; }
// Vectors of pixels at a time: what registers hold the sums and the image's row of, a tap and its weight.
constexpr int ColumnVectors(int size, int step) {
  int wide = 4;
  while (wide > 1 && (RowsAlive(size, step) + step) * wide + step + 2 > kRegisters) --wide;
  return wide;
}

template <int kSize>
struct ColumnTaps {
  HWY_ALIGN float weights[kSize * kSize * kPixelLanes];  // [across][down], each a vector
  float bias;
};

// The pixel rows that see one row of the image, kWide vectors of each. A class and not lambdas in DownColumns: gcc keeps the
// sums in registers only where no closure holds their address.
template <int kSize, int kStep, int kWide, bool kEdge>
class ColumnSums {
 public:
  using V = hn::Vec<Lane>;
  static constexpr int kLanes = kPixelLanes, kAlive = RowsAlive(kSize, kStep);
  static constexpr int kColumns = (kWide * kLanes - 1) * kStep + kSize;  // of the image
  static constexpr int kLoads = (kColumns + kLanes - 1) / kLanes;
  using Inside = hn::Mask<Lane>[kLoads];

  // Pixel rows begin with the bias.
  HWY_INLINE explicit ColumnSums(V bias) {
    HWY_UNROLL(7)
    for (int j = 0; j < kAlive; ++j) Begin(sum_[j], bias);
  }

  // f: which of the kStep rows that windows move by.
  template <int f>
  HWY_INLINE void See(const float* row, const Inside& inside, const float* weights) {
    constexpr int64_t kAhead =
        1024;  // a plane or some rows: no stream that hardware would follow over pages
    HWY_UNROLL(8)
    for (int v = 0; v < kWide * kStep; ++v) __builtin_prefetch(row + kAhead + v * kLanes, 0, 3);
    Strands strands;
    HWY_UNROLL(6)
    for (int v = 0; v < kStrand; ++v) {
      if constexpr (kStep == 1) {
        strands[0][v] = Load(row, inside, v);
      } else {
        const V low = Load(row, inside, 2 * v), high = Load(row, inside, 2 * v + 1);
        strands[0][v] = hn::ConcatEven(Lane(), high, low);
        strands[1][v] = hn::ConcatOdd(Lane(), high, low);
      }
    }
    AddTaps<f, 0>(strands, weights);
  }

  HWY_INLINE const V (&Complete() const)[kWide] { return sum_[kAlive - 1]; }

  HWY_INLINE void Next(V bias) {
    HWY_UNROLL(7)
    for (int j = kAlive - 1; j > 0; --j) {
      HWY_UNROLL(4)
      for (int v = 0; v < kWide; ++v) sum_[j][v] = sum_[j - 1][v];
    }
    Begin(sum_[0], bias);
  }

 private:
  // Every kStep-th column of the image, from the first and, by two, from the second on.
  static constexpr int kStrand = kWide + ((kSize - 1) / kStep + kLanes - 1) / kLanes;
  using Strands = V[kStep][kStrand];

  static HWY_INLINE void Begin(V (&row)[kWide], V bias) {
    HWY_UNROLL(4)
    for (int v = 0; v < kWide; ++v) row[v] = bias;
  }

  static HWY_INLINE V Load(const float* row, const Inside& inside, int v) {
    const Lane d;
    if (v >= kLoads) return hn::Zero(d);  // of the last strand, which nobody sees
    const bool whole = !kEdge && (v + 1) * kLanes <= kColumns;
    if (whole) return hn::LoadU(d, row + v * kLanes);
    return hn::MaskedLoad(inside[v], d, row + v * kLanes);
  }

  template <int f, int q>  // the taps of column q and those after it
  HWY_INLINE void AddTaps(const Strands& strands, const float* weights) {
    constexpr int kBy = q / kStep % kLanes, kFrom = q / kStep / kLanes;
    const Lane d;
    V tap[kWide];
    HWY_UNROLL(4)
    for (int v = 0; v < kWide; ++v) {
      tap[v] = strands[q % kStep][kFrom + v];
      if constexpr (kBy > 0) tap[v] = Slide<kBy>(d, strands[q % kStep][kFrom + v + 1], tap[v]);
    }
    HWY_UNROLL(7)
    for (int j = 0; j * kStep + f < kSize; ++j) {
      V w = hn::Load(d, weights + (q * kSize + j * kStep + f) * kLanes);
      // Without, multiply-adds wait for the load ports: 5x5 windows take 1.25 times as long.
      if constexpr ((kAlive + 1) * kWide < kRegisters) KeepInRegister(w);
      HWY_UNROLL(4)
      for (int v = 0; v < kWide; ++v) sum_[j][v] = hn::MulAdd(w, tap[v], sum_[j][v]);
    }
    if constexpr (q + 1 < kSize) AddTaps<f, q + 1>(strands, weights);
  }

  V sum_[kAlive][kWide];  // the row that begins first
};

// Pixels [at, at + kWide vectors) of all rows; those beyond a row are stored too, as anything, since what lies there is stored
// later. The taps of a pixel come row by row. kEdge: some of what they see is outside of the image.
template <int kSize, int kStep, int kWide, bool kEdge>
HWY_NOINLINE void DownColumns(const ColumnTaps<kSize>& taps, const Seen& seen, int64_t rows,
                              int64_t width, int64_t at, const float* limit, float* to) {
  using Sums = ColumnSums<kSize, kStep, kWide, kEdge>;
  constexpr int kLanes = kPixelLanes;
  const Lane d;
  typename Sums::Inside inside;
  HWY_UNROLL(9)
  for (int v = 0; v < Sums::kLoads; ++v) {
    const int64_t column = at * kStep + v * kLanes;
    const auto first = [&](int64_t lanes) HWY_ATTR {
      return hn::FirstN(d, std::clamp<int64_t>(lanes, 0, kLanes));
    };
    const int64_t end = std::min(seen.right - column, Sums::kColumns - int64_t{v} * kLanes);
    inside[v] = hn::AndNot(first(seen.left - column), first(end));
  }
  const auto bias = hn::Set(d, taps.bias);
  Sums sums(bias);
  const int64_t top = seen.top, bottom = seen.bottom, line = seen.line;
  const int64_t live = width - at - (kWide - 1) * kLanes;  // of the last vector of a row
  const float* row = seen.first + at * kStep;
  to += at;
  for (int64_t i = 1 - Sums::kAlive, r = 0; i < rows; ++i) {  // the pixel row that is complete next
    if (r >= top && r < bottom) sums.template See<0>(row, inside, taps.weights);
    ++r, row += line;
    if constexpr (kStep == 2) {
      if (r >= top && r < bottom) sums.template See<1>(row, inside, taps.weights);
      ++r, row += line;
    }
    if (i >= 0) {
      const auto& done = sums.Complete();
      HWY_UNROLL(4)
      for (int v = 0; v < kWide - 1; ++v) hn::StoreU(done[v], d, to + v * kLanes);
      StoreRow(d, done[kWide - 1], live, limit, to + (kWide - 1) * kLanes);
      to += width;
    }
    sums.Next(bias);
  }
}

// Columns from right to left: what a row's last vector stores beyond it is the next row's first.
template <int kSize, int kStep>
void DownPlane(const ConvCall& call, const DepthwiseTask& task, const float* plane,
               const float* weight, float bias, const float* limit, float* to) {
  constexpr int kMost = ColumnVectors(kSize, kStep);
  const Lane d;
  ColumnTaps<kSize> taps;
  taps.bias = bias;
  HWY_UNROLL(7)
  for (int p = 0; p < kSize; ++p) {
    HWY_UNROLL(7)
    for (int q = 0; q < kSize; ++q)
      hn::Store(hn::Set(d, weight[(p * kSize + q) * 16]), d,
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
  const auto columns = [&](auto vectors, int64_t at) HWY_ATTR {
    constexpr int kWide = vectors.value;
    if constexpr (kWide <= kMost) {
      const int64_t end = (at + kWide * kPixelLanes - 1) * kStep + kSize;  // of columns seen
      if (at * kStep >= seen.left && end <= seen.right)
        return DownColumns<kSize, kStep, kWide, false>(taps, seen, rows, width, at, limit, to);
      DownColumns<kSize, kStep, kWide, true>(taps, seen, rows, width, at, limit, to);
    }
  };
  const int64_t all = DivideUp(width, kPixelLanes), parts = DivideUp(all, kMost);
  for (int64_t part = parts - 1; part >= 0; --part) {
    const int64_t first = all * part / parts, at = first * kPixelLanes;
    switch (all * (part + 1) / parts - first) {
      case 1: columns(std::integral_constant<int, 1>(), at); break;
      case 2: columns(std::integral_constant<int, 2>(), at); break;
      case 3: columns(std::integral_constant<int, 3>(), at); break;
      default: columns(std::integral_constant<int, 4>(), at); break;
    }
  }
}

#endif

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
