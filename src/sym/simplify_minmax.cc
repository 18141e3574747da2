// Rules of min, max and select.
#include <algorithm>

#include "sym/bounds.h"
#include "sym/polynomial.h"
#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

// Comparing all pairs of a longer list is not worth it.
constexpr size_t kMaxCompared = 16;

// Whether `winner` is chosen over `loser` for all symbol values.
bool Wins(Kind kind, Expr winner, Expr loser) {
  const Wide d = RangeOfDifference(winner, loser);
  return kind == Kind::kMin ? d.hi <= 0 : d.lo >= 0;
}

// Min(a, Max(a, b)) = a
bool Absorbs(Kind kind, Expr a, Expr other) {
  const Kind dual = kind == Kind::kMin ? Kind::kMax : Kind::kMin;
  return other.kind() == dual && std::ranges::find(other.args(), a) != other.args().end();
}

}  // namespace

Expr MakeMinMax(Table& table, Kind kind, std::span<const Expr> args) {
  LS_CHECK(!args.empty());
  std::vector<Expr> flat;
  for (Expr arg : args) {
    if (arg.kind() == kind)
      flat.insert(flat.end(), arg.args().begin(), arg.args().end());
    else
      flat.push_back(arg);
  }
  std::ranges::sort(flat, [](Expr a, Expr b) {
    if (a.is_int() != b.is_int()) return b.is_int();  // Min(s0, 64)
    return Compare(a, b) < 0;
  });
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.size() <= kMaxCompared) {
    for (size_t i = 0; i < flat.size(); ++i) {
      const Expr winner = flat[i];
      std::erase_if(flat, [&](Expr loser) {
        return loser != winner && (Wins(kind, winner, loser) || Absorbs(kind, winner, loser));
      });
      i = static_cast<size_t>(std::ranges::find(flat, winner) - flat.begin());
    }
  }
  return flat.size() == 1 ? flat[0] : table.impl().Intern(kind, flat);
}

Expr MakeSelect(Table& table, Expr condition, Expr if_true, Expr if_false) {
  if (if_true == if_false) return if_true;
  switch (table.IsTrue(condition)) {
    case Tri::kYes: return if_true;
    case Tri::kNo: return if_false;
    case Tri::kUnknown: break;
  }
  condition = Truth(condition);
  if (condition.kind() == Kind::kNot)
    return MakeSelect(table, condition.args()[0], if_false, if_true);
  if (if_true.is_int(1) && if_false.is_int(0)) return condition;
  const Expr args[] = {condition, if_true, if_false};
  return table.impl().Intern(Kind::kSelect, args);
}

}  // namespace liveshape::sym
