// Division that is IEEE's on every target. Included per target, as Highway's own -inl headers.
#if defined(LS_SIMD_DIVIDE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_DIVIDE_INL
#undef LS_SIMD_DIVIDE_INL
#else
#define LS_SIMD_DIVIDE_INL
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// a / b by IEEE's rules. hn::Div of the portable targets gives 0 where b is 0, since Highway 1.1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Quotient(D d, V a, V b) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  hn::TFromD<D> x[hn::MaxLanes(d)], y[hn::MaxLanes(d)];
  hn::StoreU(a, d, x);
  hn::StoreU(b, d, y);
  for (size_t i = 0; i < hn::MaxLanes(d); ++i) x[i] /= y[i];
  return hn::LoadU(d, x);
#else
  (void)d;
  return hn::Div(a, b);
#endif
}

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
