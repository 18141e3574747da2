// Rewrite rules, one a line. Private to sym/.
//
// A rule keeps the value wherever the original has one; it may lose an error (0 * (x//y)), never
// bring a wrong number. Ranges may be used because they only ever narrow.
#pragma once

#include <span>

#include "sym/expr.h"

namespace liveshape::sym {

struct Rule {
  const char* says;
  Expr (*apply)(Table& table, Expr a, Expr b);  // none: does not apply
};

inline Expr FirstOf(std::span<const Rule> rules, Table& table, Expr a, Expr b) {
  for (const Rule& rule : rules) {
    if (Expr e = rule.apply(table, a, b)) return e;
  }
  return {};
}

// Each returns the simplified expression of that kind. Constants were folded before.
Expr MakeFloorDiv(Table& table, Expr a, Expr b);
Expr MakeMod(Table& table, Expr a, Expr b);
Expr MakeCeilDiv(Table& table, Expr a, Expr b);
Expr MakeMinMax(Table& table, Kind kind, std::span<const Expr> args);
Expr MakeSelect(Table& table, Expr condition, Expr if_true, Expr if_false);
Expr MakeRelation(Table& table, Kind kind, Expr a, Expr b);
Expr MakeAndOr(Table& table, Kind kind, std::span<const Expr> args);
Expr MakeNot(Table& table, Expr a);
Expr MakeBits(Table& table, Kind kind, Expr a, Expr b);
Expr MakeFloat(Table& table, Kind kind, std::span<const Expr> args);
Expr MakeRounding(Table& table, Kind kind, Expr a);

Expr ToFloat(Expr e);  // e itself where it is a float
Expr Truth(Expr e);    // e as 0 or 1

}  // namespace liveshape::sym
