#include "ops/pointwise/cpu_chain.h"

#include <cmath>
#include <cstring>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/cpu_chain.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/divide-inl.h"
#include "backends/cpu/simd/half-inl.h"
#include "backends/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using pw::ChainCode;
using pw::ChainOp;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Mask = decltype(hn::Lt(V(), V()));

HWY_INLINE V Add(D, V a, V b) { return hn::Add(a, b); }
HWY_INLINE V Sub(D, V a, V b) { return hn::Sub(a, b); }
HWY_INLINE V Mul(D, V a, V b) { return hn::Mul(a, b); }
HWY_INLINE V Div(D d, V a, V b) { return Quotient(d, a, b); }
HWY_INLINE V TruncDiv(D d, V a, V b) { return hn::Trunc(Quotient(d, a, b)); }
// MaxNaN and MinNaN where one of the two is known to be a number: an instruction on x86, whose max and min give the
// second where there is a NaN.
HWY_INLINE V MaxNumber(D, V v, V number) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Max(number, v);
#else
  return hn::IfThenElse(hn::Gt(number, v), number, v);
#endif
}
HWY_INLINE V MinNumber(D, V v, V number) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Min(number, v);
#else
  return hn::IfThenElse(hn::Lt(number, v), number, v);
#endif
}
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

// kVectors vectors, whole, from element `at` on; or, for kVectors = 1, the first `left` lanes of one, padded, so that
// a value never depends on where in a tile it lies.
template <size_t kVectors>
struct Block {
  static constexpr D d{};
  using Each = std::make_index_sequence<kVectors>;
  int64_t at;
  size_t left;  // of all lanes of the block
  V acc[kVectors];

  HWY_INLINE Block(int64_t begin, int64_t n) : at(begin), left(static_cast<size_t>(n)) {}

  HWY_INLINE bool whole() const { return kVectors > 1 || left == hn::Lanes(d); }

  template <class E>
  HWY_INLINE V Read(const void* from, size_t k) const {
    const auto* p = static_cast<const typename E::Type*>(from) + at;
    if (whole()) return LoadF32(E{}, d, p + k * hn::Lanes(d));
    return LoadPartial(E{}, d, p, left);
  }
  template <class E>
  HWY_INLINE V ReadSplat(const void* from) const {
    return hn::Set(d, E::One(*static_cast<const typename E::Type*>(from)));
  }

  template <class E, size_t... k>
  HWY_INLINE void LoadEach(const ChainOp& op, std::index_sequence<k...>) {
    if (op.splat) {
      const V s = ReadSplat<E>(op.a);
      ((acc[k] = s), ...);
    } else {
      ((acc[k] = Read<E>(op.a, k)), ...);
    }
  }
  template <class E>
  HWY_INLINE void Load(const ChainOp& op) {
    LoadEach<E>(op, Each());
  }

  template <class E>
  HWY_INLINE void Write(typename E::Type* p, size_t k) const {
    if (whole())
      StoreF32(E{}, acc[k], d, p + k * hn::Lanes(d));
    else
      StorePartial(E{}, acc[k], d, p, left);
  }
  template <class E, size_t... k>
  HWY_INLINE void StoreEach(const ChainOp& op, std::index_sequence<k...>) const {
    auto* p = static_cast<typename E::Type*>(const_cast<void*>(op.a)) + at;
    (Write<E>(p, k), ...);
  }
  template <class E>
  HWY_INLINE void Store(const ChainOp& op) const {
    StoreEach<E>(op, Each());
  }

  template <V (*kOp)(D, V), size_t... k>
  HWY_INLINE void UnaryEach(std::index_sequence<k...>) {
    ((acc[k] = kOp(d, acc[k])), ...);
  }
  template <V (*kOp)(D, V)>
  HWY_INLINE void Unary() {
    UnaryEach<kOp>(Each());
  }

  template <V (*kOp)(D, V, V), size_t... k>
  HWY_INLINE void WithSplat(V s, std::index_sequence<k...>) {
    ((acc[k] = kOp(d, acc[k], s)), ...);
  }
  template <V (*kOp)(D, V, V), size_t... k>
  HWY_INLINE void WithEach(const ChainOp& op, std::index_sequence<k...>) {
    ((acc[k] = kOp(d, acc[k], Read<F32>(op.a, k))), ...);
  }
  template <V (*kOp)(D, V, V)>
  HWY_INLINE void Binary(const ChainOp& op) {
    if (op.splat)
      WithSplat<kOp>(ReadSplat<F32>(op.a), Each());
    else
      WithEach<kOp>(op, Each());
  }
  static HWY_INLINE bool IsNumber(const void* splat) {
    const float v = *static_cast<const float*>(splat);
    return v == v;
  }
  // max and min: of a splat that is a number by kNumber.
  template <V (*kOp)(D, V, V), V (*kNumber)(D, V, V)>
  HWY_INLINE void Extremum(const ChainOp& op) {
    if (op.splat && IsNumber(op.a))
      WithSplat<kNumber>(ReadSplat<F32>(op.a), Each());
    else
      Binary<kOp>(op);
  }

