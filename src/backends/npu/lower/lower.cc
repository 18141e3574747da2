#include "backends/npu/lower/absorb.h"
#include "backends/npu/lower/builder.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

const NpuOp* Find(const ir::OpDef& op) {
  for (const NpuOp* each : AllOps())
    if (each->op == &op) return each;
  return nullptr;
}

}  // namespace

plan::Rules PlanRules() { return {.alignment = 64, .need = {}, .scratch = {}}; }

Result<Model> Lower(const ir::Graph& graph, const plan::Plan& plan, const Target& target) {
  Model model;
  const plan::Locations locations(graph, plan);
  const Absorbed absorbed = AbsorbCopies(graph, plan, locations);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    if (absorbed.dropped[s]) continue;
    const plan::Step& step = plan.steps[s];
    const ir::Node* node = step.node == ir::Graph::kNoNode ? nullptr : &graph.nodes[step.node];
    const ir::OpDef& op = node ? *node->op : ops::kCopy;
    const NpuOp* const found = Find(op);
    if (found == nullptr)
      return Unsupported("the NPU has no tile lowering for `{}`{}", op.name,
                         node ? fmt::format(" ({})", ir::Describe(*node)) : "");
    const Lowering lowering{graph,
                            plan,
                            step,
                            node,
                            target,
                            locations,
                            fmt::format("k{}_{}", s, op.name),
                            absorbed.instead[s]};
    LS_RETURN_IF_ERROR(
        found->lower(lowering, model.kernels).Prefixed(node ? ir::Describe(*node) : "a copy"));
  }
  return model;
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
