// Which inputs a session need not be given again, because they lie on the backend's device from an earlier run.
#pragma once

#include <span>
#include <vector>

#include "liveshape/liveshape.h"

namespace liveshape {

class ResidentInputs {
 public:
  // `ranks` of the inputs, so that nothing is allocated later; -1: never resident (integers, host values).
  void Prepare(std::span<const int> ranks);
  bool CanHold(size_t input) const { return inputs_[input].can_hold; }

  // An input without data is served by what it holds, or refused.
  Status Check(std::span<const TensorRef> inputs) const;
  void Forget();                                           // a run failed: contents are unknown
  void Hold(size_t input, std::span<const int64_t> dims);  // given or fed, of these dims

 private:
  struct Input {
    bool can_hold = false, holds = false;
    std::vector<int64_t> dims;
  };
  std::vector<Input> inputs_;
};

}  // namespace liveshape
