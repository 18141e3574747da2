#include "backends/npu/lower/fuse.h"

#include <algorithm>

#include "ops/linear/panel.h"
#include "ops/ops.h"
#include "plan/late.h"

namespace liveshape::npu {
namespace {

using plan::Operand;
using plan::Step;

// Parts and strips take scratchpad from the sums.
constexpr size_t kMostStages = 4, kMostOperands = 8, kMostParts = 2;

class Finder {
 public:
  Finder(const ir::Graph& graph, const plan::Plan& plan, const plan::Locations& locations,
         const Absorbed& absorbed, const Target& target)
      : graph_(graph),
        plan_(plan),
        locations_(locations),
        absorbed_(absorbed),
        target_(target),
        taken_(absorbed.dropped),
        producers_(graph.Producers()) {}

  Result<std::vector<Fusion>> Run() {
    std::vector<Fusion> fusions;
    // From the end: of two products that one chain reads, the later one takes it.
    for (size_t s = plan_.steps.size(); s-- > 0;) {
      const Step& product = plan_.steps[s];
      const NpuOp* const op = OpOf(product);
      if (taken_[s] || op == nullptr || op->stages == Stages::kNone) continue;
      Fusion fusion{&product, {}, {graph_.table().Int(0)}};
      while (true) {
        LS_ASSIGN_OR_RETURN(const bool more, Extend(*op, fusion));
        if (!more) break;
      }
      if (fusion.stages.empty()) continue;
      for (const Step* step : fusion.steps()) taken_[IndexOf(*step)] = true;
      fusions.push_back(std::move(fusion));
    }
    return fusions;
  }

 private:
  size_t IndexOf(const Step& step) const { return static_cast<size_t>(&step - plan_.steps.data()); }
  const ir::Node* NodeOf(const Step& step) const {
    return step.node == ir::Graph::kNoNode ? nullptr : &graph_.nodes[step.node];
  }
  const NpuOp* OpOf(const Step& step) const {
    const ir::Node* node = NodeOf(step);
    return node ? FindOp(*node->op) : nullptr;
  }
  const ir::Dims& DimsOf(const Operand& operand) const { return graph_.type(operand.value).dims; }

  static bool Reads(const Step& step, plan::StorageId storage) {
    return std::any_of(step.inputs.begin(), step.inputs.end(),
                       [&](const Operand& in) { return in.storage == storage; });
  }

  const Step* NextReader(plan::StorageId storage, const Step& after) const {
    for (size_t t = IndexOf(after) + 1; t < plan_.steps.size(); ++t)
      if (Reads(plan_.steps[t], storage)) return &plan_.steps[t];
    return nullptr;
  }

  // Does anybody but `reader` ask for what lies there?
  bool HasOthers(plan::StorageId storage, const Step& reader) const {
    const auto is = [&](const Operand& operand) { return operand.storage == storage; };
    return NextReader(storage, reader) != nullptr ||
           std::any_of(plan_.outputs.begin(), plan_.outputs.end(),
                       [&](const auto& output) { return is(output.operand); }) ||
           std::any_of(plan_.births.begin(), plan_.births.end(),
                       [&](const auto& birth) { return is(birth.from); });
  }

  // One stage more, if what follows can be one.
  Result<bool> Extend(const NpuOp& product_op, Fusion& fusion) {
    const Step& tail = fusion.stages.empty() ? *fusion.product : *fusion.stages.back().step;
    const Operand& result = tail.outputs[0];
    if (fusion.stages.size() == kMostStages || tail.outputs.size() != 1 || tail.in_place ||
        plan_.storages[result.storage].place != plan::Place::kArena)
      return false;
    const Step* const next = NextReader(result.storage, tail);
    if (next == nullptr || taken_[IndexOf(*next)] || !absorbed_.instead[IndexOf(*next)].empty() ||
        next->stage != fusion.product->stage || next->outputs.size() != 1 || next->in_place)
      return false;
    const NpuOp* const op = OpOf(*next);
    if (op == nullptr || op->stage == nullptr) return false;
    Fusion longer = fusion;
    FusedStage stage{next, NodeOf(*next), {}, {}};
    if (!FindParts(product_op, result, *next, longer, stage.part)) return false;
    const bool kept = HasOthers(result.storage, *next);
    if (kept && (longer.columns.size() > 1 || DimsOf(result) != DimsOf(next->outputs[0])))
      return false;
    (fusion.stages.empty() ? longer.product_kept : longer.stages.back().kept) = kept;

    const Lowering l{graph_, plan_, *next, stage.node, target_, locations_, "stage"};
    LS_ASSIGN_OR_RETURN(std::optional<Stage> found, op->stage(l));
    if (!found) return false;
    stage.stage = *std::move(found);
    const bool other_tiles = std::count(stage.part.begin(), stage.part.end(), kNotATile) + 1 !=
                             static_cast<std::ptrdiff_t>(stage.part.size());
    if (stage.stage.whole_rows &&
        (product_op.stages != Stages::kRows || stage.part[0] == kNotATile || other_tiles))
      return false;
    longer.stages.push_back(std::move(stage));
    if (!IsSafe(longer)) return false;
    fusion = std::move(longer);
    return true;
  }

