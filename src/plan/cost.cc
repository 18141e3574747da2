#include "plan/cost.h"

#include <algorithm>
#include <set>

namespace liveshape::plan {
namespace {

class CostMaker {
 public:
  CostMaker(const ir::Graph& graph, const Plan& plan, size_t alignment)
      : graph_(graph),
        plan_(plan),
        table_(graph.table()),
        zero_(table_.Int(0)),
        alignment_(table_.Int(static_cast<int64_t>(alignment))) {}

  CostModel Make() {
    FollowViews();
    model_.total = {zero_, zero_, zero_, zero_, zero_, zero_};
    for (const Step& step : plan_.steps) {
      model_.steps.push_back(OfStep(step));
      model_.total.flops = model_.total.flops + model_.steps.back().flops;
      model_.total.needed_flops = model_.total.needed_flops + model_.steps.back().needed_flops;
      model_.total.bytes = model_.total.bytes + model_.steps.back().bytes;
    }
    AddLive();
    return std::move(model_);
  }

 private:
  // Elements of each value that exist in memory: a view node that is no step repeats what it expands.
  void FollowViews() {
    std::vector<bool> runs(graph_.nodes.size(), false);
    for (const Step& step : plan_.steps)
      if (step.node != ir::Graph::kNoNode) runs[step.node] = true;
    std::vector<ir::Layout> layouts(graph_.values.size());
    for (ValueId v = 0; v < graph_.values.size(); ++v)
      layouts[v] = ir::ContiguousLayout(table_, graph_.type(v).dims);
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
      const ir::Node& node = graph_.nodes[n];
      if (runs[n] || !node.op->view) continue;
      const ir::TensorType* type = &graph_.type(node.inputs[0]);
      const ValueId out = node.outputs[0];
      if (auto layout =
              node.op->view({table_, node, {&type, 1}}, graph_.type(out), layouts[node.inputs[0]]))
        layouts[out] = std::move(*layout);
    }
    for (ValueId v = 0; v < graph_.values.size(); ++v) {
      Expr elements = table_.Int(1);
      const Dims& dims = graph_.type(v).dims;
      for (size_t d = 0; d < dims.size(); ++d)
        if (!layouts[v].strides[d].is_int(0)) elements = elements * dims[d];
      distinct_.push_back(elements);
    }
  }

  Expr Numel(ValueId value) const { return sym::Product(table_, graph_.type(value).dims); }

  // All elements that `operand` has in memory: as the view has them, or as the planner's copy of it does.
  Expr Distinct(const Operand& operand) const {
    return copies_.contains({operand.value, operand.storage}) ? Numel(operand.value)
                                                              : distinct_[operand.value];
  }

  Expr Bytes(const Operand& operand, Expr elements) const {
    const Storage& storage = plan_.storages[operand.storage];
    if (storage.place == Place::kConstant) {
      const ir::Constant& constant = graph_.constants[storage.index];
      const Expr stored = table_.Int(static_cast<int64_t>(ir::StoredBytes(constant).value_or(0)));
      const Expr all = Numel(constant.value);
      if (elements == all) return stored;
      if (constant.encoding != ir::Encoding::kPlain) return CeilDiv(elements * stored, all);
    }
    return elements * static_cast<int64_t>(SizeOf(operand.dtype));
  }

  Costs<Expr> OfStep(const Step& step) {
    const bool is_copy = step.node == ir::Graph::kNoNode;
    const ir::Cost cost = is_copy ? ir::Cost{} : OfNode(graph_.nodes[step.node]);
    const int takes_over = is_copy ? -1 : graph_.nodes[step.node].op->in_place_input;
    Expr bytes = zero_;
    std::set<std::pair<ValueId, StorageId>> seen;  // x + x reads x once
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const Operand& input = step.inputs[i];
      if (input.storage == kNoStorage || !seen.insert({input.value, input.storage}).second)
        continue;
      const bool copied_whole = static_cast<int>(i) == takes_over && !step.in_place;
      const bool told = i < cost.reads.size() && cost.reads[i] && !copied_whole;
      bytes = bytes + Bytes(input, told ? cost.reads[i] : Distinct(input));
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const bool part = i == 0 && step.in_place && cost.written_in_place;
      bytes = bytes +
              Bytes(step.outputs[i], part ? cost.written_in_place : Numel(step.outputs[i].value));
    }
    if (is_copy) copies_.insert({step.outputs[0].value, step.outputs[0].storage});
    const Expr flops = cost.flops ? cost.flops : zero_;
    return {flops, cost.needed ? cost.needed : flops, bytes, zero_, zero_, zero_};
  }

