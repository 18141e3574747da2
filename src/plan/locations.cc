#include "plan/locations.h"

namespace liveshape::plan {

// As the planner walks: what no step makes is a view, everything else is dense.
Locations::Locations(const ir::Graph& graph, const Plan& plan)
    : graph_(graph), layouts_(graph.values.size()), storages_(graph.values.size(), kNoStorage) {
  sym::Table& table = graph.table();
  const auto dense = [&](ir::ValueId value, StorageId storage) {
    layouts_[value] = ir::ContiguousLayout(table, graph.type(value).dims);
    storages_[value] = storage;
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (graph.inputs[i].value != ir::kNoValue) dense(graph.inputs[i].value, plan.input_storage[i]);
  for (size_t i = 0; i < graph.constants.size(); ++i)
    dense(graph.constants[i].value, plan.constant_storage[i]);
  for (size_t i = 0; i < graph.states.size(); ++i)
    dense(graph.states[i].value, plan.state_storage[i]);
  std::vector<const Step*> step_of(graph.nodes.size(), nullptr);
  for (const Step& step : plan.steps)
    if (step.node != ir::Graph::kNoNode) step_of[step.node] = &step;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    if (const Step* step = step_of[n]) {
      for (size_t i = 0; i < node.outputs.size(); ++i)
        dense(node.outputs[i], step->outputs[i].storage);
    } else if (node.op->view != nullptr) {
      const ir::ValueId in = node.inputs[0], out = node.outputs[0];
      const ir::TensorType* type = &graph.type(in);
      auto layout = node.op->view({table, node, {&type, 1}}, graph.type(out), layouts_[in]);
      LS_CHECK(layout);  // else the planner would have made a step of it
      layouts_[out] = *std::move(layout);
      storages_[out] = storages_[in];
    }
  }
}

ir::Layout Locations::Of(const Operand& operand) const {
  // Another storage than the value's own is a dense copy of it.
  if (operand.storage == storages_[operand.value]) return layouts_[operand.value];
  return ir::ContiguousLayout(graph_.table(), graph_.type(operand.value).dims);
}

}  // namespace liveshape::plan
