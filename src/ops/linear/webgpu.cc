#include "ops/linear/webgpu_weight.h"
#include "ops/matmul/webgpu_product.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (!IsFloat(dtype)) return Unsupported("a product of {} on WebGPU", Name(dtype));
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  const ir::Dims &x = l.in_dims(0), &w = l.in_dims(1);
  Product product{
      .batch = l.table().Int(1), .m = l.numel({x.begin(), x.end() - 1}), .n = w[0], .k = w[1]};
  Dispatch& d = product.operands;
  AddWeight(l, 1, d);
  d.params.push_back({.name = "in0_offset", .slot = l.in(0).offset_at});
  d.body +=
      R"(fn left(batch: u32, m: u32, k: u32) -> f32 { return in0(p.in0_offset + m * p.k + k); }
fn right(batch: u32, n: u32, k: u32) -> f32 { return weight(n, k); }
)";
  if (l.has(2)) {
    d.params.push_back({.name = "in2_offset", .slot = l.in(2).offset_at});
    d.params.push_back({.name = "in2_stride", .slot = l.in(2).strides_at});
    d.body += "fn addend(n: u32) -> f32 { return in2(p.in2_offset + n * p.in2_stride); }\n";
  } else {
    d.body += "fn addend(n: u32) -> f32 { return 0.0; }\n";
  }
  return LowerProduct(l, std::move(product));
}

plan::Need NeedOf(const ir::Node&, size_t input) {
  return input == 0 ? plan::Need::kDense : plan::Need::kStrided;
}

}  // namespace

extern const WebGpuKernel kLinearKernel = {.op = &ops::kLinear, .lower = Lower, .need = NeedOf};

}  // namespace liveshape::webgpu
