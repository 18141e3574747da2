// x * cos + rotate_half(x) * sin, rotate_half(x) = cat(-x[D/2:], x[:D/2]) on the last dim.
#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// x[start : start + half] of the last dim
bool IsHalf(const Matcher& m, Term t, ValueId x, Expr start, Expr half) {
  const Node* slice = t.instr == Term::kWhole ? m.Producer(t.value, ops::kSlice) : nullptr;
  return slice && slice->inputs[0] == x && slice->Int("step") == 1 &&
         slice->Int("dim") == static_cast<int64_t>(m.DimsOf(x).size()) - 1 &&
         slice->Exprs("start")[0] == start && slice->Exprs("length")[0] == half;
}

bool IsRotatedHalf(const Matcher& m, sym::Table& table, Term t, Term x) {
  const ValueId value = m.Value(x);
  const Node* cat = t.instr == Term::kWhole ? m.Producer(t.value, ops::kCat) : nullptr;
  if (value == ir::kNoValue || cat == nullptr || cat->inputs.size() != 2 || m.DimsOf(value).empty())
    return false;
  if (cat->Int("dim") != static_cast<int64_t>(m.DimsOf(value).size()) - 1) return false;
  const std::optional<Expr> half = table.Quotient(m.DimsOf(value).back(), table.Int(2));
  Term second;
  return half && m.Is(m.Of(cat->inputs[0]), PwOp::kNeg, &second) &&
         IsHalf(m, second, value, *half, *half) &&
         IsHalf(m, m.Of(cat->inputs[1]), value, table.Int(0), *half);
}

struct Rope { Term x, cos, rotated, sin; };

bool IsRope(const Matcher& m, sym::Table& table, Term t, Rope* r) {
  Term straight, turned;
  return m.Either(t, PwOp::kAdd, &straight, &turned, [&](Term a, Term b) {
    // Which factor of `a` is x shows only once the other product's cat is known.
    return m.Either(b, PwOp::kMul, &r->rotated, &r->sin, [&](Term rotated, Term) {
      return m.Either(a, PwOp::kMul, &r->x, &r->cos,
                      [&](Term x, Term) { return IsRotatedHalf(m, table, rotated, x); });
    });
  });
}

}  // namespace

Status RecogniseRope(ir::Graph& graph, const PassOptions&) {
  const Matcher m(graph);
  Rewriter rewrite(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != &ops::kPointwise) continue;
    const ValueId y = graph.nodes[i].outputs[0];
    const Term root = m.Of(y);
    Rope r;
    if (root.value != y || !IsRope(m, graph.table(), root, &r)) continue;
    const ValueId x = m.Value(r.x), cos = m.Value(r.cos), sin = m.Value(r.sin);
    if (cos == ir::kNoValue || sin == ir::kNoValue) continue;
    if (m.DimsOf(cos) != m.DimsOf(x) || m.DimsOf(sin) != m.DimsOf(x)) continue;
    if (m.TypeOf(cos) != m.TypeOf(x) || m.TypeOf(sin) != m.TypeOf(x) || m.TypeOf(y) != m.TypeOf(x))
      continue;
    rewrite.Before(i);
    LS_ASSIGN_OR_RETURN(ValueId rope, rewrite.Emit(ops::kRope, {x, cos, sin}, {}));
    rewrite.Replace(y, rope);
  }
  rewrite.Finish();
  return {};
}

}  // namespace liveshape::passes
