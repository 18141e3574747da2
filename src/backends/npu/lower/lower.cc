#include "backends/npu/lower/product.h"
#include "ops/ops.h"

namespace liveshape::npu {
plan::Rules PlanRules() {
  return {.alignment = 64, .need = {}, .scratch = {}, .linger = kFusionReach};
}

namespace {

class ModelLowering {
 public:
  ModelLowering(const ir::Graph& graph, const plan::Plan& plan, const Target& target)
      : graph_(graph),
        plan_(plan),
        target_(target),
        locations_(graph, plan),
        absorbed_(AbsorbCopies(graph, plan, locations_)) {}

  Result<Model> Run() {
    LS_ASSIGN_OR_RETURN(const std::vector<Fusion> fusions,
                        FindFusions(graph_, plan_, locations_, absorbed_, target_));
    fusion_of_.assign(plan_.steps.size(), nullptr);
    for (const Fusion& fusion : fusions)
      for (const plan::Step* step : fusion.steps()) fusion_of_[IndexOf(*step)] = &fusion;
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (absorbed_.dropped[s]) continue;
      const plan::Step& step = plan_.steps[s];
      LS_RETURN_IF_ERROR(fusion_of_[s] ? LowerFused(step, *fusion_of_[s])
                                       : LowerStep(step, nullptr, {}));
    }
    return std::move(model_);
  }

 private:
  size_t IndexOf(const plan::Step& step) const {
    return static_cast<size_t>(&step - plan_.steps.data());
  }

  // A fusion runs at the place of its last step. If it needs whole rows it does so at the sizes at which they fit a
  // tile; at the others it ends before them, and what remains are kernels of their own.
  Status LowerFused(const plan::Step& step, const Fusion& fusion) {
    const size_t before_rows = fusion.before_rows();
    const bool last = &step == fusion.stages.back().step;
    if (before_rows == fusion.stages.size())
      return last ? LowerStep(*fusion.product, &fusion, {}) : Status();
    sym::Table& table = graph_.table();
    const Expr columns = graph_.type(fusion.result().value).dims.back();
    const Expr longest = table.Int(LongestRow(target_, fusion));
    if (last) LS_RETURN_IF_ERROR(LowerStep(*fusion.product, &fusion, sym::Le(columns, longest)));
    const Expr too_long = sym::Lt(longest, columns);
    for (size_t i = before_rows; i < fusion.stages.size(); ++i)
      if (&step == fusion.stages[i].step) return LowerStep(step, nullptr, too_long);
    if (before_rows == 0) return LowerStep(step, nullptr, too_long);
    if (&step != fusion.stages[before_rows - 1].step) return {};
    Fusion shorter = fusion;
    shorter.stages.resize(before_rows);
    return LowerStep(*fusion.product, &shorter, too_long);
  }

  Status LowerStep(const plan::Step& step, const Fusion* fusion, Expr when) {
    if (when && when.is_int(0)) return {};
    const ir::Node* node = step.node == ir::Graph::kNoNode ? nullptr : &graph_.nodes[step.node];
    const ir::OpDef& op = node ? *node->op : ops::kCopy;
    const NpuOp* const found = FindOp(op);
    if (found == nullptr)
      return Unsupported("the NPU has no tile lowering for `{}`{}", op.name,
                         node ? fmt::format(" ({})", ir::Describe(*node)) : "");
    std::string name = fmt::format("k{}_{}", IndexOf(step), op.name);
    if (fusion)
      for (const FusedStage& stage : fusion->stages)
        name += fmt::format("_{}", stage.node->op->name);
    const Lowering lowering{graph_,
                            plan_,
                            step,
                            node,
                            target_,
                            locations_,
                            std::move(name),
                            absorbed_.instead[IndexOf(step)],
                            fusion,
                            when && when.is_int() ? Expr() : when};
    return found->lower(lowering, model_.kernels).Prefixed(node ? ir::Describe(*node) : "a copy");
  }

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  const Target& target_;
  const plan::Locations locations_;
  const Absorbed absorbed_;
  std::vector<const Fusion*> fusion_of_;  // by step
  Model model_;
};

}  // namespace

Result<Model> Lower(const ir::Graph& graph, const plan::Plan& plan, const Target& target) {
  return ModelLowering(graph, plan, target).Run();
}

Result<std::vector<int64_t>> ShapeArgs(const Kernel& kernel,
                                       std::span<const int64_t> symbol_values) {
  std::vector<int64_t> args;
  for (Expr e : kernel.shape_args) {
    LS_ASSIGN_OR_RETURN(args.emplace_back(), e.table().Evaluate(e, symbol_values));
  }
  return args;
}

}  // namespace liveshape::npu
