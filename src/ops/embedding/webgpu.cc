#include "backends/webgpu/kernel.h"
#include "ops/linear/webgpu_weight.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  if (!IsFloat(l.out(0).dtype) || !ValueType(l.out(0).dtype))
    return Unsupported("an embedding of {} on WebGPU", Name(l.out(0).dtype));
  const ir::Dims& table = l.in_dims(0);
  Dispatch d;
  AddWeight(l, 0, d);
  AddStridedIndex(l, l.in(1), "in1", d);
  d.params.push_back({.name = "rows", .expr = table[0]});
  d.params.push_back({.name = "width", .expr = table[1]});
  const bool wide = l.in(1).dtype == DType::kI64;
  d.body += fmt::format(R"(fn value(i: u32) -> f32 {{
  let id = in1(at_in1(i / p.width));
  let row = {};
  if ({}row >= p.rows) {{
    fail();
    return 0.0;
  }}
  return weight(row, i % p.width);
}}
)",
                        wide ? "id.x" : "bitcast<u32>(id)", wide ? "id.y != 0u || " : "");
  Dispatch made = MakeMap(l, std::move(d.body), std::move(d.params));
  CanFail(l, made, "an index is out of range");
  return std::vector{std::move(made)};
}

}  // namespace

extern const WebGpuKernel kEmbeddingKernel = {.op = &ops::kEmbedding, .lower = Lower};

}  // namespace liveshape::webgpu
