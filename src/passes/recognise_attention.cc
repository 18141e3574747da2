// softmax(q @ k^T * scale + mask) @ v, as exports write it out:
//
//   transformers' eager     matmul(q, k^T) * scale + mask, softmax in f32, cast back, matmul
//   torch's decomposition   (q * sqrt(scale)) @ (k^T * sqrt(scale)) as bmm of 3-D views, then
//                           where(not any(scores != -inf), 0, softmax(scores)): rows that see nothing give 0
//   by hand                 masked_fill or where with -inf or a very low number, softmax
//
// What a row that sees nothing yields is part of the node, so it is fused only where that is known. Where
// somebody else reads scores or weights they exist anyway, and nothing is fused.
#include <cmath>
#include <limits>
#include <set>

#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Written in the place of a score, this and anything below becomes weight 0 beside any real score, and
// all-equal rows become the mean. f16 has no lower number than -65504.
constexpr double kLowEnough = -1e9, kLowEnoughF16 = -6e4;

struct Attention {
  ValueId scores = ir::kNoValue;  // what softmax sees
  const Node* product = nullptr;  // q @ k^T
  double scale = 1;
  ValueId mask = ir::kNoValue;
  bool mask_hides = false;  // true where a key is hidden, not where it is seen
  std::string all_masked;
  std::set<uint32_t> inside;  // nodes that only serve this attention
};

class Recogniser {
 public:
  Recogniser(ir::Graph& graph) : graph_(graph), m_(graph), rewrite_(graph) {}

