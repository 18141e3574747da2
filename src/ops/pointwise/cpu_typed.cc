// Every instruction on f64, integers and bool, and what f32 has no vector form of, as plain loops that the compiler
// vectorises for each instruction set; and FindTile, which picks. The integer semantics are torch's: wraparound, floor
// division, shifts beyond the width give 0 or the sign.
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/pointwise/cpu_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pointwise/cpu_typed.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

// gcc's -O2 vectorises only loops of known length; these are the only plain loops over tiles we have.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using ir::PwOp;
using pw::Tile;
using pw::TileFn;

struct Bool { uint8_t byte; };  // a distinct type, so that overloads choose logic

template <typename T>
constexpr bool kIsBool = std::is_same_v<T, Bool>;
template <typename T>
constexpr bool kIsInt = std::is_integral_v<T>;
template <typename T>
constexpr bool kIsFloat = std::is_floating_point_v<T>;

// The length is read before the loops: a store of an int64 or a byte might change t.n, and no loop with such a bound
// is vectorised.
template <auto kOp, typename T, typename R>
bool Map1(const Tile& t) {
  const T* a = static_cast<const T*>(t.a);
  R* out = static_cast<R*>(t.out);
  const int64_t n = t.n;
  for (int64_t i = 0; i < n; ++i) out[i] = kOp(a[i]);
  return true;
}

template <auto kOp, typename T, typename R>
bool Map2(const Tile& t) {
  const T* a = static_cast<const T*>(t.a);
  const T* b = static_cast<const T*>(t.b);
  R* out = static_cast<R*>(t.out);
  const int64_t n = t.n;
  for (int64_t i = 0; i < n; ++i) out[i] = kOp(a[i], b[i]);
  return true;
}

template <typename T>
bool Select(const Tile& t) {
  const uint8_t* a = static_cast<const uint8_t*>(t.a);
  const T* b = static_cast<const T*>(t.b);
  const T* c = static_cast<const T*>(t.c);
  T* out = static_cast<T*>(t.out);
  const int64_t n = t.n;
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] ? b[i] : c[i];
  return true;
}

Bool Truth(bool v) { return {static_cast<uint8_t>(v)}; }

// Integers wrap: computed unsigned in at least 32 bits.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

template <typename T>
T Add(T a, T b) {
  if constexpr (kIsInt<T>)
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  else
    return a + b;
}
template <typename T>
T Sub(T a, T b) {
  if constexpr (kIsInt<T>)
    return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
  else
    return a - b;
}
template <typename T>
T Mul(T a, T b) {
  if constexpr (kIsInt<T>)
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  else
    return a * b;
}
template <typename T>
T Neg(T a) {
  if constexpr (kIsInt<T>)
    return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
  else
    return -a;
}
template <typename T>
T Abs(T a) {
  if constexpr (kIsFloat<T>)
    return std::fabs(a);
  else
    return a < 0 ? Neg(a) : a;
}
template <typename T>
T Sign(T a) {
  return static_cast<T>((T{0} < a) - (a < T{0}));
}
template <typename T>
T Square(T a) {
  return Mul(a, a);
}
template <typename T>
T Cube(T a) {
  return Mul(Mul(a, a), a);
}
template <typename T>
T InverseSquare(T a) {
  return T{1} / (a * a);
}
template <typename T>
T Div(T a, T b) {
  return a / b;
}
template <typename T>
T Min(T a, T b) {
  return a != a ? a : (a < b ? a : b);
}
template <typename T>
T Max(T a, T b) {
  return a != a ? a : (a > b ? a : b);
}
template <typename T>
T Relu(T a) {
  return a < T{0} ? T{0} : a;
}

template <typename T>
Bool Eq(T a, T b) {
  return Truth(a == b);
}
template <typename T>
Bool Ne(T a, T b) {
  return Truth(a != b);
}
template <typename T>
Bool Lt(T a, T b) {
  return Truth(a < b);
}
template <typename T>
Bool Le(T a, T b) {
  return Truth(a <= b);
}
template <typename T>
Bool Gt(T a, T b) {
  return Truth(a > b);
}
template <typename T>
Bool Ge(T a, T b) {
  return Truth(a >= b);
}
template <typename T>
Bool IsNan(T a) {
  return Truth(a != a);
}
template <typename T>
Bool IsInf(T a) {
  if constexpr (kIsFloat<T>)
    return Truth(std::isinf(a));
  else
    return Truth(false);
}
template <typename T>
Bool Never(T) {
  return Truth(false);
}

