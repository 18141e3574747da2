#include "sym/polynomial.h"

#include <algorithm>
#include <numeric>

#include "sym/arith.h"

namespace liveshape::sym {
namespace {

// Expanding a product of sums past this many terms costs more than equality of such products is
// worth.
constexpr uint64_t kMaxTerms = 128;

struct WideTerm {
  Int128 coefficient;
  Expr monomial;
};

bool FitsInt64(Int128 v) {
  return v >= std::numeric_limits<int64_t>::min() && v <= std::numeric_limits<int64_t>::max();
}

// Sorts and merges like terms. False where a coefficient leaves int64.
bool Normalize(std::vector<WideTerm>& terms) {
  std::ranges::sort(terms, [](const WideTerm& a, const WideTerm& b) {
    return CompareMonomials(a.monomial, b.monomial) < 0;
  });
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    WideTerm merged = terms[i++];
    for (; i < terms.size() && terms[i].monomial == merged.monomial; ++i) {
      merged.coefficient += terms[i].coefficient;
    }
    if (merged.coefficient == 0) continue;
    if (!FitsInt64(merged.coefficient)) return false;
    terms[kept++] = merged;
  }
  terms.resize(kept);
  return true;
}

Expr BuildSum(Table& table, const std::vector<WideTerm>& terms) {
  if (terms.empty()) return table.Int(0);
  std::vector<Expr> args;
  args.reserve(terms.size());
  for (const WideTerm& term : terms) {
    args.push_back(MakeTerm(table, static_cast<int64_t>(term.coefficient), term.monomial));
  }
  return args.size() == 1 ? args[0] : table.impl().Intern(Kind::kAdd, args);
}

// A sum whose constants overflow, or a product whose powers do, stays as written, so that evaluating it reports the
// overflow.
Expr KeepUnfolded(Table& table, Kind kind, std::span<const Expr> args) {
  std::vector<Expr> flat;
  for (Expr arg : args) {
    if (arg.kind() == kind)
      flat.insert(flat.end(), arg.args().begin(), arg.args().end());
    else
      flat.push_back(arg);
  }
  std::ranges::sort(flat, [kind](Expr a, Expr b) {
    // Constants first in products, last in sums, as everywhere.
    if (a.is_int() != b.is_int()) return kind == Kind::kMul ? a.is_int() : b.is_int();
    return Compare(a, b) < 0;
  });
  return table.impl().Intern(kind, flat);
}

bool IsPowerOf(Expr e) {
  return e.kind() == Kind::kPow && e.args()[1].is_int() && e.args()[1].value() > 0;
}

// Constants whose product overflows: an atom, so that one form is left whatever it is multiplied with, and evaluating it
// reports the overflow.
bool IsBigConstant(Expr e) {
  return e.kind() == Kind::kMul && std::ranges::all_of(e.args(), [](Expr a) { return a.is_int(); });
}
Expr BigConstant(Table& table, int64_t a, int64_t b) {
  const Expr args[] = {table.Int(std::min(a, b)), table.Int(std::max(a, b))};
  return table.impl().Intern(Kind::kMul, args);
}
bool IsProduct(Expr e) { return e.kind() == Kind::kMul && !IsBigConstant(e); }

// A monomial's factors without a copy.
size_t FactorCount(Expr monomial) { return IsProduct(monomial) ? monomial.args().size() : 1; }
Factor FactorAt(Expr monomial, size_t i) {
  const Expr e = IsProduct(monomial) ? monomial.args()[i] : monomial;
  return IsPowerOf(e) ? Factor{e.args()[0], e.args()[1].value()} : Factor{e, 1};
}

// Adds `e ** power` to `factors`, products and powers taken apart. False where a power overflows.
bool Flatten(Expr e, int64_t power, int64_t& coefficient, std::vector<Factor>& factors) {
  if (e.is_int()) {
    int64_t value;
    if (PowInt(e.value(), power, &value) != Fault::kNone) {
      factors.push_back({e, power});
    } else if (int64_t product; MulInt(coefficient, value, &product) == Fault::kNone) {
      coefficient = product;
    } else {
      factors.push_back({BigConstant(e.table(), coefficient, value), 1});
      coefficient = 1;
    }
    return true;
  }
  if (IsProduct(e)) {
    for (Expr arg : e.args()) {
      if (!Flatten(arg, power, coefficient, factors)) return false;
    }
    return true;
  }
  if (IsPowerOf(e)) {
    if (MulInt(power, e.args()[1].value(), &power) != Fault::kNone) return false;
    e = e.args()[0];
  }
  factors.push_back({e, power});
  return true;
}

// Joins factors of one base. False where a power overflows.
bool MergeFactors(std::vector<Factor>& factors) {
  std::ranges::sort(factors,
                    [](const Factor& a, const Factor& b) { return Compare(a.base, b.base) < 0; });
  size_t kept = 0;
  for (size_t i = 0; i < factors.size();) {
    Factor merged = factors[i++];
    for (; i < factors.size() && factors[i].base == merged.base; ++i) {
      if (AddInt(merged.power, factors[i].power, &merged.power) != Fault::kNone) return false;
    }
    factors[kept++] = merged;
  }
  factors.resize(kept);
  return true;
}

// The product of merged factors, sums among them being atoms.
Expr BuildMonomial(Table& table, std::span<const Factor> factors) {
  std::vector<Expr> args;
  for (const Factor& f : factors) {
    const Expr power_args[] = {f.base, table.Int(f.power)};
    args.push_back(f.power == 1 ? f.base : table.impl().Intern(Kind::kPow, power_args));
  }
  if (args.empty()) return {};
  return args.size() == 1 ? args[0] : table.impl().Intern(Kind::kMul, args);
}

bool SettleFactors(Table& table, std::vector<Factor>& factors);

// False where a power overflows.
bool MultiplyMonomials(Table& table, Expr a, Expr b, Expr* out) {
  if (!a || !b) {
    *out = a ? a : b;
    return true;
  }
  std::vector<Factor> factors = FactorsOf(a), more = FactorsOf(b);
  factors.insert(factors.end(), more.begin(), more.end());
  if (!SettleFactors(table, factors)) return false;
  *out = BuildMonomial(table, factors);
  return true;
}

// Terms of a sum and of the sums that are factors of them, saturating: these multiply too when a power of it is expanded,
// and nested deeply enough they would never end.
uint64_t TermsWithin(Expr sum) {
  uint64_t count = 0;
  for (Expr arg : sum.args()) {
    ++count;
    const Expr monomial = SplitTerm(arg).monomial;
    for (size_t i = 0; monomial && i < FactorCount(monomial); ++i) {
      const Expr base = FactorAt(monomial, i).base;
      if (base.kind() == Kind::kAdd && count <= kMaxTerms) count += TermsWithin(base);
    }
    if (count > kMaxTerms) break;
  }
  return count;
}

// Terms of the fully expanded product, saturating; 0 where there is nothing to expand.
uint64_t ExpandedTerms(std::span<const Factor> factors) {
  uint64_t count = 1;
  bool any = false, only_one = true;
  for (const Factor& f : factors) {
    if (f.base.kind() != Kind::kAdd) continue;
    only_one = !any && f.power == 1;
    any = true;
    const uint64_t terms = TermsWithin(f.base);
    for (int64_t i = 0; i < f.power && count <= kMaxTerms; ++i) count *= terms;
  }
  // One sum times a monomial only rewrites its terms: always worth it.
  return !any ? 0 : only_one ? 1 : count;
}

std::optional<std::vector<WideTerm>> Expand(Table& table, int64_t coefficient,
                                            std::span<const Factor> factors) {
  std::vector<Factor> plain;
  for (const Factor& f : factors) {
    if (f.base.kind() != Kind::kAdd) plain.push_back(f);
  }
  std::vector<WideTerm> product = {{coefficient, BuildMonomial(table, plain)}};
  for (const Factor& f : factors) {
    if (f.base.kind() != Kind::kAdd) continue;
    const std::vector<Term> sum = TermsOf(f.base);
    for (int64_t i = 0; i < f.power; ++i) {
      std::vector<WideTerm> next;
      for (const WideTerm& a : product) {
        for (const Term& b : sum) {
          WideTerm term = {a.coefficient * b.coefficient, {}};
          if (!FitsInt64(term.coefficient)) return std::nullopt;
          if (!MultiplyMonomials(table, a.monomial, b.monomial, &term.monomial))
            return std::nullopt;
          next.push_back(term);
        }
      }
      if (!Normalize(next)) return std::nullopt;
      product = std::move(next);
    }
  }
  return product;
}

// Merges factors and expands each small power of a sum, as it stands where it is a factor by
// itself: a product too long to expand then is the same whether its factors came one by one or as
// powers. False where a power overflows.
bool SettleFactors(Table& table, std::vector<Factor>& factors) {
  for (bool settled = false; !settled;) {
    if (!MergeFactors(factors)) return false;
    settled = true;
    for (Factor& f : factors) {
      if (f.power == 1) continue;
      const uint64_t terms = ExpandedTerms({&f, 1});
      if (terms == 0 || terms > kMaxTerms) continue;
      const auto expanded = Expand(table, 1, {&f, 1});
      if (!expanded || expanded->size() < 2) continue;
      f = {BuildSum(table, *expanded), 1};
      settled = false;  // this sum may be a factor already
    }
  }
  return true;
}

// Null where a power overflows.
Expr BuildProduct(Table& table, int64_t coefficient, std::vector<Factor>& factors) {
  if (!SettleFactors(table, factors)) return {};
  if (coefficient == 0) return table.Int(0);
  if (const uint64_t terms = ExpandedTerms(factors); terms > 0 && terms <= kMaxTerms) {
    if (auto expanded = Expand(table, coefficient, factors)) return BuildSum(table, *expanded);
  }
  return MakeTerm(table, coefficient, BuildMonomial(table, factors));
}

}  // namespace