  ir::Cost OfNode(const ir::Node& node) const {
    if (!node.op->cost) return {};
    std::vector<const ir::TensorType*> types;
    for (const ValueId in : node.inputs)
      types.push_back(in == ir::kNoValue ? nullptr : &graph_.type(in));
    return node.op->cost({table_, node, types}, graph_.type(node.outputs[0]));
  }

  Expr Rounded(const Storage& s) const {
    return CeilDiv(Max(s.bytes, zero_), alignment_) * alignment_;
  }

  void AddLive() {
    std::vector<Expr> tensors(plan_.steps.size() + 1, zero_), scratch;  // the last: after the run
    for (const Storage& s : plan_.storages)
      if (s.place == Place::kArena && !s.scratch)
        for (size_t t = s.first_step; t <= s.last_step && t < tensors.size(); ++t)
          tensors[t] = tensors[t] + Rounded(s);
    std::vector<Expr> live = tensors;
    for (size_t t = 0; t < plan_.steps.size(); ++t) {
      if (const StorageId id = plan_.steps[t].scratch; id != kNoStorage) {
        scratch.push_back(model_.steps[t].scratch = Rounded(plan_.storages[id]));
        live[t] = tensors[t] + scratch.back();
      }
      model_.steps[t].live = live[t];
      model_.steps[t].tensors = tensors[t];
    }
    model_.total.live = Largest(std::move(live));
    model_.total.tensors = Largest(std::move(tensors));
    model_.total.scratch = Largest(std::move(scratch));
  }

  // The maximum, without the sums that another is provably never below.
  Expr Largest(std::vector<Expr> sums) const {
    std::sort(sums.begin(), sums.end(), [](Expr a, Expr b) { return a.id() < b.id(); });
    sums.erase(std::unique(sums.begin(), sums.end()), sums.end());
    std::vector<Expr> kept;
    for (const Expr sum : sums) {
      const auto below = [&](Expr a, Expr b) { return table_.Bounds(b - a).lo >= 0; };
      if (std::any_of(kept.begin(), kept.end(), [&](Expr other) { return below(sum, other); }))
        continue;
      std::erase_if(kept, [&](Expr other) { return below(other, sum); });
      kept.push_back(sum);
    }
    return kept.empty() ? zero_ : table_.Make(sym::Kind::kMax, kept);
  }

  const ir::Graph& graph_;
  const Plan& plan_;
  sym::Table& table_;
  const Expr zero_, alignment_;
  CostModel model_;
  std::vector<Expr> distinct_;                      // a value
  std::set<std::pair<ValueId, StorageId>> copies_;  // dense ones that the planner inserted
};

Result<Costs<int64_t>> Evaluate(const Costs<Expr>& costs, std::span<const int64_t> values) {
  const sym::Table& table = costs.flops.table();
  Costs<int64_t> at;
  LS_ASSIGN_OR_RETURN(at.flops, table.Evaluate(costs.flops, values));
  LS_ASSIGN_OR_RETURN(at.needed_flops, table.Evaluate(costs.needed_flops, values));
  LS_ASSIGN_OR_RETURN(at.bytes, table.Evaluate(costs.bytes, values));
  LS_ASSIGN_OR_RETURN(at.live, table.Evaluate(costs.live, values));
  LS_ASSIGN_OR_RETURN(at.tensors, table.Evaluate(costs.tensors, values));
  LS_ASSIGN_OR_RETURN(at.scratch, table.Evaluate(costs.scratch, values));
  return at;
}

}  // namespace

CostModel MakeCostModel(const ir::Graph& graph, const Plan& plan, const Rules& rules) {
  return CostMaker(graph, plan, rules.alignment).Make();
}

Result<CostPoint> CostModel::At(const Plan& plan, std::span<const int64_t> symbol_values) const {
  std::vector<int64_t> block(plan.program.block_size());
  plan.program.SetSymbols(symbol_values, block);
  for (sym::Stage stage = 0; stage < plan.program.stage_count(); ++stage)
    if (Status s = plan.program.Run(stage, block); !s.ok())
      return std::move(s).Prefixed(stage == 0 ? "bind" : "run");
  CostPoint point;
  for (const Costs<Expr>& step : steps) {
    LS_ASSIGN_OR_RETURN(point.steps.emplace_back(), Evaluate(step, symbol_values));
  }
  LS_ASSIGN_OR_RETURN(point.total, Evaluate(total, symbol_values));
  return point;
}

}  // namespace liveshape::plan
