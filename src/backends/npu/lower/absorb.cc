#include "backends/npu/lower/absorb.h"

#include <algorithm>

#include "ops/ops.h"
#include "plan/late.h"
#include "sym/axis_split.h"

namespace liveshape::npu {
namespace {

using plan::Operand;
using plan::Step;

// Where dims cut the axis of all elements, from the inside.
void AddBoundaries(sym::Table& table, const ir::Dims& dims, std::vector<sym::Expr>& boundaries) {
  sym::Expr product = table.Int(1);
  for (size_t d = dims.size(); d-- > 0;) boundaries.push_back(product = product * dims[d]);
}

class Absorber {
 public:
  Absorber(const ir::Graph& graph, const plan::Plan& plan, const plan::Locations& locations)
      : graph_(graph), plan_(plan), locations_(locations) {}

  Absorbed Run() {
    Absorbed absorbed{std::vector<bool>(plan_.steps.size(), false), {}};
    absorbed.instead.resize(plan_.steps.size());
    for (size_t s = 0; s < plan_.steps.size(); ++s) {
      if (!IsCopy(plan_.steps[s])) continue;
      std::vector<std::pair<size_t, size_t>> readers;
      if (!FindReaders(s, readers)) continue;
      absorbed.dropped[s] = true;
      for (const auto& [step, input] : readers)
        absorbed.instead[step][input] = &plan_.steps[s].inputs[0];
    }
    return absorbed;
  }

 private:
  bool IsCopy(const Step& step) const {
    if (step.commits_state || step.outputs.size() != 1 ||
        plan_.storages[step.outputs[0].storage].place != plan::Place::kArena)
      return false;
    const ir::OpDef* op =
        step.node == ir::Graph::kNoNode ? &ops::kCopy : graph_.nodes[step.node].op;
    return op == &ops::kCopy || op == &ops::kReshape;
  }

  // All who read what step `s` writes, if each can do without.
  bool FindReaders(size_t s, std::vector<std::pair<size_t, size_t>>& readers) const {
    const plan::StorageId copy = plan_.steps[s].outputs[0].storage;
    for (const plan::PlannedOutput& output : plan_.outputs)
      if (output.operand.storage == copy) return false;
    for (const plan::Birth& birth : plan_.births)
      if (birth.from.storage == copy) return false;
    for (size_t t = 0; t < plan_.steps.size(); ++t) {
      const Step& step = plan_.steps[t];
      for (const Operand& output : step.outputs)
        if (t != s && output.storage == copy) return false;
      for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.inputs[i].storage != copy) continue;
        if (!CanReadSource(s, t, step.inputs[i])) return false;
        readers.emplace_back(t, i);
      }
    }
    return !readers.empty();
  }

  bool CanReadSource(size_t s, size_t t, const Operand& operand) const {
    const Step& reader = plan_.steps[t];
    if (t <= s || reader.node == ir::Graph::kNoNode) return false;
    const ir::Node& node = graph_.nodes[reader.node];
    if (node.op != &ops::kPointwise) return false;
    for (const ir::PwInstr& instr : node.Program().code)
      if (instr.op == ir::PwOp::kIota) return false;  // asks for indices along the dims it has
    const ir::Layout layout = locations_.Of(operand);
    const ir::Dims& dims = graph_.type(operand.value).dims;
    if (!layout.offset.is_int(0) || !ir::IsContiguous(layout, dims)) return false;
    const Operand& source = plan_.steps[s].inputs[0];
    const Step* const steps[] = {&plan_.steps[s], &reader};
    if (!plan::ReadsSurvive(plan_, steps)) return false;
    std::vector<sym::Expr> boundaries;
    AddBoundaries(graph_.table(), dims, boundaries);
    AddBoundaries(graph_.table(), graph_.type(source.value).dims, boundaries);
    return sym::AxisSplit(graph_.table(), sym::Product(graph_.table(), dims), boundaries)
        .has_value();
  }

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  const plan::Locations& locations_;
};

}  // namespace

Absorbed AbsorbCopies(const ir::Graph& graph, const plan::Plan& plan,
                      const plan::Locations& locations) {
  return Absorber(graph, plan, locations).Run();
}

}  // namespace liveshape::npu
