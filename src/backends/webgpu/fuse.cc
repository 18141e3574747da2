#include "backends/webgpu/fuse.h"

#include <algorithm>

#include "plan/late.h"

namespace liveshape::webgpu {
namespace {

bool Has(const std::vector<plan::Operand>& operands, plan::StorageId storage) {
  return std::any_of(operands.begin(), operands.end(),
                     [&](const plan::Operand& o) { return o.storage == storage; });
}

bool IsSlot(const Lowering& l, plan::StorageId storage) {
  return storage != plan::kNoStorage && l.plan.storages[storage].place == plan::Place::kArena;
}

}  // namespace

const plan::Step* WriterOf(const Lowering& l, plan::StorageId storage) {
  if (!IsSlot(l, storage)) return nullptr;
  const plan::Step* found = nullptr;
  for (const plan::Step& step : l.plan.steps)
    if (Has(step.outputs, storage)) {
      if (found) return nullptr;
      found = &step;
    }
  return found;
}

const plan::Step* OnlyReaderOf(const Lowering& l, plan::StorageId storage) {
  if (!IsSlot(l, storage)) return nullptr;
  for (const plan::PlannedOutput& output : l.plan.outputs)
    if (output.operand.storage == storage) return nullptr;
  const plan::Step* found = nullptr;
  for (const plan::Step& step : l.plan.steps)
    if (Has(step.inputs, storage)) {
      if (found) return nullptr;
      found = &step;
    }
  return found;
}

bool IsSafe(const Lowering& l, const Fusion& fusion) {
  const plan::Step* last = fusion.steps.back();
  if (!plan::ReadsSurvive(l.plan, fusion.steps)) return false;
  const auto fused = [&](const plan::Step* step) {
    return std::find(fusion.steps.begin(), fusion.steps.end(), step) != fusion.steps.end();
  };
  for (const plan::Step* step : fusion.steps) {
    if (step->stage != last->stage) return false;
    if (step == last) break;
    for (const plan::Operand& out : step->outputs) {
      const plan::Step* reader = OnlyReaderOf(l, out.storage);
      if (reader == nullptr || !fused(reader) || WriterOf(l, out.storage) != step) return false;
    }
  }
  // What is written is not read by another invocation.
  return std::none_of(
      fusion.step->inputs.begin(), fusion.step->inputs.end(), [&](const plan::Operand& in) {
        return in.storage != plan::kNoStorage && Has(fusion.step->outputs, in.storage);
      });
}

}  // namespace liveshape::webgpu