  template <bool kSplatA, bool kSplatB, size_t... k>
  HWY_INLINE void SelectEach(const ChainOp& op, std::index_sequence<k...>) {
    const V a = kSplatA ? ReadSplat<F32>(op.a) : hn::Zero(d);
    const V b = kSplatB ? ReadSplat<F32>(op.b) : hn::Zero(d);
    ((acc[k] = hn::IfThenElse(hn::MaskFromVec(acc[k]), kSplatA ? a : Read<F32>(op.a, k),
                              kSplatB ? b : Read<F32>(op.b, k))),
     ...);
  }
  HWY_INLINE void Select(const ChainOp& op) {
    switch (op.splat) {
      case pw::kNoSplat: return SelectEach<false, false>(op, Each());
      case pw::kSplatA: return SelectEach<true, false>(op, Each());
      case pw::kSplatB: return SelectEach<false, true>(op, Each());
      default: return SelectEach<true, true>(op, Each());
    }
  }

  HWY_INLINE void Run(const ChainOp* ops, size_t count) {
    for (const ChainOp* op = ops; op != ops + count; ++op) {
      switch (op->code) {
        case ChainCode::kLoad: Load<F32>(*op); break;
        case ChainCode::kLoadF16: Load<F16>(*op); break;
        case ChainCode::kLoadBF16: Load<BF16>(*op); break;
        case ChainCode::kLoadBool: Load<Bool>(*op); break;
        case ChainCode::kStore: Store<F32>(*op); break;
        case ChainCode::kStoreF16: Store<F16>(*op); break;
        case ChainCode::kStoreBF16: Store<BF16>(*op); break;
        case ChainCode::kStoreBool: Store<Bool>(*op); break;
        case ChainCode::kRoundF16: Unary<RoundTo<F16>>(); break;
        case ChainCode::kRoundBF16: Unary<RoundTo<BF16>>(); break;
        case ChainCode::kFromMask: Unary<FromMask>(); break;
        case ChainCode::kNeg: Unary<Neg>(); break;
        case ChainCode::kAbs: Unary<Abs>(); break;
        case ChainCode::kSign: Unary<Sign>(); break;
        case ChainCode::kSquare: Unary<Square>(); break;
        case ChainCode::kCube: Unary<Cube>(); break;
        case ChainCode::kInverseSquare: Unary<InverseSquare>(); break;
        case ChainCode::kSqrt: Unary<Sqrt>(); break;
        case ChainCode::kRsqrt: Unary<Rsqrt>(); break;
        case ChainCode::kReciprocal: Unary<Reciprocal>(); break;
        case ChainCode::kRelu: Unary<Relu>(); break;
        case ChainCode::kFloor: Unary<Floor>(); break;
        case ChainCode::kCeil: Unary<Ceil>(); break;
        case ChainCode::kTrunc: Unary<Trunc>(); break;
        case ChainCode::kRound: Unary<Round>(); break;
        case ChainCode::kIsNan: Unary<IsNan>(); break;
        case ChainCode::kIsInf: Unary<IsInf>(); break;
        case ChainCode::kAdd: Binary<Add>(*op); break;
        case ChainCode::kSub: Binary<Sub>(*op); break;
        case ChainCode::kMul: Binary<Mul>(*op); break;
        case ChainCode::kDiv: Binary<Div>(*op); break;
        case ChainCode::kTruncDiv: Binary<TruncDiv>(*op); break;
        case ChainCode::kMin: Extremum<MinNaN<D>, MinNumber>(*op); break;
        case ChainCode::kMax: Extremum<MaxNaN<D>, MaxNumber>(*op); break;
        case ChainCode::kEq: Binary<Eq>(*op); break;
        case ChainCode::kNe: Binary<Ne>(*op); break;
        case ChainCode::kLt: Binary<Lt>(*op); break;
        case ChainCode::kLe: Binary<Le>(*op); break;
        case ChainCode::kGt: Binary<Gt>(*op); break;
        case ChainCode::kGe: Binary<Ge>(*op); break;
        case ChainCode::kSubFrom: Binary<Exchange<Sub>>(*op); break;
        case ChainCode::kDivInto: Binary<Exchange<Div>>(*op); break;
        case ChainCode::kTruncDivInto: Binary<Exchange<TruncDiv>>(*op); break;
        case ChainCode::kMinOf: Extremum<Exchange<MinNaN<D>>, MinNumber>(*op); break;
        case ChainCode::kMaxOf: Extremum<Exchange<MaxNaN<D>>, MaxNumber>(*op); break;
        case ChainCode::kSelect: Select(*op); break;
      }
    }
  }
};

