// Masks that only say "row i sees the first n keys" become that number: attention then costs the live
// context, not the capacity of the cache (G6, W5).
//
//   k <= h0 + q            limit = h0 + 1: h0 is an element of an input or a counter, known before any kernel
//   k <= positions[q]      row_limits = positions + 1, an i64 tensor
//
// The mask is a conjunction; what is always true drops out (k < T, ones, "the same document" of a single
// one). Where other conjuncts remain the mask stays as given and the limit is added: keys behind it were
// hidden by the mask anyway, so nothing changes but the cost.
#include "passes/recognise_masks.h"

#include "passes/passes.h"

namespace liveshape::passes {
namespace {

using sym::Kind;

// a and b and ... as its parts.
void Conjuncts(Expr e, bool positive, std::vector<Expr>& parts) {
  const auto args = e.args();
  if (e.kind() == Kind::kNot) return Conjuncts(args[0], !positive, parts);
  if (e.kind() == (positive ? Kind::kAnd : Kind::kOr)) {
    for (Expr arg : args) Conjuncts(arg, positive, parts);
  } else if (positive && e.kind() == Kind::kSelect && args[2].is_int(0)) {
    Conjuncts(args[0], true, parts);
    Conjuncts(args[1], true, parts);
  } else if (positive && e.kind() == Kind::kSelect && args[1].is_int(0)) {
    Conjuncts(args[0], false, parts);
    Conjuncts(args[2], true, parts);
  } else {
    parts.push_back(positive ? e : sym::Not(e));
  }
}

// The least value of the right side minus the left one, for a <= b; none for other conditions.
std::optional<Expr> Slack(Expr e) {
  if (e.kind() == Kind::kLe) return e.args()[1] - e.args()[0];
  if (e.kind() == Kind::kLt) return e.args()[1] - e.args()[0] - 1;
  return std::nullopt;
}

class MaskRecogniser {
 public:
  explicit MaskRecogniser(ir::Graph& graph)
      : graph_(graph), m_(graph), elements_(graph, m_), rewrite_(graph) {}

  Status Run() {
    const uint32_t count = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t i = 0; i < count; ++i) {
      const Node& node = graph_.nodes[i];
      if (node.op != &ops::kAttention || node.inputs.size() != 4 || node.inputs[3] == ir::kNoValue)
        continue;
      if (node.Has("limit") || m_.TypeOf(node.inputs[3]) != DType::kBool) continue;
      LS_RETURN_IF_ERROR(Simplify(i));
    }
    rewrite_.Finish();
    return {};
  }

 private:
  Status Simplify(uint32_t at) {
    const ValueId mask = graph_.nodes[at].inputs[3];
    const Dims dims = m_.DimsOf(mask);
    const RowIndices i = {elements_.Index("b", dims[0]), elements_.Index("h", dims[1]),
                          elements_.Index("q", dims[2])};
    const Expr key = elements_.Index("k", dims[3]);
    std::vector<Expr> parts;
    Conjuncts(*elements_.Start(mask, {i.batch, i.head, i.row, key}), true, parts);

    std::vector<Expr> counts;  // of keys that a row sees at most
    bool all_said = true;      // nothing else is asked of a key
    for (Expr part : parts) {
      if (part.is_int(1)) continue;
      const std::optional<Expr> slack = Slack(part);
      if (slack && elements_.IsNonNegative(*slack)) continue;
      if (slack && !elements_.DependsOn(*slack + key, key))
        counts.push_back(*slack + key + 1);
      else
        all_said = false;
    }
    if (counts.empty()) {
      if (all_said) graph_.nodes[at].inputs.resize(3);  // it hides nothing
      return {};
    }

    rewrite_.Before(at);
    if (const Expr limit = counts[0] - i.row; counts.size() == 1 && elements_.IsUniform(limit)) {
      graph_.nodes[at].Set("limit", Dims{elements_.ToGraph(limit)});
    } else {
      Expr least = counts[0];
      for (Expr count : counts) least = sym::Min(least, count);
      LS_ASSIGN_OR_RETURN(ValueId limits, EmitRowLimits(elements_, rewrite_, graph_, least, i,
                                                        Dims(dims.begin(), dims.end() - 1)));
      if (limits == ir::kNoValue) return {};
      graph_.nodes[at].inputs.resize(5, ir::kNoValue);
      graph_.nodes[at].inputs[4] = limits;
    }
    if (!all_said) return {};
    if (graph_.nodes[at].inputs.size() == 5)
      graph_.nodes[at].inputs[3] = ir::kNoValue;
    else
      graph_.nodes[at].inputs.resize(3);
    return {};
  }

  ir::Graph& graph_;
  const Matcher m_;
  Elements elements_;
  Rewriter rewrite_;
};

}  // namespace

Status RecogniseMasks(ir::Graph& graph, const PassOptions&) {
  LS_RETURN_IF_ERROR(MasksToBool(graph));
  return MaskRecogniser(graph).Run();
}

}  // namespace liveshape::passes
