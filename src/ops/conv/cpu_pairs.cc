#include "ops/conv/cpu_pairs.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv/cpu_pairs.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/conv/rows-inl.h"
#include "ops/conv/tile-inl.h"
#include "ops/conv/winograd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

constexpr int kPairRows = Pairs::kWeightRows;
constexpr int kPairPoints = 4;
// 24 sums and what they are made of.
constexpr bool kHasRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

void PairsWeight(const ConvCall& call, int64_t panel, float* points) {
  const Lane d;
  const int64_t terms = call.channels * call.h.size, group = terms * kPairPoints * kPairRows;
  const float* from = call.panels + panel * call.depth() * 16;
  for (int64_t k = 0; k < terms; ++k, from += 3 * 16) {
    HWY_ALIGN float made[kPairPoints][16];
    for (int64_t lane = 0; lane < 16; lane += kPixelLanes) {
      Vec some[kPairPoints];
      Form<1>::Weight(hn::LoadU(d, from + lane), hn::LoadU(d, from + 16 + lane),
                      hn::LoadU(d, from + 32 + lane), some);
      for (int v = 0; v < kPairPoints; ++v) hn::StoreU(some[v], d, made[v] + lane);
    }
    for (int64_t lane = 0; lane < 16; ++lane) {
      const int64_t row = panel * 16 + lane;
      float* const to = points + row / kPairRows * group + row % kPairRows;
      for (int v = 0; v < kPairPoints; ++v) to[(k * kPairPoints + v) * kPairRows] = made[v][lane];
    }
  }
}

// Points of one row, each `line` from the next. The last vector ends with the row. Adds what is NaN or infinite to `any`.
HWY_INLINE void RowToPoints(const float* row, int64_t pairs, float* points, int64_t line,
                            Vec& any) {
  const Lane d;
  for (int64_t t = 0; t < pairs; t += kPixelLanes) {
    if (t + kPixelLanes > pairs) t = pairs - kPixelLanes;
    Vec seen[4], made[kPairPoints];
    SeenByTiles<2>(row + 2 * t, seen);
    HWY_UNROLL(4)
    for (int s = 0; s < 4; ++s) any = hn::MulAdd(seen[s], hn::Zero(d), any);
    Form<1>::Image(seen, made);
    HWY_UNROLL(4)
    for (int v = 0; v < kPairPoints; ++v) hn::StoreU(made[v], d, points + v * line + t);
  }
}

// What a vector of pairs of one pixel row sees, and where its pixels go.
struct PairsSeen {
  const float* points;  // of term k at points + offsets[k], each `line` from the next
  const int64_t* offsets;
  int64_t line;
  int64_t live;  // pixels in the image
  float* y;      // of the first row of the weight
};

// A vector of pairs of kDown pixel rows, for kRows rows of the weight. Of multiply-adds and loads, which a core does as many of
// at once, 3 x 2 has 24 and 20 for each term, where 4 x 1 has 16 and 20.
template <int kRows, int kDown>
HWY_INLINE void PairsTile(const ConvCall& call, const float* weight, int64_t first,
                          const PairsSeen& seen) {
  const Lane d;
  const int64_t terms = call.channels * call.h.size, pixels = call.pixels();
  Vec sum[kRows][kDown][kPairPoints];
  HWY_UNROLL(3)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(2)
    for (int i = 0; i < kDown; ++i) {
      HWY_UNROLL(4)
      for (int v = 0; v < kPairPoints; ++v) sum[r][i][v] = hn::Zero(d);
      // The next vector's, far apart: no hardware sees them coming.
      float* const next = seen.y + r * pixels + i * call.out_width + 2 * kPixelLanes;
      __builtin_prefetch(next, 1, 3);
      __builtin_prefetch(next + kPixelLanes, 1, 3);
    }
  }
  for (int64_t k = 0; k < terms; ++k, weight += kPairPoints * kPairRows) {
    const float* const at = seen.points + seen.offsets[k];
    HWY_UNROLL(4)
    for (int v = 0; v < kPairPoints; ++v) {
      Vec p[kDown];
      HWY_UNROLL(2)
      for (int i = 0; i < kDown; ++i) p[i] = hn::LoadU(d, at + (i * kPairPoints + v) * seen.line);
      HWY_UNROLL(3)
      for (int r = 0; r < kRows; ++r) {
        const Vec w = hn::Set(d, weight[v * kPairRows + r]);
        HWY_UNROLL(2)
        for (int i = 0; i < kDown; ++i) sum[r][i][v] = hn::MulAdd(w, p[i], sum[r][i][v]);
      }
    }
  }
  HWY_UNROLL(3)
  for (int r = 0; r < kRows; ++r) {
    const Vec bias = hn::Set(
        d, call.bias ? reinterpret_cast<const float*>(call.bias)[(first + r) * call.bias_stride]
                     : 0.0f);
    HWY_UNROLL(2)
    for (int i = 0; i < kDown; ++i) {
      float* const y = seen.y + r * pixels + i * call.out_width;
      Vec even, odd;
      Form<1>::Pixels(sum[r][i], even, odd);
      even = hn::Add(even, bias), odd = hn::Add(odd, bias);
      if (seen.live >= 2 * kPixelLanes) {
        hn::StoreInterleaved2(even, odd, d, y);
      } else {
        HWY_ALIGN float some[2 * kPixelLanes];
        hn::StoreInterleaved2(even, odd, d, some);
        for (int64_t j = 0; j < seen.live; ++j) y[j] = some[j];
      }
    }
  }
}

