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

constexpr int kPairRows = 4;  // of the weight at once
constexpr int kPairPoints = 4;
// 16 sums and what they are made of.
constexpr bool kHasRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

void PairsWeight(const ConvCall& call, int64_t panel, float* points) {
  const Lane d;
  const int64_t terms = call.channels * call.h.size, group = terms * kPairPoints * kPairRows;
  const float* from = call.panels + panel * call.depth() * 16;
  float* const to = points + panel * 16 / kPairRows * group;
  for (int64_t k = 0; k < terms; ++k, from += 3 * 16) {
    HWY_ALIGN float made[kPairPoints][16];
    for (int64_t lane = 0; lane < 16; lane += kPixelLanes) {
      Vec some[kPairPoints];
      Form<1>::Weight(hn::LoadU(d, from + lane), hn::LoadU(d, from + 16 + lane),
                      hn::LoadU(d, from + 32 + lane), some);
      for (int v = 0; v < kPairPoints; ++v) hn::StoreU(some[v], d, made[v] + lane);
    }
    for (int64_t row = 0; row < 16; ++row)
      for (int v = 0; v < kPairPoints; ++v)
        to[row / kPairRows * group + (k * kPairPoints + v) * kPairRows + row % kPairRows] =
            made[v][row];
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

// A vector of pairs for all rows of the weight: points of term k at points + offsets[k]. `live` pixels are in the image.
HWY_INLINE void PairsOfRows(const ConvCall& call, const float* weight, const float* points,
                            const int64_t* offsets, int64_t line, int64_t live, float* y) {
  const Lane d;
  const int64_t terms = call.channels * call.h.size, pixels = call.pixels();
  for (int64_t row = 0; row < call.rows; row += kPairRows) {
    const int64_t rows = call.rows - row < kPairRows ? call.rows - row : kPairRows;
    Vec sum[kPairRows][kPairPoints];
    HWY_UNROLL(4)
    for (int r = 0; r < kPairRows; ++r) {
      HWY_UNROLL(4)
      for (int v = 0; v < kPairPoints; ++v) sum[r][v] = hn::Zero(d);
      // The next vector's, far apart: no hardware sees them coming.
      float* const next = y + (row + r) * pixels + 2 * kPixelLanes;
      __builtin_prefetch(next, 1, 3);
      __builtin_prefetch(next + kPixelLanes, 1, 3);
    }
    for (int64_t k = 0; k < terms; ++k, weight += kPairPoints * kPairRows) {
      const float* const at = points + offsets[k];
      HWY_UNROLL(4)
      for (int v = 0; v < kPairPoints; ++v) {
        const Vec p = hn::LoadU(d, at + v * line);
        HWY_UNROLL(4)
        for (int r = 0; r < kPairRows; ++r)
          sum[r][v] = hn::MulAdd(hn::Set(d, weight[v * kPairRows + r]), p, sum[r][v]);
      }
    }
    HWY_UNROLL(4)
    for (int r = 0; r < kPairRows; ++r) {
      if (r >= rows) break;
      const int64_t at = row + r;
      const Vec bias = hn::Set(
          d, call.bias ? reinterpret_cast<const float*>(call.bias)[at * call.bias_stride] : 0.0f);
      Vec even, odd;
      Form<1>::Pixels(sum[r], even, odd);
      even = hn::Add(even, bias), odd = hn::Add(odd, bias);
      if (live >= 2 * kPixelLanes) {
        hn::StoreInterleaved2(even, odd, d, y + at * pixels);
      } else {
        HWY_ALIGN float some[2 * kPixelLanes];
        hn::StoreInterleaved2(even, odd, d, some);
        for (int64_t i = 0; i < live; ++i) y[at * pixels + i] = some[i];
      }
    }
  }
}

bool PairsBlock(const ConvCall& call, const PairsTask& task) {
  const Lane d;
  const int64_t pairs = (call.out_width + 1) / 2, line = Pairs::Line(pairs);
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
  for (int64_t i = task.top; i < task.bottom; ++i) {
    const float* const row = points + (i - task.top) * kPairPoints * line;
    for (int64_t t = 0; t < pairs; t += kPixelLanes) {
      if (t + kPixelLanes > pairs) t = pairs - kPixelLanes;
      PairsOfRows(call, task.weight, row + t, offsets, line, call.out_width - 2 * t,
                  y + i * call.out_width + 2 * t);
    }
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
