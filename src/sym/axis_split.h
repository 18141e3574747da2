// Where an axis can be cut. Two ways to see the elements of an axis (a reshape, a transpose that straddles it) cut it at
// different places; they have a common refinement when each boundary divides the next.
//
//   AxisSplit(table, m * n, {{n}});                 // [1, n, m*n]: m rows of n
//   AxisSplit(table, a * b * c, {{c, b * c}});      // [1, c, b*c, a*b*c]
//   AxisSplit(table, n * p, {{n, p}});              // none: neither divides the other
//   AxisSplit(table, m * n + 1, {{n}});             // none
//
// Boundaries are ordered by divisibility, not by value: the answer holds at every live shape. Integers are the special
// case in which divisibility is decided by arithmetic.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sym/expr.h"

namespace liveshape::sym {

// From 1 to `extent`, each dividing the next, every one of `boundaries` among them. A boundary of 1 or of the extent
// adds nothing; equal ones are one.
std::optional<std::vector<Expr>> AxisSplit(Table& table, Expr extent,
                                           std::span<const Expr> boundaries);

// e / divisor where it is exact for all values of the symbols, 0 among them (there both are 0).
std::optional<Expr> ExactQuotient(Table& table, Expr e, Expr divisor);

}  // namespace liveshape::sym
