// Rules of //, ceildiv and %.
#include <algorithm>

#include "sym/arith.h"
#include "sym/bounds.h"
#include "sym/polynomial.h"
#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

bool Positive(Expr e) { return RangeOf(e).lo > 0; }

bool PositiveInt(Expr e) { return e.is_int() && e.value() > 0; }

// 0 <= a < b for all symbol values.
bool IsRemainderOf(Expr a, Expr b) {
  if (a.kind() == Kind::kMod && a.args()[1] == b && Positive(b)) return true;
  return RangeOf(a).lo >= 0 && RangeOfDifference(b, a).lo > 0;
}

int64_t Floor(int64_t a, int64_t b) {  // b > 0
  int64_t q = 0;
  (void)FloorDivInt(a, b, &q);
  return q;
}

int64_t Remainder(int64_t a, int64_t b) {  // b > 0
  int64_t r = 0;
  (void)ModInt(a, b, &r);
  return r;
}

// a as x*g + constant, where g > 1 divides the other coefficients and c; none where there is no
// such g.
struct Content {
  int64_t g;
  Expr x;
  int64_t constant;
};
std::optional<Content> CommonContent(Table& table, Expr a, int64_t c) {
  uint64_t g = Magnitude(c);
  int64_t constant = 0;
  std::vector<Term> terms = TermsOf(a);
  for (const Term& t : terms) {
    if (t.monomial) g = Gcd(g, Magnitude(t.coefficient));
    // A sum kept unfolded has several constants.
    else if (AddInt(constant, t.coefficient, &constant) != Fault::kNone)
      return std::nullopt;
  }
  if (g <= 1 || g > INT64_MAX) return std::nullopt;
  std::erase_if(terms, [](const Term& t) { return !t.monomial; });
  if (terms.empty()) return std::nullopt;
  for (Term& t : terms) t.coefficient /= static_cast<int64_t>(g);
  return Content{static_cast<int64_t>(g), SumOf(table, terms), constant};
}

// The largest monomial (with its integer) that divides all terms of both, if it is not 1 and never
// 0.
Expr CommonFactor(Table& table, Expr a, Expr b) {
  std::vector<Factor> common;
  uint64_t content = 0;
  bool first = true;
  for (Expr e : {a, b}) {
    for (const Term& t : TermsOf(e)) {
      content = Gcd(content, Magnitude(t.coefficient));
      const std::vector<Factor> factors = FactorsOf(t.monomial);
      if (first) common = factors;
      first = false;
      for (Factor& c : common) {
        auto it = std::ranges::find_if(factors, [&](const Factor& f) { return f.base == c.base; });
        c.power = it == factors.end() ? 0 : std::min(c.power, it->power);
      }
    }
  }
  std::vector<Expr> product = {table.Int(content > INT64_MAX ? 1 : static_cast<int64_t>(content))};
  for (const Factor& c : common) {
    if (c.power > 0 && ExcludesZero(c.base)) product.push_back(Pow(c.base, c.power));
  }
  const Expr factor = Product(table, product);
  return factor.is_int(1) || factor.is_int(0) ? Expr() : factor;
}

struct Cancelled { Expr factor, a, b; };
std::optional<Cancelled> Cancel(Table& table, Expr a, Expr b) {
  const Expr factor = CommonFactor(table, a, b);
  if (!factor) return std::nullopt;
  const Division x = Divide(table, a, factor), y = Divide(table, b, factor);
  if (!x.remainder.is_int(0) || !y.remainder.is_int(0)) return std::nullopt;
  return Cancelled{factor, x.quotient, y.quotient};
}

// Splits a = divisible + rest for a constant c > 0, the constant term of rest in [0, c).
struct Split { Expr quotient, rest; };
Split SplitByConstant(Table& table, Expr a, int64_t c) {
  std::vector<Term> quotient, rest;
  for (const Term& t : TermsOf(a)) {
    if (!t.monomial) {
      quotient.push_back({Floor(t.coefficient, c), {}});
      rest.push_back({Remainder(t.coefficient, c), {}});
    } else if (t.coefficient % c == 0) {
      quotient.push_back({t.coefficient / c, t.monomial});
    } else {
      rest.push_back(t);
    }
  }
  return {SumOf(table, quotient), SumOf(table, rest)};
}

