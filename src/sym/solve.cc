#include "sym/solve.h"

#include <algorithm>

#include "sym/arith.h"
#include "sym/bounds.h"
#include "sym/evaluate.h"
#include "sym/polynomial.h"

namespace liveshape::sym {
namespace {

const std::string& NameOf(const SymbolInfo& info) {
  return info.display.empty() ? info.name : info.display;
}

bool Mentions(Expr e, uint32_t symbol) {
  if (!(e.node()->symbol_mask & (uint64_t{1} << (symbol % 64)))) return false;
  return std::ranges::binary_search(e.table().FreeSymbols(e), symbol);
}

// e = scale * symbol + rest with neither mentioning the symbol.
struct Linear {
  bool ok = false;
  bool constant = true;  // scale and rest are
  bool scale_never_zero = false;
  int64_t scale = 0, rest = 0;
};

Linear LinearIn(Expr e, uint32_t symbol) {
  Linear found;
  int terms_with_symbol = 0;
  bool other_factors_never_zero = true;
  for (const Term& t : TermsOf(e)) {
    if (!t.monomial) {
      if (AddInt(found.rest, t.coefficient, &found.rest) != Fault::kNone) return {};
      continue;
    }
    if (!Mentions(t.monomial, symbol)) {
      found.constant = false;
      continue;
    }
    bool once = false;
    for (const Factor& f : FactorsOf(t.monomial)) {
      const bool is_symbol = f.base.is_symbol() && f.base.symbol() == symbol;
      if (is_symbol && f.power == 1)
        once = true;
      else if (Mentions(f.base, symbol))
        return {};
      else {
        found.constant = false;
        other_factors_never_zero &= ExcludesZero(f.base);
      }
    }
    ++terms_with_symbol;
    if (!once) return {};
    if (found.constant && AddInt(found.scale, t.coefficient, &found.scale) != Fault::kNone)
      return {};
    found.ok = true;
  }
  if (!found.constant) found.scale = found.rest = 0;
  found.scale_never_zero = terms_with_symbol == 1 && other_factors_never_zero;
  return found;
}

// Lower is better: the constant that divides most surely first, a scale that may be zero last.
int Rank(const Linear& l) {
  if (l.constant) return l.scale == 1 || l.scale == -1 ? 0 : 1;
  return l.scale_never_zero ? 2 : 3;
}

}  // namespace

void SymbolSolver::AddEquation(Expr left, std::string where) {
  equations_.push_back({left, std::move(where)});
}

Status SymbolSolver::Prepare() {
  fixed_.clear();
  steps_.clear();
  checks_.clear();
  const std::vector<SymbolInfo>& symbols = table_.symbols();
  std::vector<bool> known(symbols.size(), false);
  std::vector<bool> used(equations_.size(), false);
  std::vector<std::vector<uint32_t>> free(equations_.size());
  for (size_t i = 0; i < equations_.size(); ++i) free[i] = table_.FreeSymbols(equations_[i].left);

  for (;;) {
    int best_rank = 4;
    Step best = {};
    for (uint32_t i = 0; i < equations_.size(); ++i) {
      if (used[i]) continue;
      std::erase_if(free[i], [&](uint32_t s) { return known[s]; });
      if (free[i].size() != 1 || symbols[free[i][0]].stage != 0) continue;
      const Linear linear = LinearIn(equations_[i].left, free[i][0]);
      if (!linear.ok || Rank(linear) >= best_rank) continue;
      best_rank = Rank(linear);
      best = {i, free[i][0], linear.scale, linear.rest};
      if (best_rank == 0) break;
    }
    if (best_rank == 4) {
      uint32_t i = 0;
      while (i < symbols.size() &&
             (symbols[i].stage != 0 || known[i] || symbols[i].lo != symbols[i].hi))
        ++i;
      if (i == symbols.size()) break;
      known[i] = true;
      fixed_.push_back(i);
      continue;
    }
    used[best.equation] = true;
    known[best.symbol] = true;
    steps_.push_back(best);
  }
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i].stage != 0 || known[i]) continue;
    std::string seen;
    for (const Equation& e : equations_) {
      if (Mentions(e.left, i)) seen += fmt::format("; {} is `{}`", e.where, Abbreviated(e.left));
    }
    return InvalidArgument("symbol `{}` is not determined by the shape of any input{}",
                           NameOf(symbols[i]),
                           seen.empty() ? std::string("; no input mentions it") : seen);
  }
  for (uint32_t i = 0; i < equations_.size(); ++i) {
    const bool evaluable = std::ranges::all_of(table_.FreeSymbols(equations_[i].left),
                                               [&](uint32_t s) { return known[s]; });
    if (!used[i] && evaluable) checks_.push_back(i);
  }
  return {};
}