  // Which inputs of `next` are the tile, whole or in slices of its columns.
  bool FindParts(const NpuOp& product_op, const Operand& result, const Step& next, Fusion& fusion,
                 std::vector<int>& parts) const {
    const ir::Dims& dims = DimsOf(next.outputs[0]);
    std::vector<Expr> columns;
    for (const Operand& in : next.inputs) {
      parts.push_back(kNotATile);
      if (in.storage != result.storage) continue;
      if (DimsOf(in) != dims) return false;
      Expr column = graph_.table().Int(0);
      if (in.value != result.value) {
        // By the form of the graph: whether strides look like a slice's may depend on sizes.
        const ir::Node* const slice = MakerOf(in.value);
        if (!fusion.stages.empty() || product_op.stages != Stages::kRows || slice == nullptr ||
            slice->op != &ops::kSlice || slice->inputs[0] != result.value ||
            slice->Int("dim") + 1 != static_cast<int64_t>(dims.size()) || slice->Int("step") != 1)
          return false;
        column = slice->Exprs("start")[0];
        if (!BeginsAPanel(*fusion.product, column)) return false;
      } else if (dims != DimsOf(result)) {
        return false;
      }
      const auto known = std::find(columns.begin(), columns.end(), column);
      parts.back() = static_cast<int>(known - columns.begin());
      if (known == columns.end()) columns.push_back(column);
    }
    if (columns.size() > kMostParts) return false;
    if (fusion.stages.empty()) fusion.columns = std::move(columns);
    return true;
  }

  // Panels of a packed weight are not cut.
  bool BeginsAPanel(const Step& product, Expr column) const {
    return std::none_of(product.inputs.begin(), product.inputs.end(), [&](const Operand& in) {
      if (in.storage == plan::kNoStorage) return false;
      const plan::Storage& storage = plan_.storages[in.storage];
      return storage.place == plan::Place::kConstant && graph_.constants[storage.index].packed() &&
             !(column.is_int() && column.value() % ops::kPanelRows == 0);
    });
  }

  const ir::Node* MakerOf(ir::ValueId value) const {
    return producers_[value] == ir::Graph::kNoNode ? nullptr : &graph_.nodes[producers_[value]];
  }

  bool IsSafe(const Fusion& fusion) const {
    const std::vector<const Step*> steps = fusion.steps();
    if (!plan::ReadsSurvive(plan_, steps)) return false;
    // A tile that is stored must not lie where another tile still reads.
    size_t operands = 0;
    for (const Step* step : steps) {
      if (step->inputs.size() + 1 > LS_TRACE_MAX_OPERANDS) return false;
      for (const Operand& in : step->inputs) {
        if (in.storage == plan::kNoStorage) continue;
        if (in.storage == fusion.result().storage) return false;
        operands += step == fusion.product ? 0 : 1;
      }
    }
    if (operands - fusion.stages.size() > kMostOperands) return false;
    // What is kept is there only when the last stage is done.
    for (size_t i = 0; i + 1 < steps.size(); ++i) {
      const Step* const other = NextReader(steps[i]->outputs[0].storage, *steps[i + 1]);
      if (other != nullptr && other <= steps.back()) return false;
    }
    return true;
  }

  const ir::Graph& graph_;
  const plan::Plan& plan_;
  const plan::Locations& locations_;
  const Absorbed& absorbed_;
  const Target& target_;
  std::vector<bool> taken_;          // by step
  std::vector<uint32_t> producers_;  // by value: its node
};

}  // namespace

std::vector<const Step*> Fusion::steps() const {
  std::vector<const Step*> all = {product};
  for (const FusedStage& stage : stages) all.push_back(stage.step);
  return all;
}

size_t Fusion::before_rows() const {
  const auto rows = std::find_if(stages.begin(), stages.end(),
                                 [](const FusedStage& stage) { return stage.stage.whole_rows; });
  return static_cast<size_t>(rows - stages.begin());
}

Result<std::vector<Fusion>> FindFusions(const ir::Graph& graph, const plan::Plan& plan,
                                        const plan::Locations& locations, const Absorbed& absorbed,
                                        const Target& target) {
  return Finder(graph, plan, locations, absorbed, target).Run();
}

}  // namespace liveshape::npu