// A sum with exactly one term x//d, coefficient 1, d a positive constant: x//d and what is beside
// it.
struct Nested {
  Expr x;
  int64_t d;
  Expr beside;
};
std::optional<Nested> NestedFloorDiv(Table& table, Expr a) {
  std::optional<Nested> found;
  std::vector<Term> beside;
  for (const Term& t : TermsOf(a)) {
    if (t.monomial && t.coefficient == 1 && t.monomial.kind() == Kind::kFloorDiv && !found &&
        PositiveInt(t.monomial.args()[1])) {
      found = Nested{t.monomial.args()[0], t.monomial.args()[1].value(), {}};
    } else {
      beside.push_back(t);
    }
  }
  if (found) found->beside = SumOf(table, beside);
  return found;
}

// Min(4*a, 8)//4 = Min(a, 2): a monotone function passes through, done where it leaves no floor
// behind.
Expr DivideEachArg(Table& table, Expr a, Expr b) {
  if ((a.kind() != Kind::kMin && a.kind() != Kind::kMax) || !PositiveInt(b)) return {};
  std::vector<Expr> args;
  for (Expr arg : a.args()) {
    if (KnownDivisor(arg) % Magnitude(b.value()) != 0) return {};
    args.push_back(FloorDiv(arg, b));
  }
  return table.Make(a.kind(), args);
}

using T = Table&;

// clang-format off
const Rule kFloorDivRules[] = {
    {"a // 1 = a", [](T, Expr a, Expr b) { return b.is_int(1) ? a : Expr(); }},
    {"a // -1 = -a", [](T, Expr a, Expr b) { return b.is_int(-1) ? -a : Expr(); }},
    {"a // -c = -a // c", [](T t, Expr a, Expr b) {
       return b.is_int() && b.value() < 0 && b.value() > INT64_MIN ? FloorDiv(-a, t.Int(-b.value())) : Expr();
     }},
    {"0 // b = 0", [](T, Expr a, Expr b) { return a.is_int(0) && ExcludesZero(b) ? a : Expr(); }},
    {"(c*q + r) // c = q + r//c", [](T t, Expr a, Expr b) {
       if (!PositiveInt(b)) return Expr();
       const Split s = SplitByConstant(t, a, b.value());
       return s.quotient.is_int(0) ? Expr() : s.quotient + FloorDiv(s.rest, b);
     }},
    {"(b*q + r) // b = q + r//b", [](T t, Expr a, Expr b) {
       if (b.is_int()) return Expr();
       const Division d = Divide(t, a, b);
       if (d.quotient.is_int(0) || (d.remainder.is_int(0) && !ExcludesZero(b))) return Expr();
       return d.quotient + FloorDiv(d.remainder, b);
     }},
    {"(g*x + k) // (g*m) = (x + k//g) // m", [](T t, Expr a, Expr b) {
       if (!PositiveInt(b)) return Expr();
       const auto c = CommonContent(t, a, b.value());
       return c ? FloorDiv(c->x + Floor(c->constant, c->g), t.Int(b.value() / c->g)) : Expr();
     }},
    {"(g*x) // (g*y) = x // y", [](T t, Expr a, Expr b) {
       if (a.is_int(0) || b.is_int()) return Expr();
       const auto c = Cancel(t, a, b);
       return c ? FloorDiv(c->a, c->b) : Expr();
     }},
    {"(x//d + n) // c = (x + n*d) // (c*d)", [](T t, Expr a, Expr b) {
       int64_t product;
       if (!PositiveInt(b)) return Expr();
       const auto n = NestedFloorDiv(t, a);
       if (!n || MulInt(n->d, b.value(), &product) != Fault::kNone) return Expr();
       return FloorDiv(n->x + n->beside * n->d, t.Int(product));
     }},
    {"(x//y) // b = x // (y*b), b > 0", [](T, Expr a, Expr b) {
       return a.kind() == Kind::kFloorDiv && Positive(b) ? FloorDiv(a.args()[0], a.args()[1] * b) : Expr();
     }},
    {"r // b = 0, 0 <= r < b", [](T t, Expr a, Expr b) { return IsRemainderOf(a, b) ? t.Int(0) : Expr(); }},
    {"r // b = -1, -b <= r < 0", [](T t, Expr a, Expr b) {
       return RangeOf(a).hi < 0 && RangeOfDifference(a, -b).lo >= 0 ? t.Int(-1) : Expr();
     }},
    {"a // c = k, a within one period", [](T t, Expr a, Expr b) {
       const Wide q = FloorDivRange(RangeOf(a), RangeOf(b));
       return ExcludesZero(b) && q.is_point() ? t.Int(static_cast<int64_t>(q.lo)) : Expr();
     }},
    {"Min(c*x, c*y) // c = Min(x, y)", DivideEachArg},
};
// clang-format on

