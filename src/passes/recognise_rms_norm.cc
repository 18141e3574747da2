// x * rsqrt(mean(x^2) + eps), then times a weight.
//
// Exports compute in f32 and round back to the model's dtype before the weight (transformers), which is what
// kRmsNorm says; where the rounding comes elsewhere only the f32 part is fused, so no rounding moves.
#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

bool IsSquare(const Matcher& m, Term t, Term x) {
  Term a, b;
  if (m.Is(t, PwOp::kSquare, &a)) return a == x;
  if (m.Is(t, PwOp::kMul, &a, &b)) return a == x && b == x;
  return m.Is(t, PwOp::kPow, &a, &b) && a == x && m.IsNumber(b, 2);
}

// `t` repeats a column [..., 1] along the last dim of `dims`: that column.
Term Column(const Matcher& m, Term t, Dims dims, sym::Table& table) {
  const Node* expand = t.instr == Term::kWhole ? m.Producer(t.value, ops::kExpand) : nullptr;
  if (expand == nullptr || dims.empty()) return {};
  dims.back() = table.Int(1);
  return m.DimsOf(expand->inputs[0]) == dims ? m.Of(expand->inputs[0]) : Term{};
}

// mean(x^2) over the last dim, as a column, + eps
bool IsMeanSquarePlusEps(const Matcher& m, Term t, Term x, double* eps) {
  Term mean, added;
  return m.Either(t, PwOp::kAdd, &mean, &added, [&](Term a, Term b) {
    const std::optional<double> number = m.Number(b);
    if (!number || a.instr != Term::kWhole) return false;
    const Node* reduce = m.Producer(a.value);
    if (reduce && reduce->op == &ops::kReshape)
      reduce = m.Producer(reduce->inputs[0]);  // unsqueeze(-1)
    if (reduce == nullptr || reduce->op != &ops::kReduce || reduce->String("kind") != "mean")
      return false;
    const ValueId squares = reduce->inputs[0];
    Dims column = m.DimsOf(squares);
    const int64_t last = static_cast<int64_t>(column.size()) - 1;
    if (reduce->Ints("dims") != std::vector<int64_t>{last}) return false;
    column.back() = column.back().table().Int(1);
    *eps = *number;
    return m.DimsOf(a.value) == column && IsSquare(m, m.Of(squares), x);
  });
}

// x * rsqrt(..), x * (1 / sqrt(..)), x / sqrt(..)
bool IsNorm(const Matcher& m, sym::Table& table, Term t, Term* x, double* eps) {
  const Dims& dims = m.DimsOf(t.value);
  auto is_root = [&](Term root, Term of) {
    Term inner;
    return m.Is(root, PwOp::kSqrt, &inner) && IsMeanSquarePlusEps(m, inner, of, eps);
  };
  auto is_inverse_root = [&](Term factor, Term of) {
    Term a, b;
    factor = Column(m, factor, dims, table);
    if (m.Is(factor, PwOp::kRsqrt, &a)) return IsMeanSquarePlusEps(m, a, of, eps);
    if (m.Is(factor, PwOp::kReciprocal, &a)) return is_root(a, of);
    if (m.Is(factor, PwOp::kPow, &a, &b))
      return m.IsNumber(b, -0.5) && IsMeanSquarePlusEps(m, a, of, eps);
    return m.Is(factor, PwOp::kDiv, &a, &b) && m.IsNumber(a, 1) && is_root(b, of);
  };
  Term factor;
  if (m.Either(t, PwOp::kMul, x, &factor, [&](Term a, Term b) { return is_inverse_root(b, a); }))
    return true;
  return m.Is(t, PwOp::kDiv, x, &factor) && is_root(Column(m, factor, dims, table), *x);
}

// The one node that reads `v`, if it does nothing but round it to `dtype`.
const Node* OnlyUseIsCast(const ir::Graph& graph, const Matcher& m, ValueId v, DType dtype) {
  if (m.IsKept(v) || m.Users(v).size() != 1) return nullptr;
  const Node& user = graph.nodes[m.Users(v)[0]];
  Term inner;
  if (user.op != &ops::kPointwise || m.TypeOf(user.outputs[0]) != dtype) return nullptr;
  const Term t = m.Of(user.outputs[0]);
  return m.Is(t, PwOp::kCast, &inner) && inner == m.Of(v) && m.Value(t) == user.outputs[0]
             ? &user
             : nullptr;
}

