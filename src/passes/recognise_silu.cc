// x * sigmoid(x), also where sigmoid is written out, is one instruction.
#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// 1 + exp(-x)
bool IsOnePlusExpNeg(const Matcher& m, Term t, Term x) {
  Term one, power, negated, inner;
  return m.Either(t, PwOp::kAdd, &power, &one, [&](Term a, Term b) {
    return m.IsNumber(b, 1) && m.Is(a, PwOp::kExp, &negated) && m.Is(negated, PwOp::kNeg, &inner) &&
           inner == x;
  });
}

bool IsSigmoid(const Matcher& m, Term t, Term x) {
  Term a, b;
  if (m.Is(t, PwOp::kSigmoid, &a)) return a == x;
  if (m.Is(t, PwOp::kReciprocal, &a)) return IsOnePlusExpNeg(m, a, x);
  return m.Is(t, PwOp::kDiv, &a, &b) && m.IsNumber(a, 1) && IsOnePlusExpNeg(m, b, x);
}

bool IsSilu(const Matcher& m, Term t, Term* x) {
  Term gate;
  if (m.Either(t, PwOp::kMul, x, &gate, [&](Term a, Term b) { return IsSigmoid(m, b, a); }))
    return true;
  return m.Is(t, PwOp::kDiv, x, &gate) && IsOnePlusExpNeg(m, gate, *x);
}

}  // namespace

Status RecogniseSilu(ir::Graph& graph, const PassOptions&) {
  const Matcher m(graph);
  Rewriter rewrite(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != &ops::kPointwise) continue;
    const ValueId y = graph.nodes[i].outputs[0];
    const Term root = m.Of(y);
    Term x;
    if (root.value != y || !IsSilu(m, root, &x) || m.Value(x) == ir::kNoValue) continue;
    rewrite.Before(i);
    LS_ASSIGN_OR_RETURN(ValueId silu, rewrite.Unary(PwOp::kSilu, m.Value(x), m.TypeOf(y)));
    rewrite.Replace(y, silu);
  }
  rewrite.Finish();
  return {};
}

}  // namespace liveshape::passes
