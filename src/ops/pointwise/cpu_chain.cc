#include "ops/pointwise/cpu_chain.h"

#include <type_traits>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/cpu_chain.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "ops/pointwise/chain_ops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using pw::ChainCode;
using pw::ChainOp;

// Ops are linked by their handlers: each ends with a jump to the next one's, the accumulator's vectors stay in the
// registers that arguments are passed in (eight on x86 and Arm). A switch in a loop takes three times the branches.
template <size_t>
using Lane = V;
// More than 256 bytes at a time made what comes from L2 or beyond 5 to 10 % slower (AVX-512 on Zen 4).
constexpr size_t kMany = HWY_TARGET == HWY_AVX3 ? 4 : 8;
constexpr size_t kFew = kMany / 2;  // for the ends of rows

template <class Each, bool kEnds>
struct Handlers;

// Of a block of whole vectors; or, if kEnds, of what is left of a row, after which operands move on to the next row. The
// last vector may be partial there and is padded then, so that a value never depends on where in a tile it lies; vectors
// beyond it are zeros that no store takes. A block's jumps cost as much as a few vectors, and so did a loop over all ops
// to move them on: with both, rows of 100 elements took 1.3 times as long.
template <size_t... k, bool kEnds>
struct Handlers<std::index_sequence<k...>, kEnds> {
  static constexpr D d{};
  static constexpr size_t kVectors = sizeof...(k);
  static constexpr int kWidth = (kVectors == kMany) + !kEnds;  // which of an op's handlers
  // Elements of a row from `at` on, `left` of them.
  using Fn = void (*)(ChainOp* op, int64_t at, size_t left, Lane<k>... acc);
  using FirstFn = void (*)(ChainOp* op, int64_t at, size_t left);

  static HWY_INLINE void Start(ChainOp* op, int64_t at, size_t left) {
    reinterpret_cast<FirstFn>(op->handler[kWidth])(op, at, left);
  }
  static HWY_INLINE void Next(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    reinterpret_cast<Fn>(op[1].handler[kWidth])(op + 1, at, left, acc...);
  }
  static void End(ChainOp*, int64_t, size_t, Lane<k>...) {}

  template <class E>
  static HWY_INLINE const typename E::Type* RowOf(const void*& operand, int64_t step) {
    const auto* row = static_cast<const typename E::Type*>(operand);
    if constexpr (kEnds) operand = static_cast<const std::byte*>(operand) + step;
    return row;
  }
  // The lines 1 KB from here, of what is written as of what is read: hardware fetches too little ahead. -x of 4 MB takes
  // 65 us where it took 67 or 76, as memory happened to lie, and x + y of halves five sixths of its time (Zen 5); 2 KB and
  // more were slower. Of what lies in L2 it costs a tenth.
  template <bool kFromAfar, class T>
  static HWY_INLINE void Fetch(const T* p) {
    if constexpr (kFromAfar) {
      constexpr size_t kLine = 64 / sizeof(T), kAhead = 1024 / sizeof(T);
      const size_t end = kVectors * hn::Lanes(d);
      for (size_t at = 0; at < end; at += kLine) hwy::Prefetch(p + kAhead + at);
    }
  }
  // The vector that may be partial, to be given to Read.
  template <class E>
  static HWY_INLINE V ReadLast(const typename E::Type* p, size_t left) {
    if constexpr (!kEnds) return hn::Zero(d);
    const size_t lanes = hn::Lanes(d);
    return LoadPartial(E{}, d, p + left / lanes * lanes, left % lanes);
  }
  template <class E>
  static HWY_INLINE V Read(const typename E::Type* p, size_t vector, size_t left, V last) {
    const size_t lanes = hn::Lanes(d), whole = left / lanes;
    if (!kEnds || vector < whole) return LoadF32(E{}, d, p + vector * lanes);
    return vector == whole ? last : hn::Zero(d);
  }
  template <class E>
  static HWY_INLINE V ReadSplat(const typename E::Type* p) {
    return hn::Set(d, E::One(*p));
  }
  template <class E>
  static HWY_INLINE void Write(typename E::Type* p, size_t left, Lane<k>... acc) {
    const size_t lanes = hn::Lanes(d), whole = left / lanes;
    if constexpr (!kEnds) return WriteWhole<E>(p, acc...);
    V last = hn::Zero(d);
    static_cast<void>(
        ((k < whole ? (StoreF32(E{}, acc, d, p + k * lanes), true) : (last = acc, false)) && ...));
    StorePartial(E{}, last, d, p + whole * lanes, left % lanes);
  }

