#include "plan/late.h"

#include <algorithm>

namespace liveshape::plan {

bool ReadsSurvive(const Plan& plan, std::span<const Step* const> steps) {
  const Step* const last = steps.back();
  const auto at = static_cast<uint32_t>(last - plan.steps.data());
  const auto writes = [](const Step& step, StorageId storage) {
    return std::any_of(step.outputs.begin(), step.outputs.end(),
                       [&](const Operand& out) { return out.storage == storage; });
  };
  for (const Step* step : steps.first(steps.size() - 1))
    for (const Operand& in : step->inputs) {
      if (in.storage == kNoStorage) continue;
      const Storage& storage = plan.storages[in.storage];
      if (storage.place == Place::kArena && storage.last_step < at) return false;
      for (const Step* later = step + 1; later <= last; ++later) {
        const bool inside =
            later != last && std::find(steps.begin(), steps.end(), later) != steps.end();
        if (!inside && writes(*later, in.storage)) return false;
      }
    }
  return true;
}

}  // namespace liveshape::plan