// clang-format off
const Rule kModRules[] = {
    {"a % 1 = 0", [](T t, Expr, Expr b) { return b.is_int(1) || b.is_int(-1) ? t.Int(0) : Expr(); }},
    {"a % -c = -(-a % c)", [](T t, Expr a, Expr b) {
       return b.is_int() && b.value() < 0 && b.value() > INT64_MIN ? -Mod(-a, t.Int(-b.value())) : Expr();
     }},
    {"0 % b = 0", [](T, Expr a, Expr b) { return a.is_int(0) && ExcludesZero(b) ? a : Expr(); }},
    {"(c*q + r) % c = r % c", [](T t, Expr a, Expr b) {
       if (!PositiveInt(b)) return Expr();
       const int64_t c = b.value();
       std::vector<Term> rest;
       bool changed = false;
       for (Term term : TermsOf(a)) {
         const Term before = term;
         const uint64_t divisor = term.monomial ? KnownDivisor(term.monomial) : 1;
         uint64_t known;
         if (__builtin_mul_overflow(Magnitude(term.coefficient), divisor, &known)) known = 0;
         if (known != 0 && known % Magnitude(c) == 0) term.coefficient = 0;
         else if (term.monomial) term.coefficient %= c;
         else term.coefficient = Remainder(term.coefficient, c);
         changed |= term.coefficient != before.coefficient;
         rest.push_back(term);
       }
       return changed ? Mod(SumOf(t, rest), b) : Expr();
     }},
    {"(b*q + r) % b = r % b", [](T t, Expr a, Expr b) {
       if (b.is_int()) return Expr();
       const Division d = Divide(t, a, b);
       if (d.quotient.is_int(0) || (d.remainder.is_int(0) && !ExcludesZero(b))) return Expr();
       return Mod(d.remainder, b);
     }},
    {"r % b = r, 0 <= r < b", [](T, Expr a, Expr b) { return IsRemainderOf(a, b) ? a : Expr(); }},
    {"a % c = a - k*c, a within one period", [](T t, Expr a, Expr b) {
       if (!PositiveInt(b)) return Expr();
       const Wide q = FloorDivRange(RangeOf(a), RangeOf(b));
       if (!q.is_point()) return Expr();
       return a - t.Int(static_cast<int64_t>(q.lo)) * b;
     }},
    {"(g*x + g*j + r) % (g*m) = g*((x + j) % m) + r", [](T t, Expr a, Expr b) {
       if (!PositiveInt(b)) return Expr();
       const auto c = CommonContent(t, a, b.value());
       if (!c) return Expr();
       const Expr x = c->x + Floor(c->constant, c->g);
       return Mod(x, t.Int(b.value() / c->g)) * c->g + Remainder(c->constant, c->g);
     }},
    {"(g*x) % (g*y) = g*(x % y)", [](T t, Expr a, Expr b) {
       if (a.is_int(0) || b.is_int()) return Expr();
       const auto c = Cancel(t, a, b);
       return c ? c->factor * Mod(c->a, c->b) : Expr();
     }},
    {"(k*(x % m) + y) % n = (k*x + y) % n, n | k*m", [](T t, Expr a, Expr b) {
       if (!PositiveInt(b)) return Expr();
       std::vector<Term> terms = TermsOf(a);
       for (size_t i = 0; i < terms.size(); ++i) {
         const Term term = terms[i];
         if (!term.monomial || term.monomial.kind() != Kind::kMod) continue;
         const Expr x = term.monomial.args()[0], m = term.monomial.args()[1];
         int64_t km;
         if (!PositiveInt(m) || MulInt(term.coefficient, m.value(), &km) != Fault::kNone || km % b.value() != 0) continue;
         terms.erase(terms.begin() + i);
         return Mod(SumOf(t, terms) + x * term.coefficient, b);
       }
       return Expr();
     }},
};
// clang-format on

}  // namespace

Expr MakeFloorDiv(Table& table, Expr a, Expr b) {
  if (Expr e = FirstOf(kFloorDivRules, table, a, b)) return e;
  const Expr args[] = {a, b};
  return table.impl().Intern(Kind::kFloorDiv, args);
}

Expr MakeMod(Table& table, Expr a, Expr b) {
  if (Expr e = FirstOf(kModRules, table, a, b)) return e;
  const Expr args[] = {a, b};
  return table.impl().Intern(Kind::kMod, args);
}

Expr MakeCeilDiv(Table& table, Expr a, Expr b) {
  if (Positive(b)) return FloorDiv(a + b - 1, b);
  if (RangeOf(b).hi < 0) return CeilDiv(-a, -b);
  const Expr args[] = {a, b};
  return table.impl().Intern(Kind::kCeilDiv, args);
}

}  // namespace liveshape::sym