// kDown pixel rows for all rows of the weight. `seen` is of the first pair.
template <int kDown>
HWY_INLINE void PairsOfRows(const ConvCall& call, const float* weight, int64_t pairs,
                            PairsSeen seen) {
  const int64_t terms = call.channels * call.h.size;
  const PairsSeen begin = seen;
  for (int64_t t = 0; t < pairs; t += kPixelLanes) {
    if (t + kPixelLanes > pairs) t = pairs - kPixelLanes;
    seen.points = begin.points + t;
    seen.live = call.out_width - 2 * t;
    const float* w = weight;
    for (int64_t row = 0; row < call.rows; row += kPairRows, w += terms * kPairPoints * kPairRows) {
      seen.y = begin.y + row * call.pixels() + 2 * t;
      switch (call.rows - row) {
        case 1: PairsTile<1, kDown>(call, w, row, seen); break;
        case 2: PairsTile<2, kDown>(call, w, row, seen); break;
        default: PairsTile<kPairRows, kDown>(call, w, row, seen);
      }
    }
  }
}

bool PairsBlock(const ConvCall& call, const PairsTask& task) {
  const Lane d;
  const int64_t pairs = (call.out_width + 1) / 2, line = OddLines(pairs);
  const int64_t seen = task.bottom - task.top - 1 + call.h.span();  // rows of the image
  ConvCall windows = call;                                          // across, all that pairs see
  windows.w.size = 1;
  const int64_t columns = 2 * pairs + 2, row_line = ImageLine(windows.w, columns);
  float* const points = task.scratch;
  float* const rows = points + call.channels * seen * kPairPoints * line;
  const float* const image =
      reinterpret_cast<const float*>(call.x) + task.image * call.x_strides[0];
  int64_t offsets[Pairs::kMostTerms];
  Vec any = hn::Zero(d);  // NaN once something was not finite
  for (int64_t c = 0; c < call.channels; ++c) {
    LayOut(windows, image + c * call.x_strides[1], task.top, task.bottom, 0, columns, rows);
    float* const first = points + c * seen * kPairPoints * line;
    for (int64_t r = 0; r < seen; ++r)
      RowToPoints(rows + r * row_line, pairs, first + r * kPairPoints * line, line, any);
    for (int64_t p = 0; p < call.h.size; ++p)
      offsets[c * call.h.size + p] = (c * seen + p * call.h.dilation) * kPairPoints * line;
  }
  if (!hn::AllTrue(d, hn::Eq(any, hn::Zero(d)))) return false;
  float* const y = reinterpret_cast<float*>(call.y) + task.image * call.rows * call.pixels();
  for (int64_t i = task.top; i < task.bottom; i += 2) {
    const PairsSeen first = {.points = points + (i - task.top) * kPairPoints * line,
                             .offsets = offsets,
                             .line = line,
                             .live = call.out_width,
                             .y = y + i * call.out_width};
    if (i + 1 < task.bottom)
      PairsOfRows<2>(call, task.weight, pairs, first);
    else
      PairsOfRows<1>(call, task.weight, pairs, first);
  }
  return true;
}

PairsFns PairsOfIsa() {
  if constexpr (kHasRegisters) return {PairsWeight, PairsBlock};
  return {};
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(PairsOfIsa);
}  // namespace

PairsFns FindPairs() { return LS_SIMD(PairsOfIsa)(); }

}  // namespace liveshape::cpu
#endif