Status FuseNorms(ir::Graph& graph) {
  const Matcher m(graph);
  Rewriter rewrite(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != &ops::kPointwise) continue;
    ValueId y = graph.nodes[i].outputs[0];
    const Term root = m.Of(y);
    Term x;
    double eps = 0;
    if (root.value != y || !IsNorm(m, graph.table(), root, &x, &eps) || m.TypeOf(x) != m.TypeOf(y))
      continue;
    // A mean rounded to a half would be lost inside the fused op.
    if (m.TypeOf(x) == DType::kF16 || m.TypeOf(x) == DType::kBF16) continue;
    Term narrow;
    uint32_t at = i;
    if (m.Is(x, PwOp::kCast, &narrow) && IsFloat(m.TypeOf(narrow)) &&
        m.Value(narrow) != ir::kNoValue) {
      if (const Node* cast = OnlyUseIsCast(graph, m, y, m.TypeOf(narrow))) {
        x = narrow;
        y = cast->outputs[0];
        at = static_cast<uint32_t>(cast - graph.nodes.data());
      }
    }
    const ValueId input = m.Value(x);
    if (input == ir::kNoValue || m.DimsOf(input).empty()) continue;
    rewrite.Before(at);
    LS_ASSIGN_OR_RETURN(ValueId norm, rewrite.Emit(ops::kRmsNorm, {input}, {{"eps", eps}}));
    rewrite.Replace(y, norm);
  }
  rewrite.Finish();
  return {};
}

// The [D] or [1, ..., D] that `v` repeats along all dims but the last; none if it is anything else.
ValueId RepeatedRow(const Matcher& m, ValueId v, Expr last) {
  if (last.is_int(1)) return ir::kNoValue;
  for (const ValueId from = m.SkipExpand(v); v != from; v = m.Producer(v)->inputs[0])
    if (m.DimsOf(v).back() != last) return ir::kNoValue;  // a dim of 1 came behind it
  return Matcher::SameButOnes(m.DimsOf(v), Dims{last}) && m.DimsOf(v).back() == last ? v
                                                                                     : ir::kNoValue;
}

// A norm without weight that is only read by a product with a repeated [D].
Status FuseWeights(ir::Graph& graph) {
  const Matcher m(graph);
  Rewriter rewrite(graph);
  for (uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != &ops::kPointwise) continue;
    const ValueId y = graph.nodes[i].outputs[0];
    const Term root = m.Of(y);
    Term normed, factor;
    const Node* norm = nullptr;
    ValueId weight = ir::kNoValue;
    auto fits = [&](Term a, Term b) {
      norm = a.instr == Term::kWhole ? m.Producer(a.value, ops::kRmsNorm) : nullptr;
      if (norm == nullptr || norm->inputs.size() > 1 || m.IsKept(a.value) ||
          m.Users(a.value).size() != 1)
        return false;
      if (m.Value(b) == ir::kNoValue) return false;
      weight = RepeatedRow(m, m.Value(b), m.DimsOf(a.value).back());
      return weight != ir::kNoValue && m.TypeOf(weight) == m.TypeOf(a.value);
    };
    if (root.value != y || !m.Either(root, PwOp::kMul, &normed, &factor, fits)) continue;
    rewrite.Before(i);
    LS_ASSIGN_OR_RETURN(ValueId flat, rewrite.Reshape(weight, {m.DimsOf(weight).back()}));
    LS_ASSIGN_OR_RETURN(ValueId out, rewrite.Emit(ops::kRmsNorm, {norm->inputs[0], flat},
                                                  {{"eps", norm->Float("eps")}}));
    rewrite.Replace(y, out);
  }
  rewrite.Finish();
  return {};
}

}  // namespace

Status RecogniseRmsNorm(ir::Graph& graph, const PassOptions&) {
  LS_RETURN_IF_ERROR(FuseNorms(graph));
  return FuseWeights(graph);
}

}  // namespace liveshape::passes