template <typename T>
T And(T a, T b) {
  return static_cast<T>(a & b);
}
template <typename T>
T Or(T a, T b) {
  return static_cast<T>(a | b);
}
template <typename T>
T Xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <typename T>
T Not(T a) {
  return static_cast<T>(~a);
}
template <typename T>
bool OutOfWidth(T b) {
  return b < 0 || static_cast<uint64_t>(b) >= sizeof(T) * 8;
}
template <typename T>
T ShiftLeft(T a, T b) {
  return OutOfWidth(b) ? T{0} : static_cast<T>(static_cast<Wide<T>>(a) << b);
}
template <typename T>
T ShiftRight(T a, T b) {
  constexpr int kWidest = std::numeric_limits<T>::digits;  // leaves the sign; 0 for unsigned below
  if (OutOfWidth(b)) return std::is_signed_v<T> ? static_cast<T>(a >> kWidest) : T{0};
  return static_cast<T>(a >> b);
}

// torch's: by squaring, wrapping; a negative exponent keeps only the bases 1 and -1.
template <typename T>
T IntPow(T a, T b) {
  if (b < 0)
    return a == 1 ? T{1} : (a == static_cast<T>(-1) ? static_cast<T>((b & 1) ? -1 : 1) : T{0});
  Wide<T> base = static_cast<Wide<T>>(a), result = 1;
  for (Wide<T> e = static_cast<Wide<T>>(b); e; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return static_cast<T>(result);
}

// b != 0. The quotient of the least integer by -1 does not trap here, it wraps.
template <typename T>
T Quotient(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b == T{-1}) return Neg(a);
  return static_cast<T>(a / b);
}
template <typename T>
T Rest(T a, T b) {
  if constexpr (std::is_signed_v<T>)
    if (b == T{-1}) return T{0};
  return static_cast<T>(a % b);
}
template <typename T>
T FloorQuotient(T a, T b) {
  const T q = Quotient(a, b);
  return Rest(a, b) != 0 && ((a < 0) != (b < 0)) ? static_cast<T>(q - 1) : q;
}
template <typename T>
T FloorRest(T a, T b) {
  const T r = Rest(a, b);
  return r != 0 && ((r < 0) != (b < 0)) ? static_cast<T>(r + b) : r;
}

template <auto kOp, typename T>
bool Divide(const Tile& t) {
  const T* a = static_cast<const T*>(t.a);
  const T* b = static_cast<const T*>(t.b);
  T* out = static_cast<T*>(t.out);
  const int64_t n = t.n;
  for (int64_t i = 0; i < n; ++i) {
    if (b[i] == 0) return false;
    out[i] = kOp(a[i], b[i]);
  }
  return true;
}

// c10::div_floor_floating: exact where a / b rounds up to an integer.
template <typename T>
T FloorDivFloat(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(T{0}, a / b);
  const T floored = std::floor(div);
  return div - floored > T{0.5} ? floored + 1 : floored;
}
template <typename T>
T RemainderFloat(T a, T b) {
  const T mod = std::fmod(a, b);
  return mod != 0 && ((b < 0) != (mod < 0)) ? mod + b : mod;
}
template <typename T>
T FmodFloat(T a, T b) {
  return std::fmod(a, b);
}
template <typename T>
T TruncDivFloat(T a, T b) {
  return std::trunc(a / b);
}
template <typename T>
T PowFloat(T a, T b) {
  return std::pow(a, b);
}
template <typename T>
T Atan2(T a, T b) {
  return std::atan2(a, b);
}

#define LS_MATH(Name, expression) \
  template <typename T>           \
  T Name(T x) {                   \
    return expression;            \
  }
LS_MATH(Sqrt, std::sqrt(x))
LS_MATH(Rsqrt, T{1} / std::sqrt(x))
LS_MATH(Reciprocal, T{1} / x)
LS_MATH(Exp, std::exp(x))
LS_MATH(Exp2, std::exp2(x))
LS_MATH(Expm1, std::expm1(x))
LS_MATH(Log, std::log(x))
LS_MATH(Log2, std::log2(x))
LS_MATH(Log1p, std::log1p(x))
LS_MATH(Log10, std::log10(x))
LS_MATH(Sin, std::sin(x))
LS_MATH(Cos, std::cos(x))
LS_MATH(Tan, std::tan(x))
LS_MATH(Asin, std::asin(x))
LS_MATH(Acos, std::acos(x))
LS_MATH(Atan, std::atan(x))
LS_MATH(Sinh, std::sinh(x))
LS_MATH(Cosh, std::cosh(x))
LS_MATH(Tanh, std::tanh(x))
LS_MATH(Erf, std::erf(x))
LS_MATH(Sigmoid, T{1} / (T{1} + std::exp(-x)))
LS_MATH(Silu, x / (T{1} + std::exp(-x)))
LS_MATH(Gelu, x* T{0.5} * (T{1} + std::erf(x * T{0.70710678118654752440})))
LS_MATH(GeluTanh,
        T{0.5} * x * (T{1} + std::tanh(T{0.79788456080286535588} * (x + T{0.044715} * x * x * x))))
