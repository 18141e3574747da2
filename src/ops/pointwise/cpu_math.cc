// f32 functions, vectorised. Where a target has no doubles, those computed in them loop over libm (cpu_typed.cc).
#include <cmath>

#include "ops/pointwise/cpu_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/cpu_math.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/half-inl.h"
#include "backends/cpu/simd/math-in-double-inl.h"
#include "backends/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using ir::PwOp;
using pw::Tile;
using F32Tag = hn::ScalableTag<float>;
using F32Vec = hn::Vec<F32Tag>;

// The tail runs the same code on a padded copy, so a value never depends on where in a tile it lies.
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

#if LS_MATH_IN_DOUBLE
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
    const F32Vec v = kOp(d, LoadPartial(F32{}, d, a + i, n, 1.0f), LoadPartial(F32{}, d, b + i, n));
    StorePartial(F32{}, v, d, out + i, n);
  }
  return true;
}
#endif

pw::TileFn FindMath(PwOp op) {
  switch (op) {
#if LS_MATH_IN_DOUBLE
    case PwOp::kPow: return Binary<Pow<F32Tag>>;
    case PwOp::kLog10: return Unary<Log10<F32Tag>>;
    case PwOp::kTan: return Unary<Tan<F32Tag>>;
    case PwOp::kAsin: return Unary<Asin<F32Tag>>;
    case PwOp::kAcos: return Unary<Acos<F32Tag>>;
    case PwOp::kAtan2: return Binary<Atan2<F32Tag>>;
    case PwOp::kSinh: return Unary<Sinh<F32Tag>>;
    case PwOp::kCosh: return Unary<Cosh<F32Tag>>;
#endif
#if LS_FMOD_IN_DOUBLE
    case PwOp::kFmod: return Binary<Fmod<F32Tag>>;
    case PwOp::kRemainder: return Binary<Remainder<F32Tag>>;
    case PwOp::kFloorDiv: return Binary<FloorDiv<F32Tag>>;
#endif
    case PwOp::kExp: return Unary<Exp<F32Tag>>;
    case PwOp::kExp2: return Unary<Exp2<F32Tag>>;
    case PwOp::kExpm1: return Unary<Expm1<F32Tag>>;
    case PwOp::kLog: return Unary<Log<F32Tag>>;
    case PwOp::kLog2: return Unary<Log2<F32Tag>>;
    case PwOp::kLog1p: return Unary<Log1p<F32Tag>>;
    case PwOp::kSin: return Unary<Sin<F32Tag>>;
    case PwOp::kCos: return Unary<Cos<F32Tag>>;
    case PwOp::kAtan: return Unary<Atan<F32Tag>>;
    case PwOp::kTanh: return Unary<Tanh<F32Tag>>;
    case PwOp::kErf: return Unary<Erf<F32Tag>>;
    case PwOp::kSigmoid: return Unary<Sigmoid<F32Tag>>;
    case PwOp::kSilu: return Unary<Silu<F32Tag>>;
    case PwOp::kGelu: return Unary<Gelu<F32Tag>>;
    case PwOp::kGeluTanh: return Unary<GeluTanh<F32Tag>>;
    default: return nullptr;
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindMath);
}  // namespace

pw::TileFn pw::F32MathTile(ir::PwOp op, Isa isa) {
  const auto find = FindMathPerIsa[static_cast<int>(isa)];
  return find ? find(op) : nullptr;
}

}  // namespace liveshape::cpu
#endif
