// What one element of an integer or bool tensor is, as an expression over the indices of that element.
//
//   Elements elements(graph, matcher);
//   Expr q = elements.Index("q", rows), k = elements.Index("k", keys);
//   Expr seen = *elements.Start(mask, {zero, zero, q, k});   // e.g. k <= h0 + q
//
// A mask that a model computes from arange, positions and comparisons so becomes a formula, whatever views
// and broadcasts lie between. What cannot be followed is a *leaf*: an element that is known when its kernel
// has run. An element of an input or a state at a fixed place is a *host value*: known before any kernel.
//
// Expressions live in a table of their own, so that index symbols never reach the artifact; ToGraph brings
// one back, and makes the host values that it uses part of the graph.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "passes/match.h"

namespace liveshape::passes {

class Elements {
 public:
  Elements(ir::Graph& graph, const Matcher& matcher) : graph_(graph), m_(matcher) {}

  sym::Table& table() { return table_; }
  // A new index symbol in [0, dim).
  Expr Index(std::string_view name, Expr dim);
  // Element `at` of an integer or bool value; none for other dtypes. Start gives it a fresh budget.
  std::optional<Expr> Start(ValueId v, const std::vector<Expr>& at) {
    budget_ = 4096;
    return Of(v, at);
  }
  std::optional<Expr> Of(ValueId v, const std::vector<Expr>& at);

  // An element that is known when the node that makes `value` has run.
  struct Leaf {
    ValueId value;
    std::vector<Expr> at;
  };
  const Leaf* FindLeaf(uint32_t symbol) const;
  bool IsIndex(uint32_t symbol) const { return dims_.contains(symbol); }
  // Also through the place of a leaf.
  bool DependsOn(Expr e, Expr index) const;
  // Over sizes and host values alone: the shape program can compute it.
  bool IsUniform(Expr e) const;

  // e >= 0 at every live shape and every index: a proof, or false.
  bool IsNonNegative(Expr e);

  // The same expression in the graph's table; `e` must be uniform.
  Expr ToGraph(Expr e);

 private:
  struct Host {
    ir::Origin source;
    uint32_t index;
    Expr element;
  };

  Expr MakeLeaf(ValueId v, const std::vector<Expr>& at);
  std::optional<Expr> HostValue(ValueId v, const std::vector<Expr>& at);
  std::optional<Expr> OfNode(const Node& node, const std::vector<Expr>& at);
  std::optional<Expr> OfPointwise(const Node& node, const std::vector<Expr>& at);
  std::optional<Expr> OfReshape(const Node& node, const std::vector<Expr>& at);
  std::optional<Expr> OfIndex(const Node& node, const std::vector<Expr>& at);
  std::optional<Expr> OfCat(const Node& node, const std::vector<Expr>& at);
  std::optional<Expr> OfCumsum(const Node& node, std::vector<Expr> at);
  Expr Import(Expr e) { return table_.Import(e); }
  std::vector<Expr> Import(const Dims& dims);
  std::vector<uint32_t> FreeSymbols(Expr e) const { return table_.FreeSymbols(e); }

  ir::Graph& graph_;
  const Matcher& m_;
  sym::Table table_;
  std::map<uint32_t, Expr> dims_;                        // index symbol -> its dim
  std::map<uint32_t, Leaf> leaves_;                      // by symbol
  std::map<std::vector<uint32_t>, Expr> leaf_by_place_;  // value and ids of its indices
  std::map<uint32_t, Host> hosts_;                       // by symbol
  int budget_ = 0;  // instructions: a mask has dozens; a hostile graph may share exponentially
};

// Element `at` of constant data that follows a formula: affine in the indices, all equal, or a bool matrix
// whose row r is true for the first a + r columns (a causal mask kept as a buffer).
std::optional<Expr> ConstantElement(sym::Table& table, const ir::Constant& constant,
                                    const std::vector<Expr>& at);

}  // namespace liveshape::passes
