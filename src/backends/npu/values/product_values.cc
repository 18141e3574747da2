#include "backends/npu/values/product_values.h"

#include <algorithm>
#include <cstring>

#include "backends/npu/values/element.h"
#include "backends/npu/values/multiply.h"
#include "ops/linear/quantised.h"

namespace liveshape::npu {
namespace {

// As MultiplyAdd, of halves.
template <typename A, typename B>
void Multiply(const ls_trace_compute& record, float* c, const A& a, const B& b) {
  const int64_t m = record.extent[1], k = record.extent[2], n = record.extent[3];
  for (int64_t i = 0; i < m; ++i) {
    float* const __restrict row = c + i * n;
    for (int64_t j = 0; j < k; ++j) {
      const float factor = a(i * k + j);
      for (int64_t l = 0; l < n; ++l) row[l] += factor * b(j * n + l);
    }
  }
}

}  // namespace

ValueFunction MultiplyValues(DType a, DType b) {
  return [a, b](const ValueCall& call) {
    const int64_t* const extent = call.record.extent;
    float* const c = call.as<float>(0);
    if (call.record.argument[0] != 0) std::fill_n(c, extent[1] * extent[3], 0.0f);
    const auto left = [&](int64_t i) { return LoadFloat(a, call.operand[1], i); };
    if (extent[2] == 0) {
      return Status();  // nothing was loaded
    } else if (a == DType::kF32 && b == DType::kF32) {
      MultiplyAdd({c, call.as<float>(1), call.as<float>(2), extent[1], extent[2], extent[3]});
    } else if (b == DType::kF32) {
      const float* const right = call.as<float>(2);
      Multiply(call.record, c, left, [right](int64_t i) { return right[i]; });
    } else {
      Multiply(call.record, c, left, [&](int64_t i) { return LoadFloat(b, call.operand[2], i); });
    }
    return Status();
  };
}

ValueFunction BiasValues(DType bias) {
  return [bias](const ValueCall& call) {
    const int64_t m = call.record.extent[0], n = call.record.extent[1];
    float* const c = call.as<float>(0);
    for (int64_t i = 0; i < m * n; ++i) c[i] += LoadFloat(bias, call.operand[1], i % n);
    return Status();
  };
}

ValueFunction RoundValues(DType out) {
  return [out](const ValueCall& call) {
    const int64_t n = call.record.extent[0] * call.record.extent[1];
    const float* const c = call.as<float>(1);
    for (int64_t i = 0; i < n; ++i) StoreFloat(out, call.operand[0], i, c[i]);
    return Status();
  };
}

ValueFunction ZeroValues(DType dtype) {
  return [dtype](const ValueCall& call) {
    const int64_t n = call.record.extent[0] * call.record.extent[1];
    std::memset(call.operand[0], 0, static_cast<size_t>(n) * SizeOf(dtype));
    return Status();
  };
}

ValueFunction DequantiseValues(int bits) {
  return [bits](const ValueCall& call) {
    const int64_t k = call.record.extent[0], n = call.record.extent[1];
    float* const b = call.as<float>(0);
    const auto fill = [&](auto* blocks) {
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < k; ++i) b[i * n + j] = ops::QuantisedAt(blocks, k, j, i);
    };
    if (bits == 8)
      fill(call.as<const ops::QuantBlock<8>>(1));
    else
      fill(call.as<const ops::QuantBlock<4>>(1));
    return Status();
  };
}

}  // namespace liveshape::npu
