#include "backends/npu/values/product_values.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

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

namespace {

// c (+)= left * b, left being [M, K], row-major.
void MultiplyInto(const ValueCall& call, DType a, const std::byte* left, DType b) {
  const int64_t* const extent = call.record.extent;
  float* const c = call.as<float>(0);
  if (call.record.argument[0] != 0) std::fill_n(c, extent[1] * extent[3], 0.0f);
  if (extent[2] == 0) return;  // nothing was loaded
  const auto from = [&](int64_t i) { return LoadFloat(a, left, i); };
  if (a == DType::kF32 && b == DType::kF32) {
    MultiplyAdd({c, reinterpret_cast<const float*>(left), call.as<float>(2), extent[1], extent[2],
                 extent[3]});
  } else if (b == DType::kF32) {
    const float* const right = call.as<float>(2);
    Multiply(call.record, c, from, [right](int64_t i) { return right[i]; });
  } else {
    Multiply(call.record, c, from, [&](int64_t i) { return LoadFloat(b, call.operand[2], i); });
  }
}

}  // namespace

ValueFunction MultiplyValues(DType a, DType b) {
  return [a, b](const ValueCall& call) {
    MultiplyInto(call, a, call.operand[1], b);
    return Status();
  };
}

ValueFunction MultiplyBandValues(DType a, DType b, Steps down, Steps across, int64_t most) {
  // What the address generators would bring, a row of taps for every pixel. Made here: a run does not allocate.
  auto patches = std::make_shared<std::vector<float>>(static_cast<size_t>(most));
  return [a, b, down, across, patches](const ValueCall& call) {
    const int64_t m = call.record.extent[1], k = call.record.extent[2];
    const int64_t* const argument = call.record.argument;
    const int64_t rows = argument[1], cols = argument[2], p = argument[3], q = argument[4];
    const int64_t band_rows = (rows - 1) * down.stride + (p - 1) * down.dilation + 1,
                  band_cols = (cols - 1) * across.stride + (q - 1) * across.dilation + 1;
    const int64_t channels = k / (p * q);
    float* to = patches->data();
    for (int64_t pixel = 0; pixel < m; ++pixel) {
      const int64_t image = pixel / (rows * cols), i = pixel / cols % rows, j = pixel % cols;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t s = 0; s < p; ++s)
          for (int64_t t = 0; t < q; ++t)
            *to++ = LoadFloat(
                a, call.operand[1],
                ((image * channels + c) * band_rows + i * down.stride + s * down.dilation) *
                        band_cols +
                    j * across.stride + t * across.dilation);
    }
    MultiplyInto(call, DType::kF32, reinterpret_cast<const std::byte*>(patches->data()), b);
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
