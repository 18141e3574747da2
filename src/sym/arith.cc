#include "sym/arith.h"

namespace liveshape::sym {

const char* FaultText(Fault fault) {
  switch (fault) {
    case Fault::kNone: return "is well";
    case Fault::kOverflow: return "does not fit in 64 bits";
    case Fault::kDivideByZero: return "divides by zero";
    case Fault::kFloatRange: return "is a float that no 64-bit integer holds";
    case Fault::kNegativePower: return "has a negative exponent";
    case Fault::kNegativeShift: return "shifts by a negative count";
    case Fault::kFloatDomain: return "is no real number";
  }
  return "failed";
}

Fault TrueDivInt(int64_t a, int64_t b, double* out) {
  if (b == 0) return Fault::kDivideByZero;
  constexpr int64_t kExact = int64_t{1}
                             << 53;  // both operands exact: one IEEE rounding is all there is
  if (-kExact <= a && a <= kExact && -kExact <= b && b <= kExact) {
    *out = static_cast<double>(a) / static_cast<double>(b);
    return Fault::kNone;
  }
  using Wide = unsigned __int128;
  const bool negative = (a < 0) != (b < 0);
  uint64_t numerator = a < 0 ? 0 - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t denominator = b < 0 ? 0 - static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  if (numerator == 0) {
    *out = negative ? -0.0 : 0.0;
    return Fault::kNone;
  }
  // With the numerator's top bit at 126 the quotient has at least 63 bits: 53, a guard and a sticky
  // bit.
  const int shift = 63 + __builtin_clzll(numerator);
  const Wide scaled = static_cast<Wide>(numerator) << shift;
  Wide quotient = scaled / denominator;
  bool sticky = scaled % denominator != 0;
  int exponent = -shift;
  while (quotient >> 64) {
    sticky |= static_cast<bool>(quotient & 1);
    quotient >>= 1;
    ++exponent;
  }
  const uint64_t mantissa = static_cast<uint64_t>(quotient) | (sticky ? 1 : 0);
  const double magnitude = std::ldexp(static_cast<double>(mantissa), exponent);
  *out = negative ? -magnitude : magnitude;
  return Fault::kNone;
}

Fault PowFloat(double base, double exponent, double* out) {
  const double result = std::pow(base, exponent);
  // Python raises where C returns inf or NaN from finite operands.
  if (!std::isfinite(result) && std::isfinite(base) && std::isfinite(exponent)) {
    return Fault::kFloatDomain;
  }
  *out = result;
  return Fault::kNone;
}

}  // namespace liveshape::sym
