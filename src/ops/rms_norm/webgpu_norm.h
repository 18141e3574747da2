// What rms_norm and layer_norm share: rows of the last dim, and weights that may be absent.
#pragma once

#include <bit>

#include "backends/webgpu/row_store.h"

namespace liveshape::webgpu {

inline Result<std::vector<Dispatch>> LowerNorm(const Lowering& l, const char* body) {
  if (ValueType(l.out(0).dtype) == nullptr) return NoSuchType(l.out(0).dtype);
  const ir::Dims& dims = l.in_dims(0);
  Dispatch d;
  d.groups = l.numel({dims.begin(), dims.end() - 1});
  d.params = {{.name = "rows", .expr = d.groups}, {.name = "width", .expr = dims.back()}};
  plan::Operand rows = l.in(0);
  rows.rank = static_cast<uint8_t>(rows.rank - 1);
  AddStridedIndex(l, rows, "in0", d);
  const char* round = l.out(0).dtype == DType::kF16    ? "round_f16(v)"
                      : l.out(0).dtype == DType::kBF16 ? "round_bf16(v)"
                                                       : "v";
  d.body += fmt::format("fn rounded(v: f32) -> f32 {{ return {}; }}\n", round);
  d.body += fmt::format("fn epsilon() -> f32 {{ return f32_bits({}u); }}\n",
                        std::bit_cast<uint32_t>(static_cast<float>(l.node->Float("eps"))));
  const auto vector = [&](size_t input, const char* name, const char* absent) {
    if (!l.has(input)) {
      d.body += fmt::format("fn {}(i: u32) -> f32 {{ return {}; }}\n", name, absent);
      return;
    }
    d.params.push_back({.name = fmt::format("in{}_offset", input), .slot = l.in(input).offset_at});
    d.body +=
        fmt::format("fn {0}(i: u32) -> f32 {{ return in{1}(p.in{1}_offset + i); }}\n", name, input);
  };
  vector(1, "weight", "1.0");
  vector(2, "bias", "0.0");
  d.body += StoreRow(l, dims.back()) + body;
  return std::vector{std::move(d)};
}

// Rows may lie anywhere, a row in one piece; weights are vectors.
inline plan::Need NormNeeds(const ir::Node&, size_t input) {
  return input == 0 ? plan::Need::kInnerDense : plan::Need::kDense;
}

}  // namespace liveshape::webgpu
