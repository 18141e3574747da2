#include "backends/npu/values/multiply.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/npu/values/multiply.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// kRows rows of c by one or two vectors of columns, of which the last has `live` lanes; c stays in registers over k.
template <int kRows, int kVectors>
HWY_INLINE void Block(const npu::MultiplyTile& t, int64_t row, int64_t column, int64_t live) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::FirstN(d, static_cast<size_t>(live));
  const bool whole = live == lanes;
  const float* const a = t.a + row * t.k;
  const float* const b = t.b + column;
  float* const c = t.c + row * t.n + column;
  const auto load = [&](const float* from, int v) HWY_ATTR {
    return v + 1 < kVectors || whole ? hn::LoadU(d, from + v * lanes)
                                     : hn::MaskedLoad(mask, d, from + v * lanes);
  };
  V sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) sums[r][v] = load(c + r * t.n, v);
  for (int64_t k = 0; k < t.k; ++k) {
    V columns[kVectors];
    for (int v = 0; v < kVectors; ++v) columns[v] = load(b + k * t.n, v);
    for (int r = 0; r < kRows; ++r) {
      const V factor = hn::Set(d, a[r * t.k + k]);
      for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, columns[v], sums[r][v]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + r * t.n + v * lanes;
      if (v + 1 < kVectors || whole)
        hn::StoreU(sums[r][v], d, to);
      else
        hn::BlendedStore(sums[r][v], mask, d, to);
    }
}

template <int kVectors>
HWY_INLINE void Columns(const npu::MultiplyTile& t, int64_t column, int64_t live) {
  int64_t row = 0;
  for (; row + 4 <= t.m; row += 4) Block<4, kVectors>(t, row, column, live);
  for (; row < t.m; ++row) Block<1, kVectors>(t, row, column, live);
}

void Multiply(const npu::MultiplyTile& t) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = 0;
  for (; column + 2 * lanes <= t.n; column += 2 * lanes) Columns<2>(t, column, lanes);
  for (; column < t.n; column += lanes)
    Columns<1>(t, column, t.n - column < lanes ? t.n - column : lanes);
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Multiply);

void Dispatch(const npu::MultiplyTile& tile) { LS_SIMD(Multiply)(tile); }
}  // namespace
}  // namespace liveshape::cpu

namespace liveshape::npu {
void MultiplyAdd(const MultiplyTile& tile) { cpu::Dispatch(tile); }
}  // namespace liveshape::npu
#endif
