// Interval analysis, tightened by monotonicity.
//
// Intervals alone lose correlation: s - s//2 over [0, 8] would be [-4, 8]. So where a symbol occurs
// twice, the *increment* e(s+1) - e(s) is bounded too. Where its sign is known, e is monotone in s,
// and its extreme lies at an end of s's range: s is fixed there, which may settle the sign for
// other symbols. With all symbols fixed the interval is the exact, attained value.
#include "sym/bounds.h"

#include <algorithm>

#include "sym/analysis.h"

namespace liveshape::sym {
namespace {

// Beyond these the plain interval is kept: sound, and the cost of tightening stays in the
// microseconds.
constexpr uint32_t kMaxTreeSize = 512;
constexpr uint32_t kMaxDepth = 64;

// The end `upper` or lower of the sum, by fixing the symbols in which it is monotone.
Wide::Int Extreme(const Table::Impl& impl, std::span<const Term> terms,
                  std::span<const uint32_t> symbols, bool upper) {
  Env env;
  for (bool progress = true; progress;) {
    progress = false;
    for (uint32_t symbol : symbols) {
      if (env.Find(symbol)) continue;
      const Analysis analysis(impl, env);
      const Wide range = analysis.SymbolRange(symbol);
      const Wide d = analysis.SumIncrement(terms, symbol);
      if (d.lo < 0 && d.hi > 0 && range.lo != range.hi) continue;
      const bool at_high = (d.lo >= 0) == upper;
      if (at_high ? !range.finite_above() : !range.finite_below()) continue;
      env.Fix(symbol, at_high ? range.hi : range.lo);
      progress = true;
    }
  }
  const Wide r = Analysis(impl, env).Sum(terms);
  return upper ? r.hi : r.lo;
}

bool CollectSymbols(Expr e, std::vector<uint32_t>& symbols) {
  if (e.is_symbol()) {
    if (std::ranges::find(symbols, e.symbol()) == symbols.end()) symbols.push_back(e.symbol());
    return symbols.size() <= kMaxFixedSymbols;
  }
  if (e.node()->symbol_mask == 0) return true;
  return std::ranges::all_of(e.args(), [&](Expr arg) { return CollectSymbols(arg, symbols); });
}

bool WorthTightening(std::span<const Term> terms) {
  uint64_t mask = 0;
  uint32_t size = 0;
  bool shares = false;
  for (const Term& t : terms) {
    if (!t.monomial) continue;
    const Node& node = *t.monomial.node();
    if (node.depth > kMaxDepth || node.tree_size > kMaxTreeSize) return false;
    size += node.tree_size;
    if (size > kMaxTreeSize) return false;
    shares |= (mask & node.symbol_mask) != 0 || node.shares_symbols;
    mask |= node.symbol_mask;
  }
  return shares;
}

Wide Tighten(const Table::Impl& impl, std::span<const Term> terms, Wide plain) {
  if (!WorthTightening(terms)) return plain;
  std::vector<uint32_t> symbols;
  for (const Term& t : terms) {
    if (t.monomial && !CollectSymbols(t.monomial, symbols)) return plain;
  }
  const Wide tight = {Extreme(impl, terms, symbols, false), Extreme(impl, terms, symbols, true)};
  return Intersect(plain, tight);
}

void RefreshNode(const Table::Impl& impl, const Node& node) {
  const Env nothing_fixed{};
  const Analysis analysis(impl, nothing_fixed);
  node.range_epoch = impl.epoch;
  if (node.is_float) {
    node.float_range = analysis.ComputeFloat(node);
    return;
  }
  const Wide plain = analysis.Compute(node);
  node.range = plain.ToInterval();
  if (!node.shares_symbols) return;
  if (IsRelation(node.kind)) {
    if (node.args[0].is_float_valued()) return;
    if (const auto terms = Difference(node.args[1], node.args[0])) {
      node.range =
          DecideRelation(node.kind, Tighten(impl, *terms, analysis.Sum(*terms))).ToInterval();
    }
    return;
  }
  node.range = Tighten(impl, TermsOf(node.expr()), plain).ToInterval();
}

// Only stale nodes are walked: a node is usually asked about right after it was made, its arguments
// fresh.
void Refresh(Table::Impl& impl, Expr e) {
  if (e.node()->range_epoch == impl.epoch) return;
  std::vector<const Node*> stale = {e.node()};
  const auto add = [&](Expr part) {
    if (part && part.node()->range_epoch != impl.epoch) stale.push_back(part.node());
  };
  for (size_t i = 0; i < stale.size(); ++i) {
    const Node& node = *stale[i];
    if (node.range_epoch == impl.epoch) continue;
    node.range_epoch = impl.epoch;  // seen; its range follows below
    add(node.monomial);
    for (Expr arg : node.args) add(arg);
  }
  std::ranges::sort(stale, {}, &Node::id);
  for (const Node* node : stale) RefreshNode(impl, *node);
}

}  // namespace

const Interval& Table::Impl::RangeOf(Expr e) {
  Refresh(*this, e);
  return e.node()->range;
}

void Table::Impl::RefreshAll() {
  for (const Node& node : nodes) {
    if (node.range_epoch != epoch) RefreshNode(*this, node);
  }
}

Wide RangeOf(Expr e) { return Wide::From(e.table().impl().RangeOf(e)); }

FloatRange FloatRangeOf(Expr e) {
  Refresh(e.table().impl(), e);
  return e.node()->float_range;
}

Wide RangeOfSum(Table::Impl& impl, std::span<const Term> terms) {
  for (const Term& t : terms) {
    if (t.monomial) Refresh(impl, t.monomial);
  }
  const Env nothing_fixed{};
  return Tighten(impl, terms, Analysis(impl, nothing_fixed).Sum(terms));
}

Wide RangeOfDifference(Expr a, Expr b) {
  const auto terms = Difference(a, b);
  return terms ? RangeOfSum(a.table().impl(), *terms) : Wide{};
}

Interval Table::Bounds(Expr e) const {
  if (e.is_float_valued()) return FloatToIntRange(Kind::kFloorToInt, FloatRangeOf(e)).ToInterval();
  return impl_->RangeOf(e);
}

Tri Table::IsTrue(Expr condition) const {
  const Wide r = RangeOf(condition);
  return r.ExcludesZero() ? Tri::kYes : r.is_point() ? Tri::kNo : Tri::kUnknown;
}

}  // namespace liveshape::sym
