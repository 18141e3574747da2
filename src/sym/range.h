// Interval arithmetic in 128 bits. Private to sym/.
//
// A Wide holds every value that an expression can have; an end at +-kInfinite means "no bound
// known". Ends beyond int64 become infinite: no expression has such a value, evaluating it fails.
// So finite ends fit in 64 bits and their products in 128.
#pragma once

#include "sym/expr.h"
#include "sym/node.h"

namespace liveshape::sym {

struct Wide {
  using Int = __int128;
  static constexpr Int kInfinite = Int{1} << 100;
  Int lo = -kInfinite;
  Int hi = kInfinite;

  static Wide Point(int64_t v) { return {v, v}; }
  static Wide From(const Interval& r);
  Interval ToInterval() const;
  bool is_point() const { return lo == hi && finite(); }
  bool finite() const { return finite_below() && finite_above(); }
  bool finite_below() const { return lo > -kInfinite; }
  bool finite_above() const { return hi < kInfinite; }
  bool ExcludesZero() const { return lo > 0 || hi < 0; }
};

Wide operator+(Wide a, Wide b);
Wide operator-(Wide a);
inline Wide operator-(Wide a, Wide b) { return a + -b; }
Wide operator*(Wide a, Wide b);
Wide Hull(Wide a, Wide b);
Wide Intersect(Wide a, Wide b);  // both hold the value; an empty meeting keeps `a`
Wide PowRange(Wide base, int64_t exponent);
Wide PowRange(Wide base, Wide exponent);
Wide FloorDivRange(Wide a, Wide b);  // b's zero is left out: there is no value there
Wide CeilDivRange(Wide a, Wide b);
Wide ModRange(Wide a, Wide b);
Wide MinRange(Wide a, Wide b);
Wide MaxRange(Wide a, Wide b);
Wide BitAndRange(Wide a, Wide b);
Wide BitOrRange(Wide a, Wide b);
Wide ShiftLeftRange(Wide a, Wide by);
Wide ShiftRightRange(Wide a, Wide by);

// Rounding is monotone, so applying the double operation to the ends gives true ends.
FloatRange ToFloatRange(Wide a);
FloatRange TrueDivRange(Wide a, Wide b);
FloatRange FloatBinaryRange(Kind kind, FloatRange a, FloatRange b);
FloatRange SqrtRange(FloatRange a);
Wide FloatToIntRange(Kind kind, FloatRange a);

}  // namespace liveshape::sym
