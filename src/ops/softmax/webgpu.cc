#include "backends/webgpu/row_store.h"
#include "backends/webgpu/wgsl.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  if (ValueType(l.out(0).dtype) == nullptr) return NoSuchType(l.out(0).dtype);
  const ir::Dims& dims = l.in_dims(0);
  const auto axis = l.node->Int("dim");
  const Expr inner = l.numel({dims.begin() + axis + 1, dims.end()});
  const Expr rows = l.numel({dims.begin(), dims.begin() + axis}) * inner;
  Dispatch d;
  d.params = {{.name = "rows", .expr = rows},
              {.name = "width", .expr = dims[static_cast<size_t>(axis)]},
              {.name = "inner", .expr = inner},
              {.name = "in0_offset", .slot = l.in(0).offset_at}};
  d.body = fmt::format("fn all_masked() -> f32 {{ return f32_bits({}u); }}\n",
                       l.node->String("all_masked") == "nan" ? 0x7fc00000u : 0u);
  const bool log = l.node->IntOr("log", 0) != 0;
  d.body += fmt::format(
      "fn masked() -> f32 {{ return f32_bits({}u); }}\n"
      "fn scaled(x: f32, most: f32, total: f32) -> f32 {{ return {}; }}\n",
      log ? 0xff800000u : 0u, log ? "x - most - log(total)" : "exp(x - most) / total");
  d.body += StoreRow(l, dims[static_cast<size_t>(axis)], inner.is_int(1) ? "1u" : "p.inner");
  d.body += wgsl::kSoftmax;
  d.groups = rows;
  return std::vector{std::move(d)};
}

}  // namespace

extern const WebGpuKernel kSoftmaxKernel = {
    .op = &ops::kSoftmax, .lower = Lower, .need = NeedDense};

}  // namespace liveshape::webgpu
