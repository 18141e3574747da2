// What a Table holds. Private to sym/.
#pragma once

#include <bit>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "sym/expr.h"

namespace liveshape::sym {

// A closed range of doubles; infinite ends mean "no bound known".
struct FloatRange {
  double lo = -std::numeric_limits<double>::infinity();
  double hi = std::numeric_limits<double>::infinity();
};

struct Node {
  Kind kind;
  bool is_float = false;
  bool shares_symbols =
      false;  // some symbol occurs in two of the arguments: intervals lose correlation
  Stage stage = 0;
  uint32_t id = 0;  // arguments have smaller ids than their users: id order is a topological order
  uint32_t tree_size =
      1;  // nodes of the expression as a tree, saturating; a DAG can be exponential
  uint32_t depth = 1;
  uint32_t degree = 0;       // of a monomial; an atom has 1
  uint64_t symbol_mask = 0;  // bit (index mod 64) of every symbol in it: a clear bit proves absence
  int64_t bits = 0;          // kInt: value; kFloat: bits of the double; kSymbol: index
  Table* table = nullptr;
  std::vector<Expr> args;
  Expr monomial;  // of kMul with a coefficient: the product without it

  // Bounds, refreshed when a symbol was narrowed since (Table::Impl::epoch).
  mutable uint32_t range_epoch = 0;
  mutable Interval range;
  mutable FloatRange float_range;

  Expr expr() const { return Expr(this); }
};

inline bool IsFloatKind(Kind kind) { return kind >= Kind::kFloat && kind <= Kind::kFloatMax; }
inline bool IsRelation(Kind kind) { return kind >= Kind::kEq && kind <= Kind::kLe; }
inline bool IsBoolean(Expr e) {  // its value is 0 or 1 by its kind
  return (e.kind() >= Kind::kEq && e.kind() <= Kind::kNot) || e.is_int(0) || e.is_int(1);
}

struct Table::Impl {
  explicit Impl(Table& owner) : table(owner) {}

  // The node with exactly these parts: found, or created. No simplification.
  Expr Intern(Kind kind, std::span<const Expr> args, int64_t bits = 0, Expr monomial = {});

  // Bounds as of the symbols' ranges now.
  const Interval& RangeOf(Expr e);
  void RefreshAll();

  Table& table;
  std::vector<SymbolInfo> symbols;
  std::vector<Expr> symbol_nodes;
  std::deque<Node> nodes;  // addresses stay
  std::unordered_multimap<uint64_t, const Node*> interned;
  std::unordered_map<std::string, uint32_t> by_name;
  uint32_t epoch = 1;
  bool frozen = false;
};

// Every node `root` is made of, itself last, arguments before users. Iterative: depth costs no
// stack.
std::vector<const Node*> TopologicalOrder(Expr root);

// A total order that depends on structure, not on the order of creation, so that printing is
// stable.
int Compare(Expr a, Expr b);

// ToString for messages: cut where it gets long.
std::string Abbreviated(Expr e);

}  // namespace liveshape::sym
