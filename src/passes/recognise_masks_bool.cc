// where(seen, 0, -inf) or where(seen, 0, finfo.min) added to scores: the predicate behind it.
//
// A finite low number, unlike -inf, leaves a row that sees nothing with equal scores: in f32 every sensible
// score is lost beside 1e30, so softmax gives 1/T each and the row is the mean of v over all keys.
#include <cmath>
#include <limits>

#include "passes/passes.h"
#include "passes/recognise_masks.h"

namespace liveshape::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// f16 has no lower number than -65504, beside which scores up to 16 are lost.
constexpr double kSwallowsScores = -1e30, kSwallowsScoresF16 = -6e4;

// What a number becomes in a narrower float: beyond its largest it is -inf.
double Rounded(double low, DType dtype) {
  const double least = dtype == DType::kF16    ? -65520
                       : dtype == DType::kBF16 ? -3.3961e38
                                               : -kInfinity;
  return low <= least ? -kInfinity : low;
}

class Converter {
 public:
  explicit Converter(ir::Graph& graph) : graph_(graph), m_(graph), rewrite_(graph) {}

  Status Run() {
    const uint32_t count = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t i = 0; i < count; ++i) {
      Node& node = graph_.nodes[i];
      if (node.op != &ops::kAttention || node.inputs.size() < 4 || node.inputs[3] == ir::kNoValue)
        continue;
      // Beside another limit "mean" would be over the keys inside it; nobody writes that.
      if (node.Has("limit") || node.inputs.size() > 4 || m_.TypeOf(node.inputs[3]) == DType::kBool)
        continue;
      rewrite_.Before(i);
      LS_ASSIGN_OR_RETURN(Seen seen, Predicate(node.inputs[3]));
      const bool half = m_.TypeOf(node.inputs[3]) == DType::kF16;
      if (!(seen.low <= (half ? kSwallowsScoresF16 : kSwallowsScores))) continue;
      if (seen.value == ir::kNoValue) continue;
      if (seen.low != -kInfinity) node.Set("all_masked", std::string("mean"));
      node.inputs[3] = seen.value;
    }
    rewrite_.Finish();
    return {};
  }

 private:
  struct Seen {
    ValueId value = ir::kNoValue;  // bool, of the dims of the float mask
    double low = 0;
  };

  // The same value is asked for by every layer: one answer, as long as it comes earlier in the list.
  Result<Seen> Predicate(ValueId mask) {
    if (auto it = known_.find(mask); it != known_.end()) return it->second;
    LS_ASSIGN_OR_RETURN(Seen seen, Make(mask));
    return known_[mask] = seen;
  }

  Result<Seen> Make(ValueId mask) {
    const Node* node = m_.Producer(mask);
    if (node == nullptr) return Seen{};
    if (node->op->view || node->op == &ops::kCopy) {
      LS_ASSIGN_OR_RETURN(Seen inner, Predicate(node->inputs[0]));
      if (inner.value == ir::kNoValue) return inner;
      LS_ASSIGN_OR_RETURN(inner.value, rewrite_.Emit(*node->op, {inner.value}, node->attrs));
      return inner;
    }
    const Term t = m_.Of(mask);
    Term a, b, c;
    if (m_.Is(t, PwOp::kCast, &a) && m_.Value(a) != ir::kNoValue && IsFloat(m_.TypeOf(a))) {
      LS_ASSIGN_OR_RETURN(Seen inner, Predicate(m_.Value(a)));
      inner.low = Rounded(inner.low, m_.TypeOf(mask));
      return inner;
    }
    if (m_.Is(t, PwOp::kWhere, &c, &a, &b)) {
      const std::optional<double> if_true = m_.Number(a), if_false = m_.Number(b);
      if (!if_true || !if_false) return Seen{};
      if (*if_true == 0) return Make(c, false, Rounded(*if_false, m_.TypeOf(mask)));
      if (*if_false == 0) return Make(c, true, Rounded(*if_true, m_.TypeOf(mask)));
      return Seen{};
    }
    // (1 - seen) * finfo.min, hidden * finfo.min; with -inf the product 0 * inf would be NaN.
    if (m_.Either(t, PwOp::kMul, &a, &b,
                  [&](Term, Term low) { return m_.Number(low).has_value(); })) {
      const double low = Rounded(*m_.Number(b), m_.TypeOf(mask));
      Term one, flag, truth;
      if (low == -kInfinity) return Seen{};
      const bool inverted = m_.Is(a, PwOp::kSub, &one, &flag) && m_.IsNumber(one, 1);
      if (m_.Is(inverted ? flag : a, PwOp::kCast, &truth) && m_.TypeOf(truth) == DType::kBool)
        return Make(truth, !inverted, low);
    }
    return Seen{};
  }

  Result<Seen> Make(Term condition, bool hides, double low) {
    const ValueId value = m_.Value(condition);
    if (value == ir::kNoValue) return Seen{};
    if (!hides) return Seen{value, low};
    LS_ASSIGN_OR_RETURN(ValueId seen, rewrite_.Unary(PwOp::kNot, value, DType::kBool));
    return Seen{seen, low};
  }

  ir::Graph& graph_;
  const Matcher m_;
  Rewriter rewrite_;
  std::map<ValueId, Seen> known_;
};

}  // namespace

Status MasksToBool(ir::Graph& graph) { return Converter(graph).Run(); }

}  // namespace liveshape::passes
