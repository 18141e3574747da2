// Sums of monomials with integer coefficients: the canonical form. Private to sym/.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "sym/expr.h"
#include "sym/node.h"

namespace liveshape::sym {

using Int128 = __int128;

struct Term {
  int64_t coefficient;
  Expr monomial;  // none: the constant 1
};

// A factor of a monomial with its power.
struct Factor {
  Expr base;
  int64_t power;
};

Term SplitTerm(Expr e);             // e as coefficient * monomial
std::vector<Term> TermsOf(Expr e);  // e as a sum
std::vector<Factor> FactorsOf(Expr monomial);
// a - b as terms, like ones merged; none where a coefficient overflows. Creates no node.
std::optional<std::vector<Term>> Difference(Expr a, Expr b);

// Graded lexicographic: higher degree first, constants last. Negative: `a` comes first.
int CompareMonomials(Expr a, Expr b);

Expr MakeTerm(Table& table, int64_t coefficient, Expr monomial);
Expr SumOf(Table& table, std::span<const Term> terms);

// What Make does for kAdd, kMul and kPow of integers.
Expr MakeSum(Table& table, std::span<const Expr> args);
Expr MakeProduct(Table& table, std::span<const Expr> args);
Expr MakePower(Table& table, Expr base, Expr exponent);

// dividend = quotient * divisor + remainder, where remainder keeps only terms of the dividend, so
// that dividing never makes an expression larger. A zero quotient means that nothing divides.
struct Division { Expr quotient, remainder; };
Division Divide(Table& table, Expr dividend, Expr divisor);

// m / d as monomials; none where d does not divide m. An empty monomial is 1.
bool DivideMonomials(Table& table, Expr m, Expr d, Expr* quotient);

// An integer that divides every value of `e`: gcd of coefficients, seen through Min, Max and
// Select. 0 for the constant 0.
uint64_t KnownDivisor(Expr e);

uint64_t Gcd(uint64_t a, uint64_t b);
inline uint64_t Magnitude(int64_t v) {
  return v < 0 ? 0 - static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
}

}  // namespace liveshape::sym
