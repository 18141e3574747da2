// What the ops of a chain (cpu_chain.h) compute, vector by vector: the accumulator first, then the operand. A mask is a
// vector whose lanes are all ones or all zeros.
//
//   V v = Max(d, acc, operand);
//   v = Exchange<Sub>(d, acc, operand);   // operand - acc
#if defined(LIVESHAPE_POINTWISE_CHAIN_OPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_POINTWISE_CHAIN_OPS_INL_H_
#undef LIVESHAPE_POINTWISE_CHAIN_OPS_INL_H_
#else
#define LIVESHAPE_POINTWISE_CHAIN_OPS_INL_H_
#endif

#include <cmath>
#include <cstring>

#include "backends/cpu/simd/divide-inl.h"
#include "backends/cpu/simd/half-inl.h"
#include "backends/cpu/simd/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V Add(D, V a, V b) { return hn::Add(a, b); }
HWY_INLINE V Sub(D, V a, V b) { return hn::Sub(a, b); }
HWY_INLINE V Mul(D, V a, V b) { return hn::Mul(a, b); }
HWY_INLINE V Div(D d, V a, V b) { return Quotient(d, a, b); }
HWY_INLINE V TruncDiv(D d, V a, V b) { return hn::Trunc(Quotient(d, a, b)); }
HWY_INLINE V Max(D d, V a, V b) { return MaxNaN(d, a, b); }
HWY_INLINE V Min(D d, V a, V b) { return MinNaN(d, a, b); }
HWY_INLINE V MaxOfNumber(D d, V v, V number) { return MaxNumber(d, v, number); }
HWY_INLINE V MinOfNumber(D d, V v, V number) { return MinNumber(d, v, number); }
template <V (*kOp)(D, V, V)>
HWY_INLINE V Exchange(D d, V a, V b) {
  return kOp(d, b, a);
}

HWY_INLINE V Neg(D, V a) { return hn::Neg(a); }
HWY_INLINE V Abs(D, V a) { return hn::Abs(a); }
HWY_INLINE V Sign(D d, V a) {  // 0 at NaN, as torch
  const V one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  return hn::Sub(hn::IfThenElseZero(hn::Gt(a, zero), one),
                 hn::IfThenElseZero(hn::Lt(a, zero), one));
}
HWY_INLINE V Square(D, V a) { return hn::Mul(a, a); }
HWY_INLINE V Cube(D, V a) { return hn::Mul(hn::Mul(a, a), a); }
HWY_INLINE V InverseSquare(D d, V a) { return Quotient(d, hn::Set(d, 1.0f), hn::Mul(a, a)); }
HWY_INLINE V Sqrt(D, V a) { return hn::Sqrt(a); }
HWY_INLINE V Rsqrt(D d, V a) { return Quotient(d, hn::Set(d, 1.0f), hn::Sqrt(a)); }
HWY_INLINE V Reciprocal(D d, V a) { return Quotient(d, hn::Set(d, 1.0f), a); }
HWY_INLINE V Relu(D d, V a) { return hn::IfThenZeroElse(hn::Lt(a, hn::Zero(d)), a); }
HWY_INLINE V Floor(D, V a) { return hn::Floor(a); }
HWY_INLINE V Ceil(D, V a) { return hn::Ceil(a); }
HWY_INLINE V Trunc(D, V a) { return hn::Trunc(a); }
HWY_INLINE V Round(D, V a) { return hn::Round(a); }
template <class E>
HWY_INLINE V RoundTo(D d, V a) {
  return Rounded(E{}, d, a);
}

HWY_INLINE V FromMask(D d, V a) { return hn::IfThenElseZero(hn::MaskFromVec(a), hn::Set(d, 1.0f)); }
HWY_INLINE V IsNan(D d, V a) { return hn::VecFromMask(d, hn::IsNaN(a)); }
HWY_INLINE V IsInf(D d, V a) {
  return hn::VecFromMask(d, hn::Eq(hn::Abs(a), hn::Set(d, HUGE_VALF)));
}
HWY_INLINE V Eq(D d, V a, V b) { return hn::VecFromMask(d, hn::Eq(a, b)); }
// Highway 1.0.3 compiles Ne to an ordered compare on AVX2: false at NaN.
HWY_INLINE V Ne(D d, V a, V b) { return hn::VecFromMask(d, hn::Not(hn::Eq(a, b))); }
HWY_INLINE V Lt(D d, V a, V b) { return hn::VecFromMask(d, hn::Lt(a, b)); }
HWY_INLINE V Le(D d, V a, V b) { return hn::VecFromMask(d, hn::Le(a, b)); }
HWY_INLINE V Gt(D d, V a, V b) { return hn::VecFromMask(d, hn::Gt(a, b)); }
HWY_INLINE V Ge(D d, V a, V b) { return hn::VecFromMask(d, hn::Ge(a, b)); }

// Bools, as the other element kinds of half-inl.h: a mask in the register, a byte in memory.
struct Bool {
  using Type = uint8_t;
  static HWY_INLINE float One(uint8_t v) {
    const uint32_t bits = v ? ~0u : 0u;
    float f;
    std::memcpy(&f, &bits, sizeof(f));
    return f;
  }
};
HWY_INLINE V LoadF32(Bool, D d, const uint8_t* p) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const auto wide = hn::PromoteTo(di, hn::LoadU(d8, p));
  return hn::VecFromMask(d, hn::RebindMask(d, hn::Ne(wide, hn::Zero(di))));
}
HWY_INLINE void StoreF32(Bool, V v, D d, uint8_t* p) {
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const auto one = hn::And(hn::BitCast(di, v), hn::Set(di, 1));
  hn::StoreU(hn::DemoteTo(d8, one), d8, p);
}

#if HWY_TARGET == HWY_AVX2
// Two vectors of numbers at once: a third fewer instructions than StoreF32 twice, which looks for NaN in each.
HWY_INLINE void StoreNumbers(BF16, V v0, V v1, D d, uint16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const hn::Repartition<int16_t, D> d16;
  const auto one = hn::Set(du, 1), half = hn::Set(du, 0x7fff);
  const auto b0 = hn::BitCast(du, v0), b1 = hn::BitCast(du, v1);
  const auto r0 = hn::Add(hn::Add(b0, half), hn::And(hn::ShiftRight<16>(b0), one));
  const auto r1 = hn::Add(hn::Add(b1, half), hn::And(hn::ShiftRight<16>(b1), one));
  const auto packed = hn::ReorderDemote2To(d16, hn::ShiftRight<16>(hn::BitCast(di, r0)),
                                           hn::ShiftRight<16>(hn::BitCast(di, r1)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed.raw, 0xd8));
}
#endif

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
