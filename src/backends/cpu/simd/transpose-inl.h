// Squares of 4 x 4 elements of 4 bytes, one in every 128 bits of a vector, turned over. Included per target, as Highway's
// own -inl headers (see simd/dispatch.h); not for the scalar one, which has no shuffles.
#if defined(LS_SIMD_TRANSPOSE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef LS_SIMD_TRANSPOSE_INL
#undef LS_SIMD_TRANSPOSE_INL
#else
#define LS_SIMD_TRANSPOSE_INL
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// to[k * step + i] = row i at k, for 4 k and as many rows as d has lanes: block j of r0 is row 4 j, of r1 the next.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void TransposeBlocks(D d, V r0, V r1, V r2, V r3, hn::TFromD<D>* to, int64_t step) {
  const hn::Repartition<uint64_t, D> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
  const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
  const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
  const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, to + step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, to + 2 * step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, to + 3 * step);
}
#endif

}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