  // A load that comes first is called without an accumulator, of which gcc would clear every vector.
  template <class E, bool kFromAfar>
  static void First(ChainOp* op, int64_t at, size_t left) {
    const auto* p = RowOf<E>(op->a, op->step_a) + at;
    const V last = ReadLast<E>(p, left);
    Fetch<kFromAfar>(p);
    Next(op, at, left, Read<E>(p, k, left, last)...);
  }
  template <class E>
  static void FirstSplat(ChainOp* op, int64_t at, size_t left) {
    const V s = ReadSplat<E>(RowOf<E>(op->a, op->step_a));
    Next(op, at, left, (static_cast<void>(k), s)...);
  }
  template <class E, bool kFromAfar>
  static void Load(ChainOp* op, int64_t at, size_t left, Lane<k>...) {
    First<E, kFromAfar>(op, at, left);
  }
  template <class E>
  static void LoadSplat(ChainOp* op, int64_t at, size_t left, Lane<k>...) {
    FirstSplat<E>(op, at, left);
  }
#if HWY_TARGET == HWY_AVX2
  // One comparison for two vectors: unordered if either is NaN.
  template <size_t... pair>
  static HWY_INLINE bool AllNumbers(std::index_sequence<pair...>, Lane<k>... acc) {
    const V all[] = {acc...};
    __m256 nan = _mm256_setzero_ps();
    ((nan =
          _mm256_or_ps(nan, _mm256_cmp_ps(all[2 * pair].raw, all[2 * pair + 1].raw, _CMP_UNORD_Q))),
     ...);
    return _mm256_testz_ps(nan, nan);
  }
  template <class E, size_t... pair>
  static HWY_INLINE void StorePairs(typename E::Type* p, std::index_sequence<pair...>,
                                    Lane<k>... acc) {
    const V all[] = {acc...};
    (StoreNumbers(E{}, all[2 * pair], all[2 * pair + 1], d, p + 2 * pair * hn::Lanes(d)), ...);
  }
#endif
  template <class E>
  static HWY_INLINE void WriteWhole(typename E::Type* p, Lane<k>... acc) {
#if HWY_TARGET == HWY_AVX2
    if constexpr (kVectors > 1 && std::is_same_v<E, BF16>) {
      constexpr std::make_index_sequence<kVectors / 2> pairs;
      if (HWY_LIKELY(AllNumbers(pairs, acc...))) return StorePairs<E>(p, pairs, acc...);
    }
#endif
    (StoreF32(E{}, acc, d, p + k * hn::Lanes(d)), ...);
  }
  // kLast: the end follows, and the accumulator need not be kept for it.
  template <class E, bool kLast, bool kFromAfar>
  static void Store(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    const auto* p = RowOf<E>(op->a, op->step_a) + at;
    Fetch<kFromAfar>(p);
    Write<E>(const_cast<typename E::Type*>(p), left, acc...);
    if constexpr (!kLast) Next(op, at, left, acc...);
  }
  // From registers: by way of a tile in L1, loads wait while it is streamed out, and a sum of two tensors of 16 MB took
  // 1.4 times as long (Zen 5).
  static void StorePastCaches(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    float* const p = const_cast<float*>(RowOf<F32>(op->a, op->step_a)) + at;
    if (kEnds || reinterpret_cast<uintptr_t>(p) % 64 != 0)
      Write<F32>(p, left, acc...);
    else
      (hn::Stream(acc, d, p + k * hn::Lanes(d)), ...);
    Next(op, at, left, acc...);
  }
  // Vectors are computed one after another: as arguments of the next call, gcc computes all before it moves any, and runs
  // out of registers (leaky relu took a tenth longer).
  template <V (*kOp)(D, V)>
  static void Unary(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    ((acc = kOp(d, acc)), ...);
    Next(op, at, left, acc...);
  }
  template <V (*kOp)(D, V, V), class E, bool kFromAfar>
  static void WithMemory(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    const auto* p = RowOf<E>(op->a, op->step_a) + at;
    const V last = ReadLast<E>(p, left);
    Fetch<kFromAfar>(p);
    ((acc = kOp(d, acc, Read<E>(p, k, left, last))), ...);
    Next(op, at, left, acc...);
  }
  template <V (*kOp)(D, V, V), class E>
  static void WithSplat(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    const V s = ReadSplat<E>(RowOf<E>(op->a, op->step_a));
    ((acc = kOp(d, acc, s)), ...);
    Next(op, at, left, acc...);
  }
  template <bool kSplatA, bool kSplatB>
  static void Select(ChainOp* op, int64_t at, size_t left, Lane<k>... acc) {
    const float* a = RowOf<F32>(op->a, op->step_a);
    const float* b = RowOf<F32>(op->b, op->step_b);
    const V last_a = kSplatA ? ReadSplat<F32>(a) : ReadLast<F32>(a + at, left);
    const V last_b = kSplatB ? ReadSplat<F32>(b) : ReadLast<F32>(b + at, left);
    ((acc = hn::IfThenElse(hn::MaskFromVec(acc),
                           kSplatA ? last_a : Read<F32>(a + at, k, left, last_a),
                           kSplatB ? last_b : Read<F32>(b + at, k, left, last_b))),
     ...);
    Next(op, at, left, acc...);
  }

