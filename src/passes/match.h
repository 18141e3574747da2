// Patterns that read like the formula they look for, on the graph's values.
//
//   Matcher m(graph);
//   Term x, gate;
//   if (m.Commutes(m.Of(value), PwOp::kMul, &x, &gate) && m.Is(gate, PwOp::kSigmoid, &inner)) ...
//
// A Term is one pointwise instruction, or a value that no pointwise node makes. Loads are followed, so a
// pattern does not see how the instructions are cut into nodes; casts and views are seen, and skipped by
// name where the formula allows it.
#pragma once

#include <bit>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"
#include "ops/ops.h"

namespace liveshape::passes {

using ir::Dims;
using ir::Node;
using ir::PwInstr;
using ir::PwOp;
using ir::ValueId;
using sym::Expr;

struct Term {
  static constexpr uint32_t kWhole = ~0u;
  ValueId value = ir::kNoValue;  // the value itself, or
  uint32_t instr = kWhole;       // instruction of the pointwise node that makes `value`
  explicit operator bool() const { return value != ir::kNoValue; }
  friend bool operator==(const Term&, const Term&) = default;
};

class Matcher {
 public:
  explicit Matcher(const ir::Graph& graph)
      : graph_(graph),
        producers_(graph.Producers()),
        users_(graph.Users()),
        kept_(graph.values.size()) {
    for (const ir::Output& output : graph.outputs)
      if (output.value != ir::kNoValue) kept_[output.value] = true;
    for (const ir::State& state : graph.states) kept_[state.result] = true;
  }

  const Dims& DimsOf(ValueId v) const { return graph_.type(v).dims; }
  DType TypeOf(ValueId v) const { return graph_.type(v).dtype; }

  // The node that makes a value, null for inputs, constants, states and values newer than the matcher.
  uint32_t ProducerIndex(ValueId v) const {
    return v < producers_.size() ? producers_[v] : ir::Graph::kNoNode;
  }
  const Node* Producer(ValueId v) const {
    const uint32_t i = ProducerIndex(v);
    return i == ir::Graph::kNoNode ? nullptr : &graph_.nodes[i];
  }
  const Node* Producer(ValueId v, const ir::OpDef& op) const {
    const Node* node = Producer(v);
    return node && node->op == &op ? node : nullptr;
  }
  const std::vector<uint32_t>& Users(ValueId v) const { return users_[v]; }
  // A graph output or a state's result: somebody outside sees it.
  bool IsKept(ValueId v) const { return kept_[v]; }

  Term Of(ValueId v) const {
    const Node* node = Producer(v, ops::kPointwise);
    if (node == nullptr) return {v, Term::kWhole};
    return Follow(v, static_cast<uint32_t>(node->Program().code.size() - 1));
  }

  const PwInstr* Instr(Term t) const {
    if (!t || t.instr == Term::kWhole) return nullptr;
    return &Producer(t.value)->Program().code[t.instr];
  }
  DType TypeOf(Term t) const { return Instr(t) ? Instr(t)->dtype : TypeOf(t.value); }

  // The term as a value of its own; none for an instruction inside a node.
  ValueId Value(Term t) const {
    if (t.instr == Term::kWhole) return t.value;
    return t.instr + 1 == Producer(t.value)->Program().code.size() ? t.value : ir::kNoValue;
  }

  bool Is(Term t, PwOp op, Term* a = nullptr, Term* b = nullptr, Term* c = nullptr) const {
    const PwInstr* instr = Instr(t);
    if (instr == nullptr || instr->op != op) return false;
    if (a) *a = Follow(t.value, instr->a);
    if (b) *b = Follow(t.value, instr->b);
    if (c) *c = Follow(t.value, instr->c);
    return true;
  }

  // `op` with operands in either order, of which the first to satisfy `fits(a, b)` is taken.
  template <typename Fits>
  bool Either(Term t, PwOp op, Term* a, Term* b, Fits fits) const {
    if (!Is(t, op, a, b)) return false;
    if (fits(*a, *b)) return true;
    std::swap(*a, *b);
    return fits(*a, *b);
  }

  Term SkipCasts(Term t) const {
    for (Term a; IsFloat(TypeOf(t)) && Is(t, PwOp::kCast, &a) && IsFloat(TypeOf(a));) t = a;
    return t;
  }

  // What a value repeats: expand, and reshapes that only insert or drop dims of size 1.
  ValueId SkipExpand(ValueId v) const {
    for (const Node* node = Producer(v); node; node = Producer(v)) {
      const bool repeats =
          node->op == &ops::kExpand ||
          (node->op == &ops::kReshape && SameButOnes(DimsOf(v), DimsOf(node->inputs[0])));
      if (!repeats) break;
      v = node->inputs[0];
    }
    return v;
  }
  Term SkipExpand(Term t) const { return t.instr == Term::kWhole ? Of(SkipExpand(t.value)) : t; }

