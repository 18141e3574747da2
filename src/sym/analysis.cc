#include "sym/analysis.h"

#include <algorithm>
#include <cmath>

namespace liveshape::sym {
namespace {

constexpr Wide kFalse = {0, 0}, kTrue = {1, 1}, kEither = {0, 1};

// e(s + 1) - e(s) when all that is known is e's range.
Wide Spread(Wide r) { return r - r; }

}  // namespace

Wide DecideRelation(Kind relation, Wide d) {
  switch (relation) {
    case Kind::kLt: return d.lo > 0 ? kTrue : d.hi <= 0 ? kFalse : kEither;
    case Kind::kLe: return d.lo >= 0 ? kTrue : d.hi < 0 ? kFalse : kEither;
    case Kind::kEq: return d.ExcludesZero() ? kFalse : d.is_point() ? kTrue : kEither;
    default: return d.ExcludesZero() ? kTrue : d.is_point() ? kFalse : kEither;
  }
}

Wide Analysis::Relation(const Node& node) const {
  if (node.args[0].is_float_valued()) return FloatRelation(node);
  const auto terms = Difference(node.args[1], node.args[0]);
  return terms ? DecideRelation(node.kind, Sum(*terms)) : kEither;
}

Wide Analysis::FloatRelation(const Node& node) const {
  const FloatRange a = FloatOf(node.args[0]), b = FloatOf(node.args[1]);
  // An infinite end may hide a NaN, for which every relation but != is false.
  for (double end : {a.lo, a.hi, b.lo, b.hi}) {
    if (!std::isfinite(end)) return kEither;
  }
  switch (node.kind) {
    case Kind::kLt: return a.hi < b.lo ? kTrue : a.lo >= b.hi ? kFalse : kEither;
    case Kind::kLe: return a.hi <= b.lo ? kTrue : a.lo > b.hi ? kFalse : kEither;
    case Kind::kEq: return a.hi < b.lo || b.hi < a.lo ? kFalse : kEither;
    default: return a.hi < b.lo || b.hi < a.lo ? kTrue : kEither;
  }
}

Wide Analysis::Logic(const Node& node) const {
  bool all = true, any = false, none = true, some_false = false;
  for (Expr arg : node.args) {
    const Wide r = Of(arg);
    const bool is_true = r.ExcludesZero(), is_false = r.lo == 0 && r.hi == 0;
    all &= is_true;
    any |= is_true;
    none &= is_false;
    some_false |= is_false;
  }
  switch (node.kind) {
    case Kind::kAnd: return all ? kTrue : some_false ? kFalse : kEither;
    case Kind::kOr: return any ? kTrue : none ? kFalse : kEither;
    default: return all ? kFalse : none ? kTrue : kEither;  // kNot
  }
}

Wide Analysis::Sum(std::span<const Term> terms) const {
  Wide sum = Wide::Point(0);
  for (const Term& t : terms) {
    const Wide monomial = t.monomial ? Of(t.monomial) : Wide::Point(1);
    sum = sum + Wide::Point(t.coefficient) * monomial;
  }
  return sum;
}

Wide Analysis::Compute(const Node& node) const {
  const auto fold = [&](Wide (*op)(Wide, Wide)) {
    Wide r = Of(node.args[0]);
    for (size_t i = 1; i < node.args.size(); ++i) r = op(r, Of(node.args[i]));
    return r;
  };
  switch (node.kind) {
    case Kind::kInt: return Wide::Point(node.bits);
    case Kind::kSymbol: return SymbolRange(static_cast<uint32_t>(node.bits));
    case Kind::kAdd: return fold([](Wide a, Wide b) { return a + b; });
    case Kind::kMul: return fold([](Wide a, Wide b) { return a * b; });
    case Kind::kPow:
      if (node.args[1].is_int()) return PowRange(Of(node.args[0]), node.args[1].value());
      return PowRange(Of(node.args[0]), Of(node.args[1]));
    case Kind::kFloorDiv: return fold(FloorDivRange);
    case Kind::kCeilDiv: return fold(CeilDivRange);
    case Kind::kMod: return fold(ModRange);
    case Kind::kMin: return fold(MinRange);
    case Kind::kMax: return fold(MaxRange);
    case Kind::kSelect: {
      const Wide condition = Of(node.args[0]);
      if (condition.ExcludesZero()) return Of(node.args[1]);
      if (condition.is_point()) return Of(node.args[2]);
      return Hull(Of(node.args[1]), Of(node.args[2]));
    }
    case Kind::kEq:
    case Kind::kNe:
    case Kind::kLt:
    case Kind::kLe: return Relation(node);
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kNot: return Logic(node);
    case Kind::kBitAnd: return fold(BitAndRange);
    case Kind::kBitOr: return fold(BitOrRange);
    case Kind::kShiftLeft: return fold(ShiftLeftRange);
    case Kind::kShiftRight: return fold(ShiftRightRange);
    case Kind::kTruncToInt:
    case Kind::kFloorToInt:
    case Kind::kCeilToInt:
    case Kind::kRoundToInt: return FloatToIntRange(node.kind, FloatOf(node.args[0]));
    default: return {};
  }
}

FloatRange Analysis::ComputeFloat(const Node& node) const {
  switch (node.kind) {
    case Kind::kFloat: {
      const double v = std::bit_cast<double>(node.bits);
      return {v, v};
    }
    case Kind::kToFloat: return ToFloatRange(Of(node.args[0]));
    case Kind::kIntTrueDiv: return TrueDivRange(Of(node.args[0]), Of(node.args[1]));
    case Kind::kFloatSqrt: return SqrtRange(FloatOf(node.args[0]));
    case Kind::kSelect: {
      const FloatRange a = FloatOf(node.args[1]), b = FloatOf(node.args[2]);
      return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
    }
    default: return FloatBinaryRange(node.kind, FloatOf(node.args[0]), FloatOf(node.args[1]));
  }
}

Wide Analysis::SumIncrement(std::span<const Term> terms, uint32_t symbol) const {
  Wide sum = Wide::Point(0);
  for (const Term& t : terms) {
    if (t.monomial) sum = sum + Wide::Point(t.coefficient) * Increment(t.monomial, symbol);
  }
  return sum;
}

Wide Analysis::DivisionIncrement(const Node& node, uint32_t symbol) const {
  const Wide any = Spread(Compute(node));
  const Wide a = Of(node.args[0]), b = Of(node.args[1]);
  const Wide da = Increment(node.args[0], symbol), db = Increment(node.args[1], symbol);
  if (b.lo <= 0) return any;
  if (db.is_point() && db.lo == 0) {
    // floor((x + d)/b) - floor(x/b) lies in [floor(d/b), ceil(d/b)].
    return {FloorDivRange(da, b).lo, CeilDivRange(da, b).hi};
  }
  if (!(da.is_point() && da.lo == 0)) return any;
  // A growing divisor brings the quotient towards zero, or towards -1 from below.
  const bool falls = (a.lo >= 0 && db.lo >= 0) || (a.hi <= 0 && db.hi <= 0);
  const bool rises = (a.lo >= 0 && db.hi <= 0) || (a.hi <= 0 && db.lo >= 0);
  return falls ? Wide{any.lo, 0} : rises ? Wide{0, any.hi} : any;
}

Wide Analysis::Increment(Expr e, uint32_t symbol) const {
  const Node& node = *e.node();
  if (!(node.symbol_mask & (uint64_t{1} << (symbol % 64)))) return Wide::Point(0);
  switch (node.kind) {
    case Kind::kSymbol: return Wide::Point(node.bits == symbol ? 1 : 0);
    case Kind::kAdd: {
      Wide sum = Wide::Point(0);
      for (Expr arg : node.args) sum = sum + Increment(arg, symbol);
      return sum;
    }
    case Kind::kMul: {
      // d(f g) = df g(s+1) + f(s) dg
      Wide product = Of(node.args[0]), increment = Increment(node.args[0], symbol);
      for (Expr arg : node.args.size() > 1 ? e.args().subspan(1) : e.args().first(0)) {
        const Wide g = Of(arg);
        increment = increment * g + product * Increment(arg, symbol);
        product = product * g;
      }
      return increment;
    }
    case Kind::kMin:
    case Kind::kMax: {
      Wide hull = Increment(node.args[0], symbol);
      for (Expr arg : node.args) hull = Hull(hull, Increment(arg, symbol));
      return hull;
    }
    case Kind::kFloorDiv: return DivisionIncrement(node, symbol);
    case Kind::kPow: {
      const Wide base = Of(node.args[0]);
      if (!node.args[1].is_int() || node.args[1].value() < 0 || base.lo < 0) break;
      const int64_t power = node.args[1].value();
      if (node.args[0].is_symbol() && base.finite() && base.lo < base.hi) {
        // (s+1)^k - s^k grows with s; s itself stops one short of its end.
        const Wide lo = {base.lo, base.lo}, hi = {base.hi, base.hi}, one = Wide::Point(1);
        return {(PowRange(lo + one, power) - PowRange(lo, power)).lo,
                (PowRange(hi, power) - PowRange(hi - one, power)).hi};
      }
      const Wide d = Increment(node.args[0], symbol), r = Compute(node);
      if (d.lo >= 0) return {0, Spread(r).hi};
      if (d.hi <= 0) return {Spread(r).lo, 0};
      break;
    }
    default: break;
  }
  return Spread(Compute(node));
}

}  // namespace liveshape::sym
