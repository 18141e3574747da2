#include "runtime/resident.h"

#include <algorithm>

namespace liveshape {

void ResidentInputs::Prepare(std::span<const int> ranks) {
  for (const int rank : ranks) {
    Input& input = inputs_.emplace_back();
    input.can_hold = rank >= 0;
    input.dims.resize(static_cast<size_t>(std::max(rank, 0)));
  }
}

Status ResidentInputs::Check(std::span<const TensorRef> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].data != nullptr || inputs[i].bytes() == 0) continue;
    if (i >= inputs_.size() || !inputs_[i].can_hold)
      return InvalidArgument("run: input {} has no data", i);
    if (!inputs_[i].holds || inputs_[i].dims != inputs[i].dims)
      return InvalidArgument("run: input {} has no data, and the device holds {} of it", i,
                             inputs_[i].holds ? "another shape" : "nothing");
  }
  return {};
}

void ResidentInputs::Forget() {
  for (Input& input : inputs_) input.holds = false;
}

void ResidentInputs::Hold(size_t input, std::span<const int64_t> dims) {
  if (!inputs_[input].can_hold) return;
  std::copy(dims.begin(), dims.end(), inputs_[input].dims.begin());
  inputs_[input].holds = true;
}

}  // namespace liveshape
