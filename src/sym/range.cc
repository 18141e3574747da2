#include "sym/range.h"

#include <algorithm>
#include <cmath>

#include "sym/arith.h"

namespace liveshape::sym {
namespace {

using Int = Wide::Int;
constexpr Int kInf = Wide::kInfinite;
constexpr Int kMax = std::numeric_limits<int64_t>::max();
constexpr Int kMin = std::numeric_limits<int64_t>::min();

Int Saturate(Int v) { return v > kMax ? kInf : v < kMin ? -kInf : v; }
Wide Saturate(Wide w) { return {Saturate(w.lo), Saturate(w.hi)}; }
bool Infinite(Int v) { return v >= kInf || v <= -kInf; }

// Infinite stands for "some finite number, however large", so 0 times it is 0.
Int Times(Int a, Int b) {
  if (a == 0 || b == 0) return 0;
  if (Infinite(a) || Infinite(b)) return ((a < 0) == (b < 0)) ? kInf : -kInf;
  return Saturate(a * b);
}

Int FloorQuotient(Int a, Int b) {  // b != 0
  if (Infinite(b)) {               // towards 0 from the sign's side; the limit of floor(a/b)
    if (Infinite(a)) return ((a < 0) == (b < 0)) ? kInf : -kInf;
    return a == 0 || ((a < 0) == (b < 0)) ? 0 : -1;
  }
  if (Infinite(a)) return ((a < 0) == (b < 0)) ? kInf : -kInf;
  Int q = a / b;
  if (a % b != 0 && ((a < 0) != (b < 0))) --q;
  return q;
}

Int Power(Int base, Int exponent) {  // exponent >= 0, may be infinite
  if (exponent == 0 || base == 1) return 1;
  if (base == 0) return 0;
  if (Infinite(base)) return base > 0 || exponent % 2 == 0 ? kInf : -kInf;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  if (exponent > 64) return base > 0 || exponent % 2 == 0 ? kInf : -kInf;
  Int result = 1;
  for (Int i = 0; i < exponent && !Infinite(result); ++i) result = Times(result, base);
  if (Infinite(result)) return base > 0 || exponent % 2 == 0 ? kInf : -kInf;
  return result;
}

// Floor quotients over b > 0 (both ends), any a: monotone in a, and in b for each sign of a.
Wide FloorDivPositive(Wide a, Wide b) {
  const Int corners[] = {FloorQuotient(a.lo, b.lo), FloorQuotient(a.lo, b.hi),
                         FloorQuotient(a.hi, b.lo), FloorQuotient(a.hi, b.hi)};
  Wide r = {*std::ranges::min_element(corners), *std::ranges::max_element(corners)};
  // An infinite over an infinite can be anything between: 0 or -1 is the other limit.
  if (Infinite(b.hi)) r = Hull(r, {a.lo < 0 ? -1 : 0, a.hi < 0 ? -1 : 0});
  return r;
}

// The least 2^k - 1 that is not below v.
Int Ones(Int v) {
  Int ones = 0;
  while (ones < v) ones = ones * 2 + 1;
  return ones;
}

double Widen(double v, double towards) {
  // glibc's pow is within one ulp, but not monotone: four steps are a safe margin.
  for (int i = 0; i < 4; ++i) v = std::nextafter(v, towards);
  return v;
}

FloatRange HullOf(std::initializer_list<double> corners) {
  for (double c : corners) {
    if (std::isnan(c)) return {};
  }
  return {std::min(corners), std::max(corners)};
}

}  // namespace

Wide Wide::From(const Interval& r) {
  return {r.bounded_below() ? Int{r.lo} : -kInf, r.bounded_above() ? Int{r.hi} : kInf};
}

Interval Wide::ToInterval() const {
  // lo > hi or an end on the wrong side of int64: no value at all, any answer is right.
  if (lo > hi || lo > kMax || hi < kMin) return {};
  return {lo <= kMin ? Interval::kNegInf : static_cast<int64_t>(lo),
          hi >= kMax ? Interval::kPosInf : static_cast<int64_t>(hi)};
}

Wide operator+(Wide a, Wide b) {
  return {Infinite(a.lo) || Infinite(b.lo) ? -kInf : Saturate(a.lo + b.lo),
          Infinite(a.hi) || Infinite(b.hi) ? kInf : Saturate(a.hi + b.hi)};
}

Wide operator-(Wide a) { return {-a.hi, -a.lo}; }

Wide operator*(Wide a, Wide b) {
  const Int corners[] = {Times(a.lo, b.lo), Times(a.lo, b.hi), Times(a.hi, b.lo),
                         Times(a.hi, b.hi)};
  return {*std::ranges::min_element(corners), *std::ranges::max_element(corners)};
}

Wide Hull(Wide a, Wide b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Wide Intersect(Wide a, Wide b) {
  const Wide met = {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return met.lo <= met.hi ? met : a;
}

Wide PowRange(Wide base, int64_t exponent) {
  if (exponent < 0) return {};
  const Int lo = Power(base.lo, exponent), hi = Power(base.hi, exponent);
  if (exponent % 2 == 1) return {lo, hi};
  if (base.lo <= 0 && base.hi >= 0 && exponent > 0) return {0, std::max(lo, hi)};
  return {std::min(lo, hi), std::max(lo, hi)};
}

Wide PowRange(Wide base, Wide exponent) {
  exponent.lo = std::max<Int>(exponent.lo, 0);  // a negative one has no value
  if (exponent.hi < exponent.lo) return {};
  if (base.lo >= 1) return {Power(base.lo, exponent.lo), Power(base.hi, exponent.hi)};
  if (base.lo >= 0) return {0, std::max<Int>(1, Power(base.hi, exponent.hi))};
  const Int size = std::max<Int>(1, Power(std::max(-base.lo, base.hi), exponent.hi));
  return {-size, size};
}

Wide FloorDivRange(Wide a, Wide b) {
  Wide result = {kInf, -kInf};
  if (b.hi > 0) result = Hull(result, FloorDivPositive(a, {std::max<Int>(b.lo, 1), b.hi}));
  if (b.lo < 0) result = Hull(result, FloorDivPositive(-a, {std::max<Int>(-b.hi, 1), -b.lo}));
  return result.lo > result.hi ? Wide{} : Saturate(result);
}

Wide CeilDivRange(Wide a, Wide b) { return -FloorDivRange(-a, b); }

Wide ModRange(Wide a, Wide b) {
  Wide result = {kInf, -kInf};
  auto positive = [](Wide x, Wide d) -> Wide {  // d > 0
    if (x.lo >= 0 && x.hi < d.lo) return x;
    if (d.is_point() && x.finite() && FloorQuotient(x.lo, d.lo) == FloorQuotient(x.hi, d.lo)) {
      const Int base = FloorQuotient(x.lo, d.lo) * d.lo;
      return {x.lo - base, x.hi - base};
    }
    const Int below = Infinite(d.hi) ? kInf : d.hi - 1;
    return {0, x.lo >= 0 ? std::min(x.hi, below) : below};
  };
  if (b.hi > 0) result = Hull(result, positive(a, {std::max<Int>(b.lo, 1), b.hi}));
  if (b.lo < 0) result = Hull(result, -positive(-a, {std::max<Int>(-b.hi, 1), -b.lo}));
  return result.lo > result.hi ? Wide{} : result;
}

Wide MinRange(Wide a, Wide b) { return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)}; }
Wide MaxRange(Wide a, Wide b) { return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)}; }