LS_MATH(Floor, std::floor(x))
LS_MATH(Ceil, std::ceil(x))
LS_MATH(Trunc, std::trunc(x))
LS_MATH(Round, std::nearbyint(x))
#undef LS_MATH

Bool BoolOr(Bool a, Bool b) { return Truth((a.byte != 0) | (b.byte != 0)); }
Bool BoolAnd(Bool a, Bool b) { return Truth((a.byte != 0) & (b.byte != 0)); }
Bool BoolNe(Bool a, Bool b) { return Truth((a.byte != 0) != (b.byte != 0)); }
Bool BoolEq(Bool a, Bool b) { return Truth((a.byte != 0) == (b.byte != 0)); }
Bool BoolLt(Bool a, Bool b) { return Truth((a.byte == 0) & (b.byte != 0)); }
Bool BoolGt(Bool a, Bool b) { return BoolLt(b, a); }
Bool BoolLe(Bool a, Bool b) { return Truth((a.byte == 0) | (b.byte != 0)); }
Bool BoolGe(Bool a, Bool b) { return BoolLe(b, a); }
Bool BoolNot(Bool a) { return Truth(a.byte == 0); }
Bool BoolSame(Bool a) { return Truth(a.byte != 0); }

TileFn FindBool(PwOp op) {
  switch (op) {
    case PwOp::kAdd:
    case PwOp::kOr:
    case PwOp::kMax: return Map2<BoolOr, Bool, Bool>;
    case PwOp::kMul:
    case PwOp::kAnd:
    case PwOp::kMin: return Map2<BoolAnd, Bool, Bool>;
    case PwOp::kXor:
    case PwOp::kNe: return Map2<BoolNe, Bool, Bool>;
    case PwOp::kEq: return Map2<BoolEq, Bool, Bool>;
    case PwOp::kLt: return Map2<BoolLt, Bool, Bool>;
    case PwOp::kGt: return Map2<BoolGt, Bool, Bool>;
    case PwOp::kLe: return Map2<BoolLe, Bool, Bool>;
    case PwOp::kGe: return Map2<BoolGe, Bool, Bool>;
    case PwOp::kNot: return Map1<BoolNot, Bool, Bool>;
    case PwOp::kSign: return Map1<BoolSame, Bool, Bool>;
    case PwOp::kIsNan:
    case PwOp::kIsInf: return Map1<Never<Bool>, Bool, Bool>;
    case PwOp::kWhere: return Select<Bool>;
    default: return nullptr;
  }
}

// What integers and floats share.
template <typename T>
TileFn FindNumber(PwOp op) {
  switch (op) {
    case PwOp::kAdd: return Map2<Add<T>, T, T>;
    case PwOp::kSub: return Map2<Sub<T>, T, T>;
    case PwOp::kMul: return Map2<Mul<T>, T, T>;
    case PwOp::kMin: return Map2<Min<T>, T, T>;
    case PwOp::kMax: return Map2<Max<T>, T, T>;
    case PwOp::kEq: return Map2<Eq<T>, T, Bool>;
    case PwOp::kNe: return Map2<Ne<T>, T, Bool>;
    case PwOp::kLt: return Map2<Lt<T>, T, Bool>;
    case PwOp::kLe: return Map2<Le<T>, T, Bool>;
    case PwOp::kGt: return Map2<Gt<T>, T, Bool>;
    case PwOp::kGe: return Map2<Ge<T>, T, Bool>;
    case PwOp::kNeg: return Map1<Neg<T>, T, T>;
    case PwOp::kAbs: return Map1<Abs<T>, T, T>;
    case PwOp::kSign: return Map1<Sign<T>, T, T>;
    case PwOp::kSquare: return Map1<Square<T>, T, T>;
    case PwOp::kRelu: return Map1<Relu<T>, T, T>;
    case PwOp::kIsNan: return Map1<IsNan<T>, T, Bool>;
    case PwOp::kIsInf: return Map1<IsInf<T>, T, Bool>;
    case PwOp::kWhere: return Select<T>;
    default: return nullptr;
  }
}

template <typename T>
TileFn FindInteger(PwOp op) {
  switch (op) {
    case PwOp::kFloorDiv: return Divide<FloorQuotient<T>, T>;
    case PwOp::kTruncDiv: return Divide<Quotient<T>, T>;
    case PwOp::kRemainder: return Divide<FloorRest<T>, T>;
    case PwOp::kFmod: return Divide<Rest<T>, T>;
    case PwOp::kPow: return Map2<IntPow<T>, T, T>;
    case PwOp::kAnd: return Map2<And<T>, T, T>;
    case PwOp::kOr: return Map2<Or<T>, T, T>;
    case PwOp::kXor: return Map2<Xor<T>, T, T>;
    case PwOp::kNot: return Map1<Not<T>, T, T>;
    case PwOp::kShiftLeft: return Map2<ShiftLeft<T>, T, T>;
    case PwOp::kShiftRight: return Map2<ShiftRight<T>, T, T>;
    default: return FindNumber<T>(op);
  }
}

