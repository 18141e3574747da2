#include "ops/attention/npu_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/npu/values/element.h"

namespace liveshape::npu {
namespace {

constexpr float kNegativeInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kStateFloats = 4;
constexpr int64_t kKeysAtOnce = 8;  // sums that do not wait for one another

}  // namespace

ValueFunction ScoreValues(const AttentionNumbers& numbers) {
  return [dtype = numbers.dtype](const ValueCall& call) {
    const int64_t rows = call.record.extent[1], depth = call.record.extent[2],
                  keys = call.record.extent[3];
    float* const scores = call.as<float>(0);
    const auto fill = [&](const auto& q, const auto& k) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t t = 0; t < keys; t += kKeysAtOnce) {
          float sums[kKeysAtOnce] = {};
          const int64_t n = std::min(kKeysAtOnce, keys - t);
          for (int64_t d = 0; d < depth; ++d)
            for (int64_t j = 0; j < n; ++j) sums[j] += q(r * depth + d) * k((t + j) * depth + d);
          std::copy_n(sums, n, scores + r * keys + t);
        }
    };
    if (dtype == DType::kF32)
      fill([q = call.as<float>(1)](int64_t i) { return q[i]; },
           [k = call.as<float>(2)](int64_t i) { return k[i]; });
    else
      fill([&](int64_t i) { return LoadFloat(dtype, call.operand[1], i); },
           [&](int64_t i) { return LoadFloat(dtype, call.operand[2], i); });
    return Status();
  };
}

// A key that is not seen has weight 0, by a predicate: what lies behind a mask may be anything.
ValueFunction SoftmaxValues(const AttentionNumbers& numbers) {
  return [numbers](const ValueCall& call) {
    const int64_t rows = call.record.extent[0], keys = call.record.extent[1];
    const int64_t* const argument = call.record.argument;
    const bool first = argument[0] != 0;
    const int64_t key0 = argument[1], position0 = argument[2], positions = argument[3],
                  limit = argument[4];
    const size_t mask_at = 2, limits_at = numbers.mask ? 3 : 2;
    for (int64_t r = 0; r < rows; ++r) {
      float* const row = call.as<float>(0) + r * keys;
      float* const state = call.as<float>(1) + r * kStateFloats;
      int64_t visible = std::numeric_limits<int64_t>::max();
      if (numbers.has_limit) visible = limit + position0 + r % positions;
      if (numbers.has_row_limits) visible = std::min(visible, call.as<int64_t>(limits_at)[r]);
      const float before = first ? kNegativeInfinity : state[0];
      float most = before;
      for (int64_t t = 0; t < keys; ++t) {
        bool seen = key0 + t < visible;
        if (seen) {
          row[t] *= numbers.scale;
          if (numbers.mask == DType::kBool)
            seen = call.as<uint8_t>(mask_at)[r * keys + t] != 0;
          else if (numbers.mask)
            row[t] += LoadFloat(*numbers.mask, call.operand[mask_at], r * keys + t);
        }
        if (!seen) row[t] = kNegativeInfinity;
        most = std::max(most, row[t]);
      }
      const float factor = before == kNegativeInfinity ? 0 : std::exp(before - most);
      float total = first ? 0 : state[1] * factor;
      for (int64_t t = 0; t < keys; ++t) {
        row[t] = row[t] == kNegativeInfinity ? 0 : std::exp(row[t] - most);
        total += row[t];
      }
      state[0] = most;
      state[1] = total;
      state[2] = factor;
      state[3] = 0;
    }
    return Status();
  };
}

ValueFunction ClearValues() {
  return [](const ValueCall& call) {
    const int64_t rows = call.record.extent[0], width = call.record.extent[1];
    std::fill_n(call.as<float>(0), rows * width, 0.0f);
    std::fill_n(call.as<float>(1), rows * kStateFloats, 0.0f);
    return Status();
  };
}

ValueFunction RescaleValues() {
  return [](const ValueCall& call) {
    const int64_t rows = call.record.extent[0], width = call.record.extent[1];
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t e = 0; e < width; ++e)
        call.as<float>(0)[r * width + e] *= call.as<float>(1)[r * kStateFloats + 2];
    return Status();
  };
}

ValueFunction WeightedSumValues(const AttentionNumbers& numbers) {
  return [dtype = numbers.dtype](const ValueCall& call) {
    const int64_t rows = call.record.extent[1], keys = call.record.extent[2],
                  width = call.record.extent[3];
    float* const sums = call.as<float>(0);
    if (call.record.argument[0] != 0) std::fill_n(sums, rows * width, 0.0f);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t t = 0; t < keys; ++t) {
        const float weight = call.as<float>(1)[r * keys + t];
        if (weight == 0) continue;
        float* const __restrict row = sums + r * width;
        if (dtype == DType::kF32) {
          const float* const v = call.as<float>(2) + t * width;
          for (int64_t e = 0; e < width; ++e) row[e] += weight * v[e];
        } else {
          for (int64_t e = 0; e < width; ++e)
            row[e] += weight * LoadFloat(dtype, call.operand[2], t * width + e);
        }
      }
    return Status();
  };
}

ValueFunction SumOfValues(const AttentionNumbers& numbers) {
  return [dtype = numbers.dtype](const ValueCall& call) {
    const int64_t keys = call.record.extent[0], width = call.record.extent[1];
    float* const sums = call.as<float>(0);
    if (call.record.argument[0] != 0) std::fill_n(sums, width, 0.0f);
    for (int64_t t = 0; t < keys; ++t)
      for (int64_t e = 0; e < width; ++e)
        sums[e] += LoadFloat(dtype, call.operand[1], t * width + e);
    return Status();
  };
}

ValueFunction FinishValues(const AttentionNumbers& numbers) {
  return [numbers](const ValueCall& call) {
    const int64_t rows = call.record.extent[0], width = call.record.extent[1];
    const float keys = static_cast<float>(call.record.argument[0]);
    for (int64_t r = 0; r < rows; ++r) {
      const float total = call.as<float>(2)[r * kStateFloats + 1];
      for (int64_t e = 0; e < width; ++e) {
        float value = call.as<float>(1)[r * width + e] / total;
        if (total == 0)
          value = numbers.all_masked == "zero"  ? 0
                  : numbers.all_masked == "nan" ? std::numeric_limits<float>::quiet_NaN()
                  : keys == 0                   ? std::numeric_limits<float>::quiet_NaN()
                                                : call.as<float>(3)[e] / keys;
        StoreFloat(numbers.dtype, call.operand[0], r * width + e, value);
      }
    }
    return Status();
  };
}

}  // namespace liveshape::npu
