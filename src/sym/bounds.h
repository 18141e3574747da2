// The range of a sum of terms over the symbols' ranges, without building the sum. Private to sym/.
#pragma once

#include <span>

#include "sym/polynomial.h"
#include "sym/range.h"

namespace liveshape::sym {

// As tight as Table::Bounds of the sum would be.
Wide RangeOfSum(Table::Impl& impl, std::span<const Term> terms);
// Of a - b; whole where the difference overflows.
Wide RangeOfDifference(Expr a, Expr b);
Wide RangeOf(Expr e);
FloatRange FloatRangeOf(Expr e);
inline bool ExcludesZero(Expr e) { return RangeOf(e).ExcludesZero(); }

}  // namespace liveshape::sym
