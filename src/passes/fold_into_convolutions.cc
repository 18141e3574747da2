// conv(x) * s + t, with s and t constants by channel, is a convolution with other constants: batch norm in
// inference costs nothing. Only f32, where the folded weight is off by half an ulp a tap, as the product was;
// and only where no weight overflows or loses bits to underflow.
#include <cfloat>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// y = conv * scale + shift, by output channel.
struct Affine {
  uint32_t conv = 0;  // node
  std::vector<double> scale, shift;
};

class Folder {
 public:
  explicit Folder(ir::Graph& graph) : graph_(graph), m_(graph), rewrite_(graph) {}

  Status Run() {
    const uint32_t count = static_cast<uint32_t>(graph_.nodes.size());
    for (uint32_t n = 0; n < count; ++n) Follow(n);
    for (const auto& [value, affine] : found_) {
      if (consumed_.contains(value)) continue;
      LS_RETURN_IF_ERROR(Replace(value, affine));
    }
    rewrite_.Finish();
    return {};
  }

 private:
  std::span<const float> Floats(ValueId v) const {
    if (v == ir::kNoValue || graph_.value(v).origin != ir::Origin::kConstant) return {};
    const ir::Constant& c = graph_.constants[graph_.value(v).index];
    const bool plain = c.dtype == DType::kF32 && c.layout == ir::ConstantLayout::kPlain &&
                       c.encoding == ir::Encoding::kPlain && c.external.empty();
    if (!plain) return {};
    return {reinterpret_cast<const float*>(c.data.data()), c.data.size() / sizeof(float)};
  }

  // Constants of a value that repeats them along every dim but dim 1.
  std::span<const float> ByChannel(ValueId v) const {
    const Node* expand = m_.Producer(v, ops::kExpand);
    if (expand == nullptr) return {};
    const Dims& to = m_.DimsOf(v);
    const Dims& from = m_.DimsOf(expand->inputs[0]);
    const size_t lead = to.size() - from.size();
    if (lead > 1) return {};
    for (size_t i = 0; i < from.size(); ++i)
      if (lead + i == 1 ? from[i] != to[1] : !from[i].is_int(1)) return {};
    return Floats(m_.SkipExpand(v));
  }

