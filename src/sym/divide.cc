// Divisibility, three-valued: the rules of % do the work, its range gives the "no".
#include "sym/bounds.h"
#include "sym/expr.h"

namespace liveshape::sym {

Tri Table::Divides(Expr divisor, Expr e) {
  LS_CHECK(!divisor.is_float_valued() && !e.is_float_valued());
  if (!ExcludesZero(divisor)) return Tri::kUnknown;  // at 0 there is no answer
  const Expr remainder = Mod(e, divisor);
  if (remainder.is_int(0)) return Tri::kYes;
  const Interval r = Bounds(remainder);
  if (r.lo == 0 && r.hi == 0) return Tri::kYes;
  return r.Contains(0) ? Tri::kUnknown : Tri::kNo;
}

std::optional<Expr> Table::Quotient(Expr e, Expr divisor) {
  if (Divides(divisor, e) != Tri::kYes) return std::nullopt;
  return FloorDiv(e, divisor);
}

}  // namespace liveshape::sym
