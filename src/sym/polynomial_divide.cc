// Exact division of polynomials and the divisors that every value of an expression has.
#include <algorithm>

#include "sym/arith.h"
#include "sym/polynomial.h"

namespace liveshape::sym {
namespace {

constexpr size_t kMaxDivisionSteps = 64;
constexpr int kMaxDivisorDepth = 16;

bool DivideTerm(Table& table, const Term& a, const Term& b, Term* quotient) {
  if (b.coefficient == -1 && a.coefficient == INT64_MIN)
    return false;  // the quotient that int64 lacks
  if (a.coefficient % b.coefficient != 0) return false;
  quotient->coefficient = a.coefficient / b.coefficient;
  return DivideMonomials(table, a.monomial, b.monomial, &quotient->monomial);
}

Division DivideByTerm(Table& table, const std::vector<Term>& terms, const Term& divisor) {
  std::vector<Term> quotient, remainder;
  for (const Term& t : terms) {
    Term q;
    if (DivideTerm(table, t, divisor, &q))
      quotient.push_back(q);
    else
      remainder.push_back(t);
  }
  return {SumOf(table, quotient), SumOf(table, remainder)};
}

bool IsSubset(const std::vector<Term>& part, const std::vector<Term>& whole) {
  return std::ranges::all_of(part, [&](const Term& p) {
    return std::ranges::any_of(whole, [&](const Term& w) {
      return p.coefficient == w.coefficient && p.monomial == w.monomial;
    });
  });
}

uint64_t DivisorOf(Expr e, int depth);

uint64_t DivisorOfMonomial(Expr monomial, int depth) {
  uint64_t product = 1;
  if (!monomial) return 1;
  for (const Factor& f : FactorsOf(monomial)) {
    const uint64_t d = DivisorOf(f.base, depth);
    uint64_t next;
    if (d != 0 && !__builtin_mul_overflow(product, d, &next)) product = next;
  }
  return product;
}

uint64_t DivisorOf(Expr e, int depth) {
  if (depth == 0) return 1;
  uint64_t divisor = 0;
  switch (e.kind()) {
    case Kind::kInt: return Magnitude(e.value());
    case Kind::kAdd:
    case Kind::kMul:
      for (const Term& t : TermsOf(e)) {
        if (t.monomial == e) return 1;  // kept unfolded
        const uint64_t m = DivisorOfMonomial(t.monomial, depth - 1);
        uint64_t d;
        if (__builtin_mul_overflow(Magnitude(t.coefficient), m, &d)) d = Magnitude(t.coefficient);
        divisor = Gcd(divisor, d);
      }
      return divisor;
    case Kind::kMin:
    case Kind::kMax:
    case Kind::kMod:
    case Kind::kSelect:
      for (Expr arg : e.args().subspan(e.kind() == Kind::kSelect ? 1 : 0)) {
        divisor = Gcd(divisor, DivisorOf(arg, depth - 1));
      }
      return divisor;
    default: return 1;
  }
}

}  // namespace

uint64_t Gcd(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

uint64_t KnownDivisor(Expr e) { return e.is_float_valued() ? 1 : DivisorOf(e, kMaxDivisorDepth); }

bool DivideMonomials(Table& table, Expr m, Expr d, Expr* quotient) {
  *quotient = m;
  if (!d) return true;
  if (!m) return false;
  std::vector<Factor> factors = FactorsOf(m);
  for (const Factor& divisor : FactorsOf(d)) {
    auto it =
        std::ranges::find_if(factors, [&](const Factor& f) { return f.base == divisor.base; });
    if (it == factors.end() || it->power < divisor.power) return false;
    it->power -= divisor.power;
    if (it->power == 0) factors.erase(it);
  }
  *quotient = {};
  if (factors.empty()) return true;
  std::vector<Expr> powers;
  for (const Factor& f : factors) {
    const Expr args[] = {f.base, table.Int(f.power)};
    powers.push_back(f.power == 1 ? f.base : table.impl().Intern(Kind::kPow, args));
  }
  *quotient = powers.size() == 1 ? powers[0] : table.impl().Intern(Kind::kMul, powers);
  return true;
}

Division Divide(Table& table, Expr dividend, Expr divisor) {
  const Expr zero = table.Int(0);
  const std::vector<Term> terms = TermsOf(dividend), by = TermsOf(divisor);
  if (by.empty()) return {zero, dividend};
  if (by.size() == 1) return DivideByTerm(table, terms, by[0]);
  // A product with a sum of two terms or more has two terms or more.
  if (terms.size() < 2 || terms.size() > kMaxDivisionSteps) return {zero, dividend};

  Expr work = dividend, quotient = zero, remainder = zero;
  for (size_t step = 0; !work.is_int(0); ++step) {
    if (step == kMaxDivisionSteps) return {zero, dividend};
    const Term lead = TermsOf(work)[0];
    Term q;
    if (DivideTerm(table, lead, by[0], &q)) {
      const Expr q_expr = MakeTerm(table, q.coefficient, q.monomial);
      quotient = quotient + q_expr;
      work = work - q_expr * divisor;
    } else {
      const Expr kept = MakeTerm(table, lead.coefficient, lead.monomial);
      remainder = remainder + kept;
      work = work - kept;
    }
  }
  if (!IsSubset(TermsOf(remainder), terms)) return {zero, dividend};
  return {quotient, remainder};
}

}  // namespace liveshape::sym