// Half of the 16 registers that AVX2 has; what dispatching an op costs is shared by as many vectors.
constexpr size_t kBlockVectors = 8;

void RunChain(const ChainOp* ops, size_t count, int64_t n) {
  const int64_t lanes = hn::Lanes(D()), whole = lanes * kBlockVectors;
  int64_t at = 0;
  for (; at + whole <= n; at += whole) {
    Block<kBlockVectors>(at, whole).Run(ops, count);
  }
  for (; at < n; at += lanes) {
    Block<1>(at, lanes < n - at ? lanes : n - at).Run(ops, count);
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(RunChain);
}  // namespace

namespace pw {

using ir::PwOp;

ChainFn FindChain(Isa isa) { return RunChainPerIsa[static_cast<int>(isa)]; }

std::optional<ChainCode> ChainCodeOf(PwOp op) {
  switch (op) {
    case PwOp::kAdd: return ChainCode::kAdd;
    case PwOp::kSub: return ChainCode::kSub;
    case PwOp::kMul: return ChainCode::kMul;
    case PwOp::kDiv: return ChainCode::kDiv;
    case PwOp::kTruncDiv: return ChainCode::kTruncDiv;
    case PwOp::kMin: return ChainCode::kMin;
    case PwOp::kMax: return ChainCode::kMax;
    case PwOp::kEq: return ChainCode::kEq;
    case PwOp::kNe: return ChainCode::kNe;
    case PwOp::kLt: return ChainCode::kLt;
    case PwOp::kLe: return ChainCode::kLe;
    case PwOp::kGt: return ChainCode::kGt;
    case PwOp::kGe: return ChainCode::kGe;
    case PwOp::kIsNan: return ChainCode::kIsNan;
    case PwOp::kIsInf: return ChainCode::kIsInf;
    case PwOp::kWhere: return ChainCode::kSelect;
    case PwOp::kNeg: return ChainCode::kNeg;
    case PwOp::kAbs: return ChainCode::kAbs;
    case PwOp::kSign: return ChainCode::kSign;
    case PwOp::kSquare: return ChainCode::kSquare;
    case PwOp::kSqrt: return ChainCode::kSqrt;
    case PwOp::kRsqrt: return ChainCode::kRsqrt;
    case PwOp::kReciprocal: return ChainCode::kReciprocal;
    case PwOp::kRelu: return ChainCode::kRelu;
    case PwOp::kFloor: return ChainCode::kFloor;
    case PwOp::kCeil: return ChainCode::kCeil;
    case PwOp::kTrunc: return ChainCode::kTrunc;
    case PwOp::kRound: return ChainCode::kRound;
    default: return std::nullopt;
  }
}

std::optional<ChainCode> Exchanged(ChainCode code) {
  switch (code) {
    case ChainCode::kAdd:
    case ChainCode::kMul:
    case ChainCode::kEq:
    case ChainCode::kNe: return code;
    case ChainCode::kLt: return ChainCode::kGt;
    case ChainCode::kLe: return ChainCode::kGe;
    case ChainCode::kGt: return ChainCode::kLt;
    case ChainCode::kGe: return ChainCode::kLe;
    case ChainCode::kSub: return ChainCode::kSubFrom;
    case ChainCode::kDiv: return ChainCode::kDivInto;
    case ChainCode::kTruncDiv: return ChainCode::kTruncDivInto;
    case ChainCode::kMin: return ChainCode::kMinOf;
    case ChainCode::kMax: return ChainCode::kMaxOf;
    default: return std::nullopt;
  }
}

ChainCode LoadCode(DType memory) {
  switch (memory) {
    case DType::kF16: return ChainCode::kLoadF16;
    case DType::kBF16: return ChainCode::kLoadBF16;
    case DType::kBool: return ChainCode::kLoadBool;
    default: return ChainCode::kLoad;
  }
}

ChainCode StoreCode(DType memory) {
  switch (memory) {
    case DType::kF16: return ChainCode::kStoreF16;
    case DType::kBF16: return ChainCode::kStoreBF16;
    case DType::kBool: return ChainCode::kStoreBool;
    default: return ChainCode::kStore;
  }
}

}  // namespace pw
}  // namespace liveshape::cpu
#endif
