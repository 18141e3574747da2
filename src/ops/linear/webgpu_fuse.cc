#include "ops/linear/webgpu_fuse.h"

#include <algorithm>

#include "backends/webgpu/fuse.h"
#include "ops/ops.h"
#include "ops/pointwise/webgpu_value.h"

namespace liveshape::webgpu {
namespace {

// Row-major without gaps, as the other is: equal tuples of expressions share their slots.
bool SameLayout(const plan::Operand& a, const plan::Operand& b) {
  return a.rank == b.rank && a.strides_at == b.strides_at && a.offset_at == b.offset_at;
}

const plan::Step* NormBefore(const Lowering& l) {
  const plan::Step* norm = WriterOf(l, l.in(0).storage);
  if (!IsOp(l, norm, ops::kRmsNorm) || OnlyReaderOf(l, l.in(0).storage) != &l.step) return nullptr;
  const plan::Operand &from = norm->inputs[0], &to = norm->outputs[0];
  const bool dense = from.rank == to.rank && from.strides_at == to.strides_at;
  return dense && SameLayout(to, l.in(0)) ? norm : nullptr;
}

// Where the columns of `v` begin in the product, if it is the product or a slice of its columns; else -1.
int64_t ColumnsFrom(const Lowering& l, ir::ValueId v, const std::vector<uint32_t>& producers) {
  const ir::ValueId product = l.node->outputs[0];
  if (v == product) return 0;
  if (producers[v] == ir::Graph::kNoNode) return -1;
  const ir::Node& node = l.graph.nodes[producers[v]];
  if (node.op != &ops::kSlice || node.inputs[0] != product || node.Int("step") != 1) return -1;
  const Expr start = node.Exprs("start")[0];
  const bool columns = node.Int("dim") + 1 == l.out(0).rank;
  return columns && start.is_int() ? start.value() : -1;
}

class LinearFuser {
 public:
  explicit LinearFuser(const Lowering& l) : l_(l) {}

  Result<std::optional<Fusion>> Make(bool with_norm, bool with_pointwise) {
    const ir::Dims& x = l_.in_dims(0);
    step_ = std::make_shared<plan::Step>(l_.step);
    product_ = {.bias = l_.has(2) ? 2 : kAbsent, .m = l_.numel({x.begin(), x.end() - 1})};
    Fusion fusion{.steps = {&l_.step}, .step = step_};
    fusion.when = sym::Le(product_.m, l_.table().Int(l_.tuning.few_rows));
    if (l_.table().IsTrue(fusion.when) == sym::Tri::kNo) return std::optional<Fusion>();
    if (with_norm) {
      const plan::Step* norm = NormBefore(l_);
      if (!norm) return std::optional<Fusion>();
      AddNorm(*norm);
      fusion.steps.insert(fusion.steps.begin(), norm);
    }
    if (with_pointwise) {
      const plan::Step* after = OnlyReaderOf(l_, l_.out(0).storage);
      LS_ASSIGN_OR_RETURN(const bool added, AddPointwise(after));
      if (!added) return std::optional<Fusion>();
      fusion.steps.push_back(after);
    }
    const Lowering all = Whole(fusion.steps.back());
    if (!ServesPanels(all, product_) || !IsSafe(l_, fusion)) return std::optional<Fusion>();
    fusion.dispatches = {PanelGemv(all, product_)};
    return std::optional<Fusion>(std::move(fusion));
  }

 private:
  Lowering Whole(const plan::Step* last) const {
    return {l_.graph,  l_.plan,     *step_,    &l_.graph.nodes[last->node],
            l_.limits, l_.features, l_.tuning, l_.locations};
  }

  size_t AddInput(const plan::Operand& operand) {
    step_->inputs.push_back(operand);
    return step_->inputs.size() - 1;
  }

  void AddNorm(const plan::Step& norm) {
    step_->inputs[0] = norm.inputs[0];
    product_.normed = true;
    product_.epsilon = l_.graph.nodes[norm.node].Float("eps");
    if (norm.inputs.size() > 1 && norm.inputs[1].storage != plan::kNoStorage)
      product_.norm_weight = AddInput(norm.inputs[1]);
  }

  Result<bool> AddPointwise(const plan::Step* after) {
    if (!IsOp(l_, after, ops::kPointwise)) return false;
    const ir::Node& node = l_.graph.nodes[after->node];
    const ir::Dims &out = l_.graph.type(node.outputs[0]).dims, &whole = l_.out_dims(0);
    if (out.size() != whole.size() || !out.back().is_int() ||
        !std::equal(out.begin(), out.end() - 1, whole.begin()) ||
        after->outputs[0].dtype != l_.out(0).dtype)
      return false;
    const std::vector<uint32_t> producers = l_.graph.Producers();
    std::vector<PointwiseLoad> loads;
    product_.joined.clear();
    for (const plan::Operand& operand : after->inputs) {
      if (operand.storage != l_.out(0).storage) {
        loads.push_back({.input = AddInput(operand)});
        continue;
      }
      const int64_t from = ColumnsFrom(l_, operand.value, producers);
      if (from < 0 || l_.graph.type(operand.value).dims != out) return false;
      auto& joined = product_.joined;
      auto at = std::find(joined.begin(), joined.end(), from);
      if (at == joined.end()) at = joined.insert(joined.end(), from);
      loads.push_back({.given = fmt::format("joined{}", at - joined.begin())});
    }
    product_.columns = out.back().value();
    step_->outputs = after->outputs;
    step_->params_at = after->params_at;
    step_->param_count = after->param_count;
    LS_ASSIGN_OR_RETURN(PointwiseValue value,
                        MakePointwiseValue(Whole(after), node.Program(), loads));
    product_.value = std::move(value.body);
    product_.value_params = std::move(value.params);
    return !value.fails && !product_.joined.empty();
  }

  const Lowering& l_;
  std::shared_ptr<plan::Step> step_;
  PanelProduct product_;
};

}  // namespace

// As much as can be: of a norm that others read too, or a program that reads more than this product, the rest stays.
Result<std::optional<Fusion>> FuseLinear(const Lowering& l) {
  if (l.constant(1) == nullptr) return std::optional<Fusion>();
  for (const auto& [norm, pointwise] : {std::pair(true, true), {true, false}, {false, true}}) {
    LS_ASSIGN_OR_RETURN(std::optional<Fusion> fusion, LinearFuser(l).Make(norm, pointwise));
    if (fusion) return fusion;
  }
  return std::optional<Fusion>();
}

}  // namespace liveshape::webgpu
