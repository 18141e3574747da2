// Loops over f32 tiles, per target. The tail runs the same vector code on a padded copy, so a value never
// depends on where in a tile it lies.
#if defined(LS_POINTWISE_F32_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_POINTWISE_F32_INL
#undef LS_POINTWISE_F32_INL
#else
#define LS_POINTWISE_F32_INL
#endif

#include "backends/cpu/simd/half-inl.h"
#include "hwy/highway.h"
#include "ops/pointwise/cpu_tiles.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using pw::Tile;
using F32Tag = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32Tag>;

template <F32Vec (*kOp)(F32Tag, F32Vec)>
bool Unary(const Tile& t) {
  const F32Tag d;
  const int64_t lanes = hn::Lanes(d);
  const float* a = static_cast<const float*>(t.a);
  float* out = static_cast<float*>(t.out);
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes) hn::StoreU(kOp(d, hn::LoadU(d, a + i)), d, out + i);
  if (i < t.n)
    StorePartial(F32{}, kOp(d, LoadPartial(F32{}, d, a + i, t.n - i)), d, out + i, t.n - i);
  return true;
}

template <F32Vec (*kOp)(F32Tag, F32Vec, F32Vec)>
bool Binary(const Tile& t) {
  const F32Tag d;
  const int64_t lanes = hn::Lanes(d);
  const float* a = static_cast<const float*>(t.a);
  const float* b = static_cast<const float*>(t.b);
  float* out = static_cast<float*>(t.out);
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes)
    hn::StoreU(kOp(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  if (i < t.n) {
    const size_t n = t.n - i;
    const F32Vec v = kOp(d, LoadPartial(F32{}, d, a + i, n), LoadPartial(F32{}, d, b + i, n));
    StorePartial(F32{}, v, d, out + i, n);
  }
  return true;
}

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
