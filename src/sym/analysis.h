// The interval of an expression, and of its increment in a symbol, with some symbols fixed.
// Private to sym/.
#pragma once

#include <array>
#include <span>

#include "sym/polynomial.h"
#include "sym/range.h"

namespace liveshape::sym {

constexpr size_t kMaxFixedSymbols = 8;

// Ranges of symbols where they differ from the table's.
struct Env {
  struct Fixed {
    uint32_t symbol;
    Wide range;
  };
  std::array<Fixed, kMaxFixedSymbols> fixed;
  size_t count = 0;
  uint64_t mask = 0;

  const Wide* Find(uint32_t symbol) const {
    for (size_t i = 0; i < count; ++i) {
      if (fixed[i].symbol == symbol) return &fixed[i].range;
    }
    return nullptr;
  }
  void Fix(uint32_t symbol, Wide::Int value) {
    fixed[count++] = {symbol, {value, value}};
    mask |= uint64_t{1} << (symbol % 64);
  }
};

class Analysis {
 public:
  Analysis(const Table::Impl& impl, const Env& env) : impl_(impl), env_(env) {}

  // The range of a node whose own one is not known yet (env empty), or under the environment.
  Wide Compute(const Node& node) const;
  FloatRange ComputeFloat(const Node& node) const;
  Wide Sum(std::span<const Term> terms) const;

  // The range of e(s + 1) - e(s), both inside s's range.
  Wide Increment(Expr e, uint32_t symbol) const;
  Wide SumIncrement(std::span<const Term> terms, uint32_t symbol) const;

  Wide SymbolRange(uint32_t symbol) const {
    if (const Wide* fixed = env_.Find(symbol)) return *fixed;
    const SymbolInfo& info = impl_.symbols[symbol];
    return Wide::From({info.lo, info.hi});
  }

 private:
  // Arguments are refreshed before their users, so a node outside the environment has its range.
  Wide Of(Expr e) const {
    const Node& node = *e.node();
    const Wide known = Wide::From(node.range);
    return node.symbol_mask & env_.mask ? Intersect(Compute(node), known) : known;
  }
  FloatRange FloatOf(Expr e) const {
    const Node& node = *e.node();
    return node.symbol_mask & env_.mask ? ComputeFloat(node) : node.float_range;
  }
  Wide Relation(const Node& node) const;
  Wide FloatRelation(const Node& node) const;
  Wide Logic(const Node& node) const;
  Wide DivisionIncrement(const Node& node, uint32_t symbol) const;

  const Table::Impl& impl_;
  const Env& env_;
};

// A relation of integers, given the range of right - left.
Wide DecideRelation(Kind relation, Wide difference);

}  // namespace liveshape::sym
