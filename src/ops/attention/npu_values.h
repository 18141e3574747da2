// Values of attention's codes; npu.cc says what they are for. Rows lie head by head: row r is position r % positions.
// State is four f32 a row: the maximum so far, the sum of weights, the factor that rescales what was summed before.
#pragma once

#include <optional>

#include "backends/npu/lower/kernel.h"

namespace liveshape::npu {

struct AttentionNumbers {
  DType dtype = DType::kF32;
  float scale = 1;
  std::string all_masked;
  bool has_limit = false, has_row_limits = false;
  std::optional<DType> mask = {};
};

ValueFunction ScoreValues(const AttentionNumbers& numbers);  // [1, rows, D, keys]: scores, q, k
// [rows, keys]: scores, state, mask?, row limits?; arguments: first, first key, first position, positions, limit
ValueFunction SoftmaxValues(const AttentionNumbers& numbers);
ValueFunction ClearValues();    // [rows, E]: sums, state: no key is seen
ValueFunction RescaleValues();  // [rows, E]: sums, state
ValueFunction WeightedSumValues(
    const AttentionNumbers& numbers);  // [1, rows, keys, E]: sums, scores, v; first
ValueFunction SumOfValues(const AttentionNumbers& numbers);  // [keys, E]: mean, v; first
ValueFunction FinishValues(
    const AttentionNumbers& numbers);  // [rows, E]: out, sums, state, mean?; keys

}  // namespace liveshape::npu
