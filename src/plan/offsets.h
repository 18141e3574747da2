// Fixed offsets for slots with known sizes and live ranges.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace liveshape::plan {

// Sets Storage::offset of every arena storage so that two whose live ranges meet never overlap; returns
// the arena's size.
size_t AssignOffsets(std::vector<Storage>& storages);

// The maximum over time of the sum of live slots: no plan can be smaller.
size_t LowerBound(const std::vector<Storage>& storages);

}  // namespace liveshape::plan