Wide BitAndRange(Wide a, Wide b) {
  if (a.lo >= 0 && b.lo >= 0) return {0, std::min(a.hi, b.hi)};
  if (a.lo >= 0) return {0, a.hi};
  if (b.lo >= 0) return {0, b.hi};
  const Int lowest = std::min(a.lo, b.lo);
  return {Infinite(lowest) ? -kInf : -Ones(-lowest) - 1, std::max(a.hi, b.hi)};
}

Wide BitOrRange(Wide a, Wide b) {
  const Int highest = std::max(a.hi, b.hi);
  const Int top = highest < 0 ? -1 : Infinite(highest) ? kInf : Ones(highest);
  if (a.lo >= 0 && b.lo >= 0) return {std::max(a.lo, b.lo), top};
  // Setting bits never lowers a number, so the lesser end holds.
  return {std::min(a.lo, b.lo), top};
}

Wide ShiftLeftRange(Wide a, Wide by) { return a * PowRange(Wide::Point(2), by); }

Wide ShiftRightRange(Wide a, Wide by) { return FloorDivRange(a, PowRange(Wide::Point(2), by)); }

FloatRange ToFloatRange(Wide a) {
  FloatRange r;
  if (a.finite_below()) r.lo = static_cast<double>(static_cast<int64_t>(a.lo));
  if (a.finite_above()) r.hi = static_cast<double>(static_cast<int64_t>(a.hi));
  return r;
}

FloatRange TrueDivRange(Wide a, Wide b) {
  if (!a.finite() || !b.finite() || !b.ExcludesZero()) return {};
  auto quotient = [](Int x, Int y) {
    double q = std::nan("");
    (void)TrueDivInt(static_cast<int64_t>(x), static_cast<int64_t>(y), &q);
    return q;
  };
  return HullOf(
      {quotient(a.lo, b.lo), quotient(a.lo, b.hi), quotient(a.hi, b.lo), quotient(a.hi, b.hi)});
}

FloatRange FloatBinaryRange(Kind kind, FloatRange a, FloatRange b) {
  switch (kind) {
    case Kind::kFloatAdd: return HullOf({a.lo + b.lo, a.hi + b.hi});
    case Kind::kFloatMul: return HullOf({a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi});
    case Kind::kFloatDiv:
      if (!(b.lo > 0 || b.hi < 0)) return {};
      return HullOf({a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi});
    case Kind::kFloatPow: {
      if (!(a.lo >= 0)) return {};
      const FloatRange r = HullOf(
          {std::pow(a.lo, b.lo), std::pow(a.lo, b.hi), std::pow(a.hi, b.lo), std::pow(a.hi, b.hi)});
      return {Widen(r.lo, -INFINITY), Widen(r.hi, INFINITY)};
    }
    case Kind::kFloatMin: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case Kind::kFloatMax: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
    default: return {};
  }
}

FloatRange SqrtRange(FloatRange a) {
  if (!(a.hi >= 0)) return {};
  return {std::sqrt(std::max(a.lo, 0.0)), std::sqrt(a.hi)};
}

Wide FloatToIntRange(Kind kind, FloatRange a) {
  auto round = [kind](double v) -> Int {
    switch (kind) {
      case Kind::kTruncToInt: v = std::trunc(v); break;
      case Kind::kFloorToInt: v = std::floor(v); break;
      case Kind::kCeilToInt: v = std::ceil(v); break;
      default: v = std::nearbyint(v); break;
    }
    if (std::isnan(v)) return 0;
    if (v >= 0x1p63) return kInf;
    if (v < -0x1p63) return -kInf;
    return static_cast<int64_t>(v);
  };
  if (std::isnan(a.lo) || std::isnan(a.hi)) return {};
  return {round(a.lo), round(a.hi)};
}

}  // namespace liveshape::sym
