// Relations and logic.
//
// A relation of integers is normalised: everything on one side, divided by the common factor,
// positive terms left, negative ones right, the constant where it reads best: `2*s0 > 2*s1 + 1`
// becomes `s1 + 1 <= s0`. So equal conditions are the same pointer, and `<` remains for floats
// only.
#include <algorithm>

#include "sym/arith.h"
#include "sym/bounds.h"
#include "sym/polynomial.h"
#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

bool EqualityKind(Kind kind) { return kind == Kind::kEq || kind == Kind::kNe; }

// `terms` relates to 0: terms == 0, terms != 0 or terms <= 0. Divides by the common factor of the
// non-constant ones. Returns the truth value where the constant decides it.
std::optional<bool> DivideByContent(Kind kind, std::vector<Term>& terms) {
  uint64_t g = 0;
  for (const Term& t : terms) {
    if (t.monomial) g = Gcd(g, Magnitude(t.coefficient));
  }
  if (g <= 1 || g > INT64_MAX) return std::nullopt;
  const int64_t by = static_cast<int64_t>(g);
  for (Term& t : terms) {
    if (t.monomial) {
      t.coefficient /= by;
    } else if (EqualityKind(kind)) {
      if (t.coefficient % by != 0) return kind == Kind::kNe;
      t.coefficient /= by;
    } else {
      (void)CeilDivInt(t.coefficient, by, &t.coefficient);  // g*x + k <= 0  <=>  x <= floor(-k/g)
    }
  }
  return std::nullopt;
}

bool Negate(std::vector<Term>& terms) {
  for (Term& t : terms) {
    if (t.coefficient == INT64_MIN) return false;
    t.coefficient = -t.coefficient;
  }
  return true;
}

// == 0, == 1 and so on of a truth value is that value or its opposite.
Expr CompareTruth(Kind kind, Expr a, Expr b) {
  if (a.is_int()) std::swap(a, b);
  if (!EqualityKind(kind) || !IsBoolean(a) || a.is_int() || !b.is_int()) return {};
  if (b.is_int(0) || b.is_int(1)) return b.is_int(1) == (kind == Kind::kEq) ? a : Not(a);
  return a.table().Int(kind == Kind::kNe);
}

// Rebuilds `terms <relation> 0` with readable sides.
Expr Rebuild(Table& table, Kind kind, std::vector<Term> terms) {
  // == and != have no direction: the first term is the left one.
  if (EqualityKind(kind) && !terms.empty() && terms[0].coefficient < 0 && !Negate(terms)) return {};
  std::vector<Term> left, right;
  int64_t constant = 0;
  for (Term t : terms) {
    if (!t.monomial) {
      constant = t.coefficient;
      continue;
    }
    if (t.coefficient > 0) {
      left.push_back(t);
    } else {
      if (t.coefficient == INT64_MIN) return {};
      t.coefficient = -t.coefficient;
      right.push_back(t);
    }
  }
  if (constant == INT64_MIN) return {};
  // 5 <= s0 rather than -s0 <= -5.
  if (left.empty())
    left.push_back({constant, {}});
  else
    right.push_back({-constant, {}});
  const Expr args[] = {SumOf(table, left), SumOf(table, right)};
  if (Expr e = CompareTruth(kind, args[0], args[1])) return e;  // 2 * (a == b) == 0
  return table.impl().Intern(kind, args);
}

Expr MakeFloatRelation(Table& table, Kind kind, Expr a, Expr b) {
  if (EqualityKind(kind) && Compare(b, a) < 0) std::swap(a, b);
  if (a.kind() == Kind::kFloat && b.kind() == Kind::kFloat) {
    const double x = a.float_value(), y = b.float_value();
    return table.Int(kind == Kind::kEq   ? x == y
                     : kind == Kind::kNe ? x != y
                     : kind == Kind::kLt ? x < y
                                         : x <= y);
  }
  const Expr args[] = {a, b};
  const Expr e = table.impl().Intern(kind, args);
  const Wide r = RangeOf(e);
  return r.is_point() ? table.Int(static_cast<int64_t>(r.lo)) : e;
}

}  // namespace

Expr Truth(Expr e) { return IsBoolean(e) ? e : Ne(e, e.table().Int(0)); }

Expr MakeRelation(Table& table, Kind kind, Expr a, Expr b) {
  if (a.is_float_valued()) return MakeFloatRelation(table, kind, a, b);
  if (Expr e = CompareTruth(kind, a, b)) return e;
  const Expr as_is[] = {a, b};
  auto terms = Difference(a, b);
  if (!terms) return table.impl().Intern(kind, as_is);
  if (kind == Kind::kLt) {  // a < b  <=>  a - b + 1 <= 0
    kind = Kind::kLe;
    if (terms->empty() || terms->back().monomial) terms->push_back({0, {}});
    if (AddInt(terms->back().coefficient, 1, &terms->back().coefficient) != Fault::kNone) {
      return table.impl().Intern(Kind::kLt, as_is);
    }
    if (terms->back().coefficient == 0) terms->pop_back();
  }
  if (const auto decided = DivideByContent(kind, *terms)) return table.Int(*decided);
  const Wide d = RangeOfSum(table.impl(), *terms);
  if (kind == Kind::kLe) {
    if (d.hi <= 0) return table.Int(1);
    if (d.lo > 0) return table.Int(0);
  } else if (d.ExcludesZero()) {
    return table.Int(kind == Kind::kNe);
  } else if (d.is_point()) {
    return table.Int(kind == Kind::kEq);
  }
  if (Expr e = Rebuild(table, kind, *terms)) return e;
  return table.impl().Intern(kind, as_is);
}

Expr MakeNot(Table& table, Expr a) {
  const auto args = a.args();
  switch (a.kind()) {
    case Kind::kEq: return Ne(args[0], args[1]);
    case Kind::kNe: return Eq(args[0], args[1]);
    case Kind::kLe:
    case Kind::kLt:
      if (args[0].is_float_valued()) break;  // NaN: neither holds
      return a.kind() == Kind::kLe ? Lt(args[1], args[0]) : Le(args[1], args[0]);
    case Kind::kNot: return args[0];
    case Kind::kAnd:
    case Kind::kOr: break;
    default: return Eq(a, table.Int(0));
  }
  return table.impl().Intern(Kind::kNot, {{a}});
}

// Kept in the order given: the first decides before the next is evaluated.
Expr MakeAndOr(Table& table, Kind kind, std::span<const Expr> args) {
  const Tri decides = kind == Kind::kAnd ? Tri::kNo : Tri::kYes;
  std::vector<Expr> kept;
  for (Expr arg : args) {
    const Expr truth = Truth(arg);
    const std::span<const Expr> parts = truth.kind() == kind ? truth.args() : std::span(&truth, 1);
    for (Expr part : parts) {
      const Tri known = table.IsTrue(part);
      if (known == decides) return table.Int(kind == Kind::kOr);
      if (known == Tri::kUnknown && std::ranges::find(kept, part) == kept.end())
        kept.push_back(part);
    }
  }
  if (kept.empty()) return table.Int(kind == Kind::kAnd);
  return kept.size() == 1 ? kept[0] : table.impl().Intern(kind, kept);
}

}  // namespace liveshape::sym