  template <class E>
  static Fn Loading(const ChainOp& op) {
    if (op.form & pw::kSplatA) return LoadSplat<E>;
    return op.form & pw::kFromAfar ? Load<E, true> : Load<E, false>;
  }
  template <class E>
  static Fn Storing(const ChainOp& op) {
    if (op.form & pw::kPastCaches) return StorePastCaches;
    const bool last = (&op)[1].code == ChainCode::kEnd;
    if (op.form & pw::kFromAfar) return last ? Store<E, true, true> : Store<E, false, true>;
    return last ? Store<E, true, false> : Store<E, false, false>;
  }
  template <V (*kOp)(D, V, V), class E>
  static Fn With(const ChainOp& op) {
    if (op.form & pw::kSplatA) return WithSplat<kOp, E>;
    return op.form & pw::kFromAfar ? WithMemory<kOp, E, true> : WithMemory<kOp, E, false>;
  }
  template <V (*kOp)(D, V, V)>
  static Fn Binary(const ChainOp& op) {
    if (op.form & pw::kF16A) return With<kOp, F16>(op);
    if (op.form & pw::kBF16A) return With<kOp, BF16>(op);
    return With<kOp, F32>(op);
  }
  // max and min of one splat for all rows: NaN, or a number and then by kNumber.
  template <V (*kOp)(D, V, V), V (*kNumber)(D, V, V)>
  static Fn Extremum(const ChainOp& op) {
    if (op.form != pw::kSplatA || op.step_a != 0) return Binary<kOp>(op);
    const float v = *static_cast<const float*>(op.a);
    return v == v ? WithSplat<kNumber, F32> : LoadSplat<F32>;
  }
  static Fn Selecting(const ChainOp& op) {
    if (op.form & pw::kSplatA)
      return op.form & pw::kSplatB ? Select<true, true> : Select<true, false>;
    return op.form & pw::kSplatB ? Select<false, true> : Select<false, false>;
  }

  template <class E>
  static FirstFn LoadingFirst(const ChainOp& op) {
    if (op.form & pw::kSplatA) return FirstSplat<E>;
    return op.form & pw::kFromAfar ? First<E, true> : First<E, false>;
  }
  static FirstFn FindFirst(const ChainOp& op) {
    switch (op.code) {
      case ChainCode::kLoadF16: return LoadingFirst<F16>(op);
      case ChainCode::kLoadBF16: return LoadingFirst<BF16>(op);
      case ChainCode::kLoadBool: return LoadingFirst<Bool>(op);
      default: return LoadingFirst<F32>(op);
    }
  }

