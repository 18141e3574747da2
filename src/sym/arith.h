// Python's integer and float arithmetic on int64 and double, with every failure as a value.
// Folding, Table::Evaluate and ShapeProgram::Run all call these, so they cannot disagree.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace liveshape::sym {

enum class Fault : uint8_t {
  kNone,
  kOverflow,
  kDivideByZero,
  kFloatRange,  // a float that has no int64: too large, infinite or NaN
  kNegativePower,
  kNegativeShift,
  kFloatDomain,  // sqrt(-1), 0.0 ** -1, (-1.0) ** 0.5
};

const char* FaultText(Fault fault);

inline Fault AddInt(int64_t a, int64_t b, int64_t* out) {
  return __builtin_add_overflow(a, b, out) ? Fault::kOverflow : Fault::kNone;
}

inline Fault MulInt(int64_t a, int64_t b, int64_t* out) {
  return __builtin_mul_overflow(a, b, out) ? Fault::kOverflow : Fault::kNone;
}

inline Fault FloorDivInt(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) return Fault::kDivideByZero;
  // The one quotient that int64 lacks; on x86 it would trap.
  if (b == -1) return __builtin_sub_overflow(int64_t{0}, a, out) ? Fault::kOverflow : Fault::kNone;
  int64_t q = a / b;
  if (a % b != 0 && ((a < 0) != (b < 0))) --q;
  *out = q;
  return Fault::kNone;
}

inline Fault CeilDivInt(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) return Fault::kDivideByZero;
  if (b == -1) return __builtin_sub_overflow(int64_t{0}, a, out) ? Fault::kOverflow : Fault::kNone;
  int64_t q = a / b;
  if (a % b != 0 && ((a < 0) == (b < 0))) ++q;
  *out = q;
  return Fault::kNone;
}

inline Fault ModInt(int64_t a, int64_t b, int64_t* out) {
  if (b == 0) return Fault::kDivideByZero;
  if (b == -1) {
    *out = 0;
    return Fault::kNone;
  }
  int64_t r = a % b;
  if (r != 0 && ((r < 0) != (b < 0))) r += b;
  *out = r;
  return Fault::kNone;
}

inline Fault PowInt(int64_t base, int64_t exponent, int64_t* out) {
  if (exponent < 0) return Fault::kNegativePower;
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return Fault::kOverflow;
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return Fault::kOverflow;
  }
  *out = result;
  return Fault::kNone;
}

inline Fault ShiftLeftInt(int64_t a, int64_t by, int64_t* out) {
  if (by < 0) return Fault::kNegativeShift;
  if (a == 0) {
    *out = 0;
    return Fault::kNone;
  }
  if (by == 63 && a == -1) {
    *out = std::numeric_limits<int64_t>::min();
    return Fault::kNone;
  }
  if (by > 62) return Fault::kOverflow;
  return MulInt(a, int64_t{1} << by, out);
}

inline Fault ShiftRightInt(int64_t a, int64_t by, int64_t* out) {
  if (by < 0) return Fault::kNegativeShift;
  *out = a >> (by > 63 ? 63 : by);
  return Fault::kNone;
}

// int / int as Python divides: the exact quotient, rounded once (not two rounded doubles).
Fault TrueDivInt(int64_t a, int64_t b, double* out);

inline Fault DivFloat(double a, double b, double* out) {
  if (b == 0) return Fault::kDivideByZero;
  *out = a / b;
  return Fault::kNone;
}

Fault PowFloat(double base, double exponent, double* out);

inline Fault SqrtFloat(double a, double* out) {
  if (a < 0) return Fault::kFloatDomain;
  *out = std::sqrt(a);
  return Fault::kNone;
}

// `rounded` is already an integer in value.
inline Fault FloatToInt(double rounded, int64_t* out) {
  if (!(rounded >= -0x1p63 && rounded < 0x1p63)) return Fault::kFloatRange;
  *out = static_cast<int64_t>(rounded);
  return Fault::kNone;
}

}  // namespace liveshape::sym