  // A number that is the same for every element.
  std::optional<double> Number(Term t) const {
    if (const PwInstr* instr = Instr(t)) {
      if (instr->op == PwOp::kConst)
        return IsFloat(instr->dtype) ? std::bit_cast<double>(instr->imm)
                                     : static_cast<double>(instr->imm);
      Term a;
      if (instr->op == PwOp::kCast && Is(t, PwOp::kCast, &a) && IsFloat(instr->dtype))
        return Number(a);
      return std::nullopt;
    }
    const ValueId v = SkipExpand(t.value);
    if (v != t.value) return Number(Of(v));
    if (graph_.value(v).origin != ir::Origin::kConstant) return std::nullopt;
    return ScalarOf(graph_.constants[graph_.value(v).index]);
  }
  bool IsNumber(Term t, double number) const { return Number(t) == number; }

  static bool SameButOnes(const Dims& a, const Dims& b) {
    auto next = [](const Dims& d, size_t i) {
      while (i < d.size() && d[i].is_int(1)) ++i;
      return i;
    };
    size_t i = next(a, 0), j = next(b, 0);
    for (; i < a.size() && j < b.size(); i = next(a, i + 1), j = next(b, j + 1))
      if (a[i] != b[j]) return false;
    return i == a.size() && j == b.size();
  }

 private:
  Term Follow(ValueId v, uint32_t instr) const {
    const Node* node = Producer(v);
    const PwInstr& i = node->Program().code[instr];
    return i.op == PwOp::kLoad ? Of(node->inputs[static_cast<size_t>(i.imm)]) : Term{v, instr};
  }

  static std::optional<double> ScalarOf(const ir::Constant& c) {
    for (int64_t d : c.dims)
      if (d != 1) return std::nullopt;
    auto read = [&]<typename T>(T number) -> std::optional<double> {
      if (c.data.size() != sizeof(T)) return std::nullopt;
      std::memcpy(&number, c.data.data(), sizeof(T));
      return static_cast<double>(number);
    };
    switch (c.dtype) {
      case DType::kF32: return read(float{});
      case DType::kF64: return read(double{});
      case DType::kI64: return read(int64_t{});
      case DType::kI32: return read(int32_t{});
      default: return std::nullopt;
    }
  }

  const ir::Graph& graph_;
  std::vector<uint32_t> producers_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<bool> kept_;
};

// New nodes in front of the node whose result they replace; the graph's list is rebuilt once, at the end,
// so that a Matcher taken before stays valid while patterns are replaced.
//
//   Rewriter rewrite(graph);
//   rewrite.Before(index);
//   LS_ASSIGN_OR_RETURN(ValueId y, rewrite.Emit(ops::kRope, {x, cos, sin}, {}));
//   rewrite.Replace(old, y);
//   rewrite.Finish();
class Rewriter {
 public:
  explicit Rewriter(ir::Graph& graph)
      : graph_(graph), pending_(graph.nodes.size()), map_(graph.values.size(), ir::kNoValue) {
    graph.nodes.reserve(graph.nodes.size() + 1);  // Emit moves no node: pointers to them stay good
  }

  void Before(uint32_t node) { at_ = node; }

  Result<ValueId> Emit(const ir::OpDef& op, std::vector<ValueId> inputs, ir::Attrs attrs) {
    const Node& here = graph_.nodes[at_];
    LS_ASSIGN_OR_RETURN(
        std::vector<ValueId> outputs,
        graph_.AddNode(op, std::move(inputs), std::move(attrs), here.name, here.source));
    pending_[at_].push_back(std::move(graph_.nodes.back()));
    graph_.nodes.pop_back();
    return outputs[0];
  }
  Result<ValueId> Reshape(ValueId x, const Dims& sizes) {
    if (graph_.type(x).dims == sizes) return x;
    return Emit(ops::kReshape, {x}, {{"sizes", sizes}});
  }
  Result<ValueId> Expand(ValueId x, const Dims& sizes) {
    if (graph_.type(x).dims == sizes) return x;
    return Emit(ops::kExpand, {x}, {{"sizes", sizes}});
  }
  Result<ValueId> Unary(PwOp op, ValueId x, DType result) {
    ir::PointwiseProgram p;
    p.code = {{.op = PwOp::kLoad, .dtype = graph_.type(x).dtype},
              {.op = op, .dtype = result, .a = 0}};
    const Dims dims = graph_.type(x).dims;
    return Emit(ops::kPointwise, {x}, {{"program", std::move(p)}, {"dims", dims}});
  }

  void Replace(ValueId old, ValueId by) { map_[old] = by; }
  bool IsReplaced(ValueId v) const { return v < map_.size() && map_[v] != ir::kNoValue; }

  // True if anything was rewritten.
  bool Finish() {
    std::vector<Node> nodes;
    bool changed = false;
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      changed = changed || !pending_[i].empty();
      for (Node& node : pending_[i]) nodes.push_back(std::move(node));
      nodes.push_back(std::move(graph_.nodes[i]));
    }
    graph_.nodes = std::move(nodes);
    graph_.ReplaceUses(map_);
    return changed;
  }

 private:
  ir::Graph& graph_;
  uint32_t at_ = 0;
  std::vector<std::vector<Node>> pending_;
  std::vector<ValueId> map_;
};

}  // namespace liveshape::passes
