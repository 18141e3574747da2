// f32 arithmetic, comparisons, selection and the conversions of f16 and bf16, vectorised.
#include <cmath>

#include "ops/pointwise/cpu_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/cpu_f32.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/divide-inl.h"
#include "ops/pointwise/cpu_f32-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using ir::PwOp;
using pw::TileFn;
using D = F32Tag;
using V = F32Vec;
using Mask = decltype(hn::Lt(V(), V()));

HWY_INLINE V Add(D, V a, V b) { return hn::Add(a, b); }
HWY_INLINE V Sub(D, V a, V b) { return hn::Sub(a, b); }
HWY_INLINE V Mul(D, V a, V b) { return hn::Mul(a, b); }
HWY_INLINE V Div(D d, V a, V b) { return Quotient(d, a, b); }
HWY_INLINE V TruncDiv(D d, V a, V b) { return hn::Trunc(Quotient(d, a, b)); }
// torch.maximum and minimum carry NaN on from either side; Highway's Max and Min leave that open.
HWY_INLINE V Max(D, V a, V b) {
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Gt(a, b), a, b));
}
HWY_INLINE V Min(D, V a, V b) {
  return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::Lt(a, b), a, b));
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

HWY_INLINE Mask Eq(V a, V b) { return hn::Eq(a, b); }
// Highway 1.0.3 compiles Ne to an ordered compare on AVX2: false at NaN.
HWY_INLINE Mask Ne(V a, V b) { return hn::Not(hn::Eq(a, b)); }
HWY_INLINE Mask Lt(V a, V b) { return hn::Lt(a, b); }
HWY_INLINE Mask Le(V a, V b) { return hn::Le(a, b); }
HWY_INLINE Mask Gt(V a, V b) { return hn::Gt(a, b); }
HWY_INLINE Mask Ge(V a, V b) { return hn::Ge(a, b); }
HWY_INLINE Mask IsNan(V a, V) { return hn::IsNaN(a); }
HWY_INLINE Mask IsInf(V a, V) { return hn::Eq(hn::Abs(a), hn::Set(D(), HUGE_VALF)); }

// 1 or 0 a byte. A one-operand test passes `a` twice.
template <Mask (*kTest)(V, V)>
bool Test(const Tile& t) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const int64_t lanes = hn::Lanes(d);
  const float* a = static_cast<const float*>(t.a);
  const float* b = static_cast<const float*>(t.b ? t.b : t.a);
  uint8_t* out = static_cast<uint8_t*>(t.out);
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes) {
    const auto yes = hn::RebindMask(di, kTest(hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
    hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(yes, hn::Set(di, 1))), d8, out + i);
  }
  for (; i < t.n; ++i) out[i] = hn::AllTrue(d, kTest(hn::Set(d, a[i]), hn::Set(d, b[i])));
  return true;
}

bool Where(const Tile& t) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const int64_t lanes = hn::Lanes(d);
  const uint8_t* condition = static_cast<const uint8_t*>(t.a);
  const float* b = static_cast<const float*>(t.b);
  const float* c = static_cast<const float*>(t.c);
  float* out = static_cast<float*>(t.out);
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes) {
    const auto chosen = hn::PromoteTo(di, hn::LoadU(d8, condition + i));
    const auto yes = hn::RebindMask(d, hn::Ne(chosen, hn::Zero(di)));
    hn::StoreU(hn::IfThenElse(yes, hn::LoadU(d, b + i), hn::LoadU(d, c + i)), d, out + i);
  }
  for (; i < t.n; ++i) out[i] = condition[i] ? b[i] : c[i];
  return true;
}

template <class E>
bool Widen(const Tile& t) {
  RowToF32(E{}, static_cast<const uint16_t*>(t.a), static_cast<float*>(t.out), t.n);
  return true;
}

template <class E>
bool Narrow(const Tile& t) {
  RowFromF32(E{}, static_cast<const float*>(t.a), static_cast<uint16_t*>(t.out), t.n);
  return true;
}

template <class E>
bool RoundTo(const Tile& t) {
  const D d;
  const int64_t lanes = hn::Lanes(d);
  const float* a = static_cast<const float*>(t.a);
  float* out = static_cast<float*>(t.out);
  uint16_t narrow[HWY_MAX_BYTES / sizeof(float)];
  int64_t i = 0;
  for (; i + lanes <= t.n; i += lanes) {
    StoreF32(E{}, hn::LoadU(d, a + i), d, narrow);
    hn::StoreU(LoadF32(E{}, d, narrow), d, out + i);
  }
  for (; i < t.n; ++i) out[i] = E::One(E::Narrow(a[i]));
  return true;
}

TileFn Find(PwOp op) {
  switch (op) {
    case PwOp::kAdd: return Binary<Add>;
    case PwOp::kSub: return Binary<Sub>;
    case PwOp::kMul: return Binary<Mul>;
    case PwOp::kDiv: return Binary<Div>;
    case PwOp::kTruncDiv: return Binary<TruncDiv>;
    case PwOp::kMin: return Binary<Min>;
    case PwOp::kMax: return Binary<Max>;
    case PwOp::kEq: return Test<Eq>;
    case PwOp::kNe: return Test<Ne>;
    case PwOp::kLt: return Test<Lt>;
    case PwOp::kLe: return Test<Le>;
    case PwOp::kGt: return Test<Gt>;
    case PwOp::kGe: return Test<Ge>;
    case PwOp::kIsNan: return Test<IsNan>;
    case PwOp::kIsInf: return Test<IsInf>;
    case PwOp::kWhere: return Where;
    case PwOp::kNeg: return Unary<Neg>;
    case PwOp::kAbs: return Unary<Abs>;
    case PwOp::kSign: return Unary<Sign>;
    case PwOp::kSquare: return Unary<Square>;
    case PwOp::kSqrt: return Unary<Sqrt>;
    case PwOp::kRsqrt: return Unary<Rsqrt>;
    case PwOp::kReciprocal: return Unary<Reciprocal>;
    case PwOp::kRelu: return Unary<Relu>;
    case PwOp::kFloor: return Unary<Floor>;
    case PwOp::kCeil: return Unary<Ceil>;
    case PwOp::kTrunc: return Unary<Trunc>;
    case PwOp::kRound: return Unary<Round>;
    default: return nullptr;
  }
}

TileFn FindExtra(pw::Extra which) {
  switch (which) {
    case pw::Extra::kCube: return Unary<Cube>;
    case pw::Extra::kInverseSquare: return Unary<InverseSquare>;
    case pw::Extra::kWidenF16: return Widen<F16>;
    case pw::Extra::kWidenBF16: return Widen<BF16>;
    case pw::Extra::kNarrowF16: return Narrow<F16>;
    case pw::Extra::kNarrowBF16: return Narrow<BF16>;
    case pw::Extra::kRoundF16: return RoundTo<F16>;
    case pw::Extra::kRoundBF16: return RoundTo<BF16>;
  }
  return nullptr;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Find);

LS_SIMD_TABLE(FindExtra);
}  // namespace

pw::TileFn pw::F32Tile(ir::PwOp op, Isa isa) {
  const auto find = FindPerIsa[static_cast<int>(isa)];
  return find ? find(op) : nullptr;
}

pw::TileFn pw::F32Extra(Extra which, Isa isa) {
  const auto find = FindExtraPerIsa[static_cast<int>(isa)];
  return find ? find(which) : nullptr;
}

}  // namespace liveshape::cpu
#endif