  Status Run() {
    const uint32_t count = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t i = 0; i < count; ++i) {
      if (graph_.nodes[i].op != &ops::kMatmul) continue;
      Attention a;
      if (!MatchWeights(graph_.nodes[i].inputs[0], &a) || !MatchScores(a.scores, &a) ||
          !IsPrivate(a, i))
        continue;
      rewrite_.Before(i);
      auto fused = Build(a, graph_.nodes[i]);
      // A shape that the fused op does not serve: the written-out form stays.
      if (fused.ok() && *fused != ir::kNoValue)
        rewrite_.Replace(graph_.nodes[i].outputs[0], *fused);
    }
    rewrite_.Finish();
    return {};
  }

 private:
  // Reshapes that keep the two last dims, float casts and copies change nothing that attention sees.
  bool IsTransparent(const Node& node) const {
    if (node.op == &ops::kCopy) return true;
    if (node.op == &ops::kPointwise) {
      const Term t = m_.Of(node.outputs[0]);
      Term a;
      return t.value == node.outputs[0] && m_.Is(t, PwOp::kCast, &a) && IsFloat(m_.TypeOf(t)) &&
             IsFloat(m_.TypeOf(a)) && m_.Value(a) != ir::kNoValue;
    }
    return node.op == &ops::kReshape && KeepsMatrix(node);
  }
  bool KeepsMatrix(const Node& node) const {
    const Dims &out = m_.DimsOf(node.outputs[0]), &in = m_.DimsOf(node.inputs[0]);
    return out.size() >= 3 && in.size() >= 3 && out.back() == in.back() &&
           out[out.size() - 2] == in[in.size() - 2];
  }

  ValueId SkipTransparent(ValueId v, Attention* a) const {
    for (const Node* node = m_.Producer(v); node && IsTransparent(*node); node = m_.Producer(v)) {
      Enclose(v, a);
      v = node->inputs[0];
    }
    return v;
  }
  void Enclose(ValueId v, Attention* a) const { a->inside.insert(m_.ProducerIndex(v)); }

  // softmax(scores), or with rows that see nothing set to zero.
  bool MatchWeights(ValueId v, Attention* a) const {
    v = SkipTransparent(v, a);
    Term condition, if_true, if_false;
    const Term t = m_.Of(v);
    Term weights = t;
    bool blind = false;
    const bool fixed = m_.Is(t, PwOp::kWhere, &condition, &if_true, &if_false);
    if (fixed) {
      blind = m_.IsNumber(if_true, 0);
      if (!blind && !m_.IsNumber(if_false, 0)) return false;
      weights = blind ? if_false : if_true;
      Enclose(v, a);
    }
    if (weights.instr != Term::kWhole) return false;
    const ValueId rows = SkipTransparent(weights.value, a);
    const Node* softmax = m_.Producer(rows, ops::kSoftmax);
    if (softmax == nullptr || softmax->IntOr("log", 0) != 0 ||
        softmax->Int("dim") + 1 != static_cast<int64_t>(m_.DimsOf(rows).size()))
      return false;
    Enclose(rows, a);
    a->scores = softmax->inputs[0];
    a->all_masked = fixed ? "zero" : softmax->String("all_masked");
    return !fixed || SeesAnyKey(condition, !blind, a);
  }

  // `t`, as [.., S, 1] repeated along the keys, says that some score is not -inf (or none, if not `positive`).
  bool SeesAnyKey(Term t, bool positive, Attention* a) const {
    Term inner;
    while (true) {
      if (t.instr == Term::kWhole && m_.Producer(t.value, ops::kExpand)) {
        Enclose(t.value, a);
        t = m_.Of(m_.Producer(t.value)->inputs[0]);
      } else if (m_.Is(t, PwOp::kNot, &inner)) {
        Enclose(t.value, a);
        positive = !positive;
        t = inner;
      } else {
        break;
      }
    }
    const Node* reduce = t.instr == Term::kWhole ? m_.Producer(t.value, ops::kReduce) : nullptr;
    if (reduce == nullptr || reduce->String("kind") != (positive ? "any" : "all") ||
        !reduce->Int("keepdim"))
      return false;
    const int64_t last = static_cast<int64_t>(m_.DimsOf(reduce->inputs[0]).size()) - 1;
    if (reduce->Ints("dims") != std::vector<int64_t>{last}) return false;
    const Term element = m_.Of(reduce->inputs[0]);
    if (SaysMasked(element, !positive, a)) {
      Enclose(t.value, a);
      return true;
    }
    // Or it asks the mask itself, which must then be the one that the scores were masked with.
    return MatchScores(a->scores, a) && a->mask != ir::kNoValue &&
           m_.TypeOf(a->mask) == DType::kBool &&
           SameTruth(m_.Of(a->mask), !a->mask_hides, element, positive);
  }

  // score == -inf, or its opposite
  bool SaysMasked(Term t, bool positive, Attention* a) const {
    for (Term inner; m_.Is(t, PwOp::kNot, &inner); t = inner) {
      Enclose(t.value, a);
      positive = !positive;
    }
    Term x, y;
    if (!m_.Is(t, positive ? PwOp::kEq : PwOp::kNe, &x, &y) || !m_.IsNumber(y, -kInfinity))
      return false;
    Enclose(t.value, a);
    return x == m_.Of(a->scores);
  }

  bool SameTruth(Term a, bool a_positive, Term b, bool b_positive) const {
    auto settle = [&](Term& t, bool& positive) {
      for (Term inner;;) {
        const Term seen = m_.SkipExpand(t);
        if (m_.Is(seen, PwOp::kNot, &inner))
          t = inner, positive = !positive;
        else if (seen == t)
          return;
        else
          t = seen;
      }
    };
    settle(a, a_positive), settle(b, b_positive);
    return a == b && a_positive == b_positive;
  }

  // q @ k^T behind scale and mask. May be asked twice of the same scores; the answer is the same.
  bool MatchScores(ValueId v, Attention* a) const {
    if (a->product) return true;
    double scale = 1;  // outside of the mask, so far
    for (;;) {
      v = SkipTransparent(v, a);
      if (const Node* product = m_.Producer(v, ops::kMatmul)) {
        Enclose(v, a);
        a->product = product;
        a->scale *= scale;
        return true;
      }
      Term x, y, z;
      const Term t = m_.Of(v);
      if (t.value != v || t.instr == Term::kWhole) return false;
      Enclose(v, a);
      auto is_scores = [&](Term s) { return m_.Value(s) != ir::kNoValue && !m_.Number(s); };
      auto scaled = [&](Term s, Term by) { return is_scores(s) && m_.Number(by); };
      if (m_.Either(t, PwOp::kMul, &x, &y, scaled)) {
        scale *= *m_.Number(y);
        v = m_.Value(x);
      } else if (m_.Is(t, PwOp::kDiv, &x, &y) && scaled(x, y)) {
        scale /= *m_.Number(y);
        v = m_.Value(x);
      } else if (a->mask == ir::kNoValue && scale == 1 &&
                 m_.Either(t, PwOp::kAdd, &x, &y, [&](Term s, Term mask) {
                   return is_scores(s) && m_.Value(mask) != ir::kNoValue &&
                          LeadsToProduct(m_.Value(s));
                 })) {
        a->mask = m_.Value(y);
        v = m_.Value(x);
      } else if (a->mask == ir::kNoValue && scale > 0 && m_.Is(t, PwOp::kWhere, &x, &y, &z)) {
        a->mask_hides = is_scores(z) && m_.Number(y).has_value();
        const Term scores = a->mask_hides ? z : y, low = a->mask_hides ? y : z;
        if (!is_scores(scores) || m_.Value(x) == ir::kNoValue ||
            !SetLow(m_.Number(low), m_.TypeOf(t), a))
          return false;
        a->mask = m_.Value(x);
        v = m_.Value(scores);
      } else {
        return false;
      }
    }
  }

  // A number in the place of hidden scores: what it makes of a row without visible keys.
  static bool SetLow(std::optional<double> low, DType dtype, Attention* a) {
    if (!low) return false;
    if (*low == -kInfinity) return true;  // as softmax says: NaN, or zero
    if (*low > (dtype == DType::kF16 ? kLowEnoughF16 : kLowEnough)) return false;
    a->all_masked = "mean";
    return true;
  }

  bool LeadsToProduct(ValueId v) const {
    Attention scratch;
    v = SkipTransparent(v, &scratch);
    for (Term x, y; m_.Producer(v, ops::kMatmul) == nullptr;
         v = SkipTransparent(m_.Value(x), &scratch)) {
      const Term t = m_.Of(v);
      auto by_number = [&](Term s, Term by) {
        return m_.Value(s) != ir::kNoValue && m_.Number(by) && !m_.Number(s);
      };
      if (m_.Either(t, PwOp::kMul, &x, &y, by_number)) continue;
      if (!m_.Is(t, PwOp::kDiv, &x, &y) || !by_number(x, y)) return false;
    }
    return true;
  }

  // Nobody outside reads what disappears.
  bool IsPrivate(const Attention& a, uint32_t root) const {
    for (uint32_t i : a.inside) {
      for (ValueId v : graph_.nodes[i].outputs) {
        if (m_.IsKept(v)) return false;
        for (uint32_t user : m_.Users(v))
          if (user != root && !a.inside.contains(user)) return false;
      }
    }
    return true;
  }

  // An operand of q @ k^T without its scale, as [.., rows, D]; `transposed` says how it came.
  ValueId Operand(ValueId v, bool* transposed, double* scale) const {
    for (;;) {
      const Node* node = m_.Producer(v);
      if (node == nullptr) return v;
      Term x, y;
      if ((node->op == &ops::kReshape && KeepsMatrix(*node)) || node->op == &ops::kCopy) {
        v = node->inputs[0];
      } else if (node->op == &ops::kPermute && SwapsMatrix(node->Ints("perm"))) {
        *transposed = !*transposed;
        v = node->inputs[0];
      } else if (const Term t = m_.Of(v);
                 t.value == v && m_.Either(t, PwOp::kMul, &x, &y, [&](Term s, Term by) {
                   return m_.Value(s) != ir::kNoValue && m_.Number(by) &&
                          m_.TypeOf(s) == m_.TypeOf(t);
                 })) {
        *scale *= *m_.Number(y);
        v = m_.Value(x);
      } else {
        return v;
      }
    }
  }
  static bool SwapsMatrix(const std::vector<int64_t>& perm) {
    const int64_t rank = static_cast<int64_t>(perm.size());
    for (int64_t i = 0; i + 2 < rank; ++i)
      if (perm[static_cast<size_t>(i)] != i) return false;
    return rank >= 3 && perm.back() == rank - 2;
  }
  // Without casts up to the wanted dtype: the fused op computes in f32 anyway.
  ValueId As(DType dtype, ValueId v) const {
    Term a;
    for (Term t = m_.Of(v); m_.TypeOf(v) != dtype && t.value == v && m_.Is(t, PwOp::kCast, &a) &&
                            m_.Value(a) != ir::kNoValue;
         t = m_.Of(v))
      v = m_.Value(a);
    return v;
  }

  Result<ValueId> Build(const Attention& a, const Node& root) {
    const Dims scores = m_.DimsOf(a.scores), result = m_.DimsOf(root.outputs[0]);
    if (scores.size() != 3 && scores.size() != 4) return ir::kNoValue;
    const DType dtype = m_.TypeOf(root.outputs[0]);
    if (dtype == DType::kF64) return ir::kNoValue;  // the kernels compute in f32; products do not
    const Expr batch = scores[0], heads = scores.size() == 4 ? scores[1] : graph_.table().Int(1);
    const Expr rows = scores[scores.size() - 2], keys = scores.back();
    double scale = a.scale;
    bool q_transposed = false, k_transposed = false, v_transposed = false;
    double none = 1;
    ValueId q = As(dtype, Operand(a.product->inputs[0], &q_transposed, &scale));
    ValueId k = As(dtype, Operand(a.product->inputs[1], &k_transposed, &scale));
    ValueId v = Operand(root.inputs[1], &v_transposed, &none);
    if (none != 1) v = root.inputs[1], v_transposed = false;  // a scaled v keeps its scale
    if (m_.TypeOf(q) != dtype || m_.TypeOf(k) != dtype || m_.TypeOf(v) != dtype)
      return ir::kNoValue;
    const Expr depth = m_.DimsOf(a.product->inputs[0]).back();
    LS_ASSIGN_OR_RETURN(q, Matrix(q, q_transposed, {batch, heads, rows, depth}));
    LS_ASSIGN_OR_RETURN(k, Matrix(k, !k_transposed, {batch, heads, keys, depth}));
    LS_ASSIGN_OR_RETURN(v, Matrix(v, v_transposed, {batch, heads, keys, result.back()}));
    std::vector<ValueId> inputs = {q, k, v};
    if (ValueId mask = a.mask; mask != ir::kNoValue) {
      if (m_.TypeOf(mask) != DType::kBool && m_.TypeOf(mask) != dtype) return ir::kNoValue;
      if (a.mask_hides) {
        LS_ASSIGN_OR_RETURN(mask, rewrite_.Unary(PwOp::kNot, mask, DType::kBool));
      }
      LS_ASSIGN_OR_RETURN(mask, rewrite_.Reshape(mask, {batch, heads, rows, keys}));
      inputs.push_back(mask);
    }
    LS_ASSIGN_OR_RETURN(ValueId out,
                        rewrite_.Emit(ops::kAttention, std::move(inputs),
                                      {{"scale", scale}, {"all_masked", a.all_masked}}));
    return rewrite_.Reshape(out, result);
  }

  Result<ValueId> Matrix(ValueId v, bool transposed, const Dims& dims) {
    if (transposed) {
      std::vector<int64_t> perm(graph_.type(v).dims.size());
      for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
      LS_ASSIGN_OR_RETURN(v, rewrite_.Emit(ops::kPermute, {v}, {{"perm", std::move(perm)}}));
    }
    return rewrite_.Reshape(v, dims);
  }

  ir::Graph& graph_;
  const Matcher m_;
  Rewriter rewrite_;
};

}  // namespace

Status RecogniseAttention(ir::Graph& graph, const PassOptions&) { return Recogniser(graph).Run(); }

}  // namespace liveshape::passes