// The functions that f32 too takes from libm.
template <typename T>
TileFn FindScalarFloat(PwOp op) {
  switch (op) {
    case PwOp::kFloorDiv: return Map2<FloorDivFloat<T>, T, T>;
    case PwOp::kRemainder: return Map2<RemainderFloat<T>, T, T>;
    case PwOp::kFmod: return Map2<FmodFloat<T>, T, T>;
    case PwOp::kPow: return Map2<PowFloat<T>, T, T>;
    case PwOp::kTan: return Map1<Tan<T>, T, T>;
    case PwOp::kLog10: return Map1<Log10<T>, T, T>;
    case PwOp::kAsin: return Map1<Asin<T>, T, T>;
    case PwOp::kAcos: return Map1<Acos<T>, T, T>;
    case PwOp::kAtan: return Map1<Atan<T>, T, T>;
    case PwOp::kSinh: return Map1<Sinh<T>, T, T>;
    case PwOp::kCosh: return Map1<Cosh<T>, T, T>;
    case PwOp::kAtan2: return Map2<Atan2<T>, T, T>;
    default: return nullptr;
  }
}

TileFn FindDouble(PwOp op) {
  using T = double;
  switch (op) {
    case PwOp::kDiv: return Map2<Div<T>, T, T>;
    case PwOp::kTruncDiv: return Map2<TruncDivFloat<T>, T, T>;
    case PwOp::kSqrt: return Map1<Sqrt<T>, T, T>;
    case PwOp::kRsqrt: return Map1<Rsqrt<T>, T, T>;
    case PwOp::kReciprocal: return Map1<Reciprocal<T>, T, T>;
    case PwOp::kExp: return Map1<Exp<T>, T, T>;
    case PwOp::kExp2: return Map1<Exp2<T>, T, T>;
    case PwOp::kExpm1: return Map1<Expm1<T>, T, T>;
    case PwOp::kLog: return Map1<Log<T>, T, T>;
    case PwOp::kLog2: return Map1<Log2<T>, T, T>;
    case PwOp::kLog1p: return Map1<Log1p<T>, T, T>;
    case PwOp::kSin: return Map1<Sin<T>, T, T>;
    case PwOp::kCos: return Map1<Cos<T>, T, T>;
    case PwOp::kTanh: return Map1<Tanh<T>, T, T>;
    case PwOp::kErf: return Map1<Erf<T>, T, T>;
    case PwOp::kSigmoid: return Map1<Sigmoid<T>, T, T>;
    case PwOp::kSilu: return Map1<Silu<T>, T, T>;
    case PwOp::kGelu: return Map1<Gelu<T>, T, T>;
    case PwOp::kGeluTanh: return Map1<GeluTanh<T>, T, T>;
    case PwOp::kFloor: return Map1<Floor<T>, T, T>;
    case PwOp::kCeil: return Map1<Ceil<T>, T, T>;
    case PwOp::kTrunc: return Map1<Trunc<T>, T, T>;
    case PwOp::kRound: return Map1<Round<T>, T, T>;
    default: {
      const TileFn scalar = FindScalarFloat<T>(op);
      return scalar ? scalar : FindNumber<T>(op);
    }
  }
}

TileFn FindTyped(PwOp op, DType dtype) {
  switch (dtype) {
    case DType::kF32: return FindScalarFloat<float>(op);
    case DType::kF64: return FindDouble(op);
    case DType::kI64: return FindInteger<int64_t>(op);
    case DType::kI32: return FindInteger<int32_t>(op);
    case DType::kI16: return FindInteger<int16_t>(op);
    case DType::kI8: return FindInteger<int8_t>(op);
    case DType::kU8: return FindInteger<uint8_t>(op);
    case DType::kBool: return FindBool(op);
    default: return nullptr;
  }
}

TileFn FindF64Power(int exponent) {
  return exponent == 3 ? Map1<Cube<double>, double, double>
                       : Map1<InverseSquare<double>, double, double>;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindTyped);
LS_SIMD_TABLE(FindF64Power);
}  // namespace

pw::TileFn pw::F64Power(int exponent, Isa isa) {
  const auto find = FindF64PowerPerIsa[static_cast<int>(isa)];
  return find ? find(exponent) : nullptr;
}

pw::TileFn pw::FindTile(ir::PwOp op, DType dtype, Isa isa) {
  if (dtype == DType::kF32)
    if (TileFn fn = F32MathTile(op, isa)) return fn;
  const auto find = FindTypedPerIsa[static_cast<int>(isa)];
  return find ? find(op, dtype) : nullptr;
}

}  // namespace liveshape::cpu
#endif