Status SymbolSolver::SolveStep(const Step& step, int64_t observed,
                               std::span<int64_t> values) const {
  const Equation& equation = equations_[step.equation];
  const SymbolInfo& info = table_.symbols()[step.symbol];
  int64_t scale = step.scale, rest = step.rest;
  if (scale == 0) {  // not constant
    values[step.symbol] = 0;
    const Value at_zero = EvaluateAt(*equation.left.node(), values);
    values[step.symbol] = 1;
    const Value at_one = EvaluateAt(*equation.left.node(), values);
    for (const Value& v : {at_zero, at_one}) {
      if (v.fault != Fault::kNone)
        return FaultStatus(table_, v, equation.left, values).Prefixed(equation.where);
    }
    rest = at_zero.bits;
    if (__builtin_sub_overflow(at_one.bits, at_zero.bits, &scale)) scale = 0;
  }
  int64_t difference;
  const bool overflows = __builtin_sub_overflow(observed, rest, &difference);
  if (overflows || scale == 0 || (scale == -1 && difference == INT64_MIN) ||
      difference % scale != 0) {
    return InvalidArgument("{} is {}: it must be `{}`, which holds for no integer `{}`",
                           equation.where, observed, Abbreviated(equation.left), NameOf(info));
  }
  const int64_t value = difference / scale;
  if (value > info.hi) {
    return OutOfRange("{} is {}: symbol `{}` would be {}, above its bound {}", equation.where,
                      observed, NameOf(info), value, info.hi);
  }
  if (value < info.lo) {
    return OutOfRange("{} is {}: symbol `{}` would be {}, below its minimum {}", equation.where,
                      observed, NameOf(info), value, info.lo);
  }
  values[step.symbol] = value;
  return {};
}

Status SymbolSolver::Solve(std::span<const int64_t> observed, std::span<int64_t> values) const {
  LS_CHECK(observed.size() == equations_.size() && values.size() >= table_.symbols().size());
  for (const uint32_t i : fixed_) values[i] = table_.symbols()[i].lo;
  for (const Step& step : steps_)
    LS_RETURN_IF_ERROR(SolveStep(step, observed[step.equation], values));
  for (uint32_t i : checks_) {
    const Equation& equation = equations_[i];
    const Value v = EvaluateAt(*equation.left.node(), values);
    if (v.fault != Fault::kNone)
      return FaultStatus(table_, v, equation.left, values).Prefixed(equation.where);
    if (v.bits == observed[i]) continue;
    if (equation.left.is_int())
      return InvalidArgument("{} is {}: it must be {}", equation.where, observed[i], v.bits);
    std::string at;
    for (uint32_t s : table_.FreeSymbols(equation.left)) {
      at += fmt::format("{}{}={}", at.empty() ? " at " : ", ", NameOf(table_.symbols()[s]),
                        values[s]);
    }
    return InvalidArgument("{} is {}: it must be {}, which is `{}`{}", equation.where, observed[i],
                           v.bits, Abbreviated(equation.left), at);
  }
  return {};
}

}  // namespace liveshape::sym
