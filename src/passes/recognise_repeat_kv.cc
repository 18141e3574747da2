// Grouped heads written out: k[:, :, None].expand(B, G, R, T, D).reshape(B, G*R, T, D), so that every query
// head has keys of its own. Attention reads group h / R itself, so the repeated tensor is never made.
#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// The [B, G, 1, T, D] that `v` [B, G*R, T, D] repeats, or none.
ValueId Repeated(const Matcher& m, ValueId v) {
  const Node* reshape = m.Producer(v, ops::kReshape);
  const Node* expand = reshape ? m.Producer(reshape->inputs[0], ops::kExpand) : nullptr;
  if (expand == nullptr) return ir::kNoValue;
  const Dims &out = m.DimsOf(v), &wide = m.DimsOf(reshape->inputs[0]),
             &narrow = m.DimsOf(expand->inputs[0]);
  if (out.size() != 4 || wide.size() != 5 || narrow.size() != 5) return ir::kNoValue;
  const Expr group = narrow[1];
  const bool repeats = narrow == Dims{wide[0], group, group.table().Int(1), wide[3], wide[4]} &&
                       wide[1] == group && out == Dims{wide[0], group * wide[2], wide[3], wide[4]};
  return repeats ? expand->inputs[0] : ir::kNoValue;
}

}  // namespace

Status RemoveRepeatKv(ir::Graph& graph, const PassOptions&) {
  const Matcher m(graph);
  Rewriter rewrite(graph);
  const uint32_t count = static_cast<uint32_t>(graph.nodes.size());
  for (uint32_t i = 0; i < count; ++i) {
    if (graph.nodes[i].op != &ops::kAttention) continue;
    const ValueId k = Repeated(m, graph.nodes[i].inputs[1]),
                  v = Repeated(m, graph.nodes[i].inputs[2]);
    if (k == ir::kNoValue || v == ir::kNoValue || m.DimsOf(k)[1] != m.DimsOf(v)[1]) continue;
    const Expr groups = m.DimsOf(k)[1], heads = m.DimsOf(graph.nodes[i].inputs[0])[1];
    if (graph.table().Divides(groups, heads) != sym::Tri::kYes) continue;
    rewrite.Before(i);
    auto drop_one = [&](ValueId x) {
      Dims dims = m.DimsOf(x);
      dims.erase(dims.begin() + 2);
      return rewrite.Reshape(x, dims);
    };
    LS_ASSIGN_OR_RETURN(ValueId keys, drop_one(k));
    LS_ASSIGN_OR_RETURN(ValueId values, drop_one(v));
    graph.nodes[i].inputs[1] = keys;
    graph.nodes[i].inputs[2] = values;
  }
  rewrite.Finish();
  return {};
}

}  // namespace liveshape::passes