  // The convolution that alone makes `v`, which may have lost its height of 1.
  const Affine* AffineOf(ValueId v) {
    if (auto it = found_.find(v); it != found_.end()) return &it->second;
    uint32_t node = m_.ProducerIndex(v);
    if (node == ir::Graph::kNoNode) return nullptr;
    if (graph_.nodes[node].op == &ops::kReshape) {
      const ValueId images = graph_.nodes[node].inputs[0];
      const Dims& in = m_.DimsOf(images);
      const bool drops_height =
          in.size() == 4 && in[2].is_int(1) && m_.DimsOf(v) == Dims{in[0], in[1], in[3]};
      if (!drops_height || !OnlyUse(images)) return nullptr;
      node = m_.ProducerIndex(images);
      if (node == ir::Graph::kNoNode) return nullptr;
    }
    const Node& conv = graph_.nodes[node];
    if (conv.op != &ops::kConv || Floats(conv.inputs[1]).empty()) return nullptr;
    const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] != ir::kNoValue;
    const std::span<const float> bias =
        has_bias ? Floats(conv.inputs[2]) : std::span<const float>();
    if (has_bias && bias.empty()) return nullptr;
    const auto rows = static_cast<size_t>(m_.DimsOf(conv.inputs[1])[0].value());
    Affine affine{node, std::vector<double>(rows, 1), std::vector<double>(rows, 0)};
    for (size_t i = 0; i < bias.size(); ++i) affine.shift[i] = bias[i];
    return &(found_[v] = std::move(affine));
  }

  bool OnlyUse(ValueId v) const { return m_.Users(v).size() == 1 && !m_.IsKept(v); }

  void Follow(uint32_t n) {
    const Node& node = graph_.nodes[n];
    if (node.op != &ops::kPointwise || node.inputs.size() != 2) return;
    const std::vector<PwInstr>& code = node.Program().code;
    if (code.size() != 3 || code[0].op != PwOp::kLoad || code[1].op != PwOp::kLoad) return;
    const bool multiplies = code[2].op == PwOp::kMul;
    if ((!multiplies && code[2].op != PwOp::kAdd) || code[2].a == code[2].b) return;
    for (size_t side : {0, 1}) {
      const ValueId from = node.inputs[side];
      const std::span<const float> constants = ByChannel(node.inputs[1 - side]);
      if (constants.empty() || !OnlyUse(from)) continue;
      const Affine* before = AffineOf(from);
      if (before == nullptr || before->scale.size() != constants.size()) continue;
      Affine after = *before;
      for (size_t i = 0; i < constants.size(); ++i) {
        if (multiplies) after.scale[i] *= constants[i];
        after.shift[i] = multiplies ? after.shift[i] * constants[i] : after.shift[i] + constants[i];
      }
      if (!IsExact(after)) return;
      found_[node.outputs[0]] = std::move(after);
      consumed_.insert(from);
      return;
    }
  }

  bool IsExact(const Affine& affine) const {
    const std::span<const float> weight = Floats(graph_.nodes[affine.conv].inputs[1]);
    const size_t columns = weight.size() / affine.scale.size();
    for (size_t i = 0; i < weight.size(); ++i) {
      const double w = std::fabs(weight[i] * affine.scale[i / columns]);
      if (!(w <= FLT_MAX) || (w < FLT_MIN && weight[i] != 0)) return false;
    }
    for (double shift : affine.shift)
      if (!(std::fabs(shift) <= FLT_MAX)) return false;
    return true;
  }

  ValueId Constant(std::string name, std::vector<int64_t> dims, const std::vector<float>& values) {
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float));
    std::memcpy(bytes->data(), values.data(), bytes->size());
    return graph_.AddConstant(
        {.name = std::move(name), .dims = std::move(dims), .data = *bytes, .owner = bytes});
  }

  Status Replace(ValueId value, const Affine& affine) {
    const uint32_t last = m_.ProducerIndex(value);
    if (graph_.nodes[last].op != &ops::kPointwise) return {};  // nothing followed
    const Node conv = graph_.nodes[affine.conv];
    const Dims dims = m_.DimsOf(value);
    const std::span<const float> old = Floats(conv.inputs[1]);
    const size_t rows = affine.scale.size(), columns = old.size() / rows;
    std::vector<float> weight(old.size()), bias(rows);
    for (size_t i = 0; i < old.size(); ++i)
      weight[i] = static_cast<float>(old[i] * affine.scale[i / columns]);
    for (size_t i = 0; i < rows; ++i) bias[i] = static_cast<float>(affine.shift[i]);
    const auto height = static_cast<int64_t>(rows), width = static_cast<int64_t>(columns);
    const ValueId w = Constant("folded." + conv.name + ".weight", {height, width}, weight);
    const ValueId b = Constant("folded." + conv.name + ".bias", {height}, bias);
    rewrite_.Before(last);
    LS_ASSIGN_OR_RETURN(ValueId y, rewrite_.Emit(ops::kConv, {conv.inputs[0], w, b}, conv.attrs));
    LS_ASSIGN_OR_RETURN(y, rewrite_.Reshape(y, dims));
    rewrite_.Replace(value, y);
    return {};
  }

  ir::Graph& graph_;
  Matcher m_;
  Rewriter rewrite_;
  std::map<ValueId, Affine> found_;
  std::set<ValueId> consumed_;  // by a longer chain
};

}  // namespace

Status FoldIntoConvolutions(ir::Graph& graph, const PassOptions& options) {
  LS_RETURN_IF_ERROR(Folder(graph).Run());
  return EliminateDeadCode(graph, options);
}

}  // namespace liveshape::passes
