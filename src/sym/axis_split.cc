#include "sym/axis_split.h"

#include "sym/polynomial.h"

namespace liveshape::sym {

std::optional<Expr> ExactQuotient(Table& table, Expr e, Expr divisor) {
  if (divisor.is_int(1)) return e;
  if (divisor.is_int(0)) return std::nullopt;
  // As polynomials, which asks nothing of the divisor's range; else by what is known of the values.
  const Division division = Divide(table, e, divisor);
  if (division.remainder.is_int(0)) return division.quotient;
  return table.Quotient(e, divisor);
}

std::optional<std::vector<Expr>> AxisSplit(Table& table, Expr extent,
                                           std::span<const Expr> boundaries) {
  const auto divides = [&](Expr a, Expr b) { return ExactQuotient(table, b, a).has_value(); };
  std::vector<Expr> chain = {table.Int(1)};
  if (!extent.is_int(1)) chain.push_back(extent);
  for (Expr boundary : boundaries) {
    size_t at = 0;
    while (at < chain.size() && boundary != chain[at] && divides(chain[at], boundary)) ++at;
    if (at < chain.size() && boundary == chain[at]) continue;
    // Everything before divides it; it must divide the next, and so all that follow.
    if (at == chain.size() || !divides(boundary, chain[at])) return std::nullopt;
    chain.insert(chain.begin() + static_cast<int64_t>(at), boundary);
  }
  return chain;
}

}  // namespace liveshape::sym