Term SplitTerm(Expr e) {
  if (e.is_int()) return {e.value(), {}};
  if (e.kind() == Kind::kMul && e.node()->monomial)
    return {e.args()[0].value(), e.node()->monomial};
  return {1, e};
}

std::vector<Term> TermsOf(Expr e) {
  std::vector<Term> terms;
  if (e.kind() == Kind::kAdd) {
    for (Expr arg : e.args()) terms.push_back(SplitTerm(arg));
  } else if (!e.is_int(0)) {
    terms.push_back(SplitTerm(e));
  }
  return terms;
}

std::vector<Factor> FactorsOf(Expr monomial) {
  std::vector<Factor> factors;
  if (!monomial) return factors;
  for (size_t i = 0; i < FactorCount(monomial); ++i) factors.push_back(FactorAt(monomial, i));
  return factors;
}

std::optional<std::vector<Term>> Difference(Expr a, Expr b) {
  std::vector<WideTerm> wide;
  for (const Term& t : TermsOf(a)) wide.push_back({t.coefficient, t.monomial});
  for (const Term& t : TermsOf(b)) wide.push_back({-Int128{t.coefficient}, t.monomial});
  if (!Normalize(wide)) return std::nullopt;
  std::vector<Term> terms;
  for (const WideTerm& t : wide) terms.push_back({static_cast<int64_t>(t.coefficient), t.monomial});
  return terms;
}