  static Fn Find(const ChainOp& op) {
    switch (op.code) {
      case ChainCode::kLoad: return Loading<F32>(op);
      case ChainCode::kLoadF16: return Loading<F16>(op);
      case ChainCode::kLoadBF16: return Loading<BF16>(op);
      case ChainCode::kLoadBool: return Loading<Bool>(op);
      case ChainCode::kStore: return Storing<F32>(op);
      case ChainCode::kStoreF16: return Storing<F16>(op);
      case ChainCode::kStoreBF16: return Storing<BF16>(op);
      case ChainCode::kStoreBool: return Storing<Bool>(op);
      case ChainCode::kRoundF16: return Unary<RoundTo<F16>>;
      case ChainCode::kRoundBF16: return Unary<RoundTo<BF16>>;
      case ChainCode::kFromMask: return Unary<FromMask>;
      case ChainCode::kNeg: return Unary<Neg>;
      case ChainCode::kAbs: return Unary<Abs>;
      case ChainCode::kSign: return Unary<Sign>;
      case ChainCode::kSquare: return Unary<Square>;
      case ChainCode::kCube: return Unary<Cube>;
      case ChainCode::kInverseSquare: return Unary<InverseSquare>;
      case ChainCode::kSqrt: return Unary<Sqrt>;
      case ChainCode::kRsqrt: return Unary<Rsqrt>;
      case ChainCode::kReciprocal: return Unary<Reciprocal>;
      case ChainCode::kRelu: return Unary<Relu>;
      case ChainCode::kFloor: return Unary<Floor>;
      case ChainCode::kCeil: return Unary<Ceil>;
      case ChainCode::kTrunc: return Unary<Trunc>;
      case ChainCode::kRound: return Unary<Round>;
      case ChainCode::kIsNan: return Unary<IsNan>;
      case ChainCode::kIsInf: return Unary<IsInf>;
      case ChainCode::kAdd: return Binary<Add>(op);
      case ChainCode::kSub: return Binary<Sub>(op);
      case ChainCode::kMul: return Binary<Mul>(op);
      case ChainCode::kDiv: return Binary<Div>(op);
      case ChainCode::kTruncDiv: return Binary<TruncDiv>(op);
      case ChainCode::kMin: return Extremum<Min, MinOfNumber>(op);
      case ChainCode::kMax: return Extremum<Max, MaxOfNumber>(op);
      case ChainCode::kEq: return Binary<Eq>(op);
      case ChainCode::kNe: return Binary<Ne>(op);
      case ChainCode::kLt: return Binary<Lt>(op);
      case ChainCode::kLe: return Binary<Le>(op);
      case ChainCode::kGt: return Binary<Gt>(op);
      case ChainCode::kGe: return Binary<Ge>(op);
      case ChainCode::kSubFrom: return Binary<Exchange<Sub>>(op);
      case ChainCode::kDivInto: return Binary<Exchange<Div>>(op);
      case ChainCode::kTruncDivInto: return Binary<Exchange<TruncDiv>>(op);
      case ChainCode::kMinOf: return Extremum<Exchange<Min>, MinOfNumber>(op);
      case ChainCode::kMaxOf: return Extremum<Exchange<Max>, MaxOfNumber>(op);
      case ChainCode::kSelect: return Selecting(op);
      case ChainCode::kEnd: break;
    }
    return End;
  }
};

using Whole = Handlers<std::make_index_sequence<kMany>, false>;
using ManyLeft = Handlers<std::make_index_sequence<kMany>, true>;
using FewLeft = Handlers<std::make_index_sequence<kFew>, true>;

template <class Each>
ChainOp::Handler HandlerOf(const ChainOp* ops, size_t i) {
  if (i == 0) return reinterpret_cast<ChainOp::Handler>(Each::FindFirst(ops[i]));
  return reinterpret_cast<ChainOp::Handler>(Each::Find(ops[i]));
}

void LinkChain(ChainOp* ops, size_t i) {
  ops[i].handler[FewLeft::kWidth] = HandlerOf<FewLeft>(ops, i);
  ops[i].handler[ManyLeft::kWidth] = HandlerOf<ManyLeft>(ops, i);
  ops[i].handler[Whole::kWidth] = HandlerOf<Whole>(ops, i);
}

void RunChain(ChainOp* ops, int64_t n, int64_t rows) {
  const int64_t lanes = hn::Lanes(D()), many = lanes * kMany, few = lanes * kFew;
  if (n == 0) return;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t at = 0;
    for (; at + many < n; at += many) Whole::Start(ops, at, many);
    if (n - at > few)
      ManyLeft::Start(ops, at, n - at);
    else
      FewLeft::Start(ops, at, n - at);
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  // gcc adds it at the end of functions that it sees use wide registers, which these jumps hide: pow, of libm and built
  // for SSE, took four times as long after a chain.
  _mm256_zeroupper();
#endif
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(LinkChain);
LS_SIMD_TABLE(RunChain);
}  // namespace

namespace pw {

ChainRunner FindChain(Isa isa) {
  const int i = static_cast<int>(isa);
  return {LinkChainPerIsa[i], RunChainPerIsa[i]};
}

}  // namespace pw
}  // namespace liveshape::cpu
#endif