int CompareMonomials(Expr a, Expr b) {
  if (a == b) return 0;
  if (!a || !b) return a ? -1 : 1;
  if (a.node()->degree != b.node()->degree) return a.node()->degree > b.node()->degree ? -1 : 1;
  const size_t a_count = FactorCount(a), b_count = FactorCount(b);
  for (size_t i = 0; i < a_count && i < b_count; ++i) {
    const Factor x = FactorAt(a, i), y = FactorAt(b, i);
    if (x.base != y.base) return Compare(x.base, y.base);
    if (x.power != y.power) return x.power > y.power ? -1 : 1;
  }
  if (a_count != b_count) return a_count < b_count ? -1 : 1;
  return Compare(a, b);  // differ in kept-unfolded constants only
}

Expr MakeTerm(Table& table, int64_t coefficient, Expr monomial) {
  if (!monomial) return table.Int(coefficient);
  if (coefficient == 0) return table.Int(0);
  if (coefficient == 1) return monomial;
  std::vector<Expr> args = {table.Int(coefficient)};
  if (IsProduct(monomial)) {
    args.insert(args.end(), monomial.args().begin(), monomial.args().end());
  } else {
    args.push_back(monomial);
  }
  return table.impl().Intern(Kind::kMul, args, 0, monomial);
}

Expr SumOf(Table& table, std::span<const Term> terms) {
  std::vector<Expr> args;
  for (const Term& t : terms) args.push_back(MakeTerm(table, t.coefficient, t.monomial));
  return MakeSum(table, args);
}

Expr MakeSum(Table& table, std::span<const Expr> args) {
  std::vector<WideTerm> terms;
  for (Expr arg : args) {
    for (const Term& t : TermsOf(arg)) terms.push_back({t.coefficient, t.monomial});
  }
  if (!Normalize(terms)) return KeepUnfolded(table, Kind::kAdd, args);
  return BuildSum(table, terms);
}

Expr MakeProduct(Table& table, std::span<const Expr> args) {
  int64_t coefficient = 1;
  std::vector<Factor> factors;
  for (Expr arg : args) {
    if (arg.is_int(0)) return arg;
  }
  for (Expr arg : args) {
    if (!Flatten(arg, 1, coefficient, factors)) return KeepUnfolded(table, Kind::kMul, args);
  }
  const Expr product = BuildProduct(table, coefficient, factors);
  return product ? product : KeepUnfolded(table, Kind::kMul, args);
}

Expr MakePower(Table& table, Expr base, Expr exponent) {
  const Expr args[] = {base, exponent};
  if (!exponent.is_int() || exponent.value() < 0) {
    if (base.is_int(1)) return base;
    return table.impl().Intern(Kind::kPow, args);
  }
  if (exponent.is_int(0)) return table.Int(1);  // 0 ** 0 is 1 in Python too
  int64_t coefficient = 1;
  std::vector<Factor> factors;
  Expr power;
  if (Flatten(base, exponent.value(), coefficient, factors)) {
    power = BuildProduct(table, coefficient, factors);
  }
  return power ? power : table.impl().Intern(Kind::kPow, args);
}

}  // namespace liveshape::sym
