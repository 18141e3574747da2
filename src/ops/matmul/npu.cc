#include "backends/npu/lower/product.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  const View b = k.In(1);
  Product p{.a = k.In(0), .epilogue = {l, k, std::nullopt}, .b = {.view = b}};
  const View c = p.epilogue.Shaped()[0];
  const size_t batch = p.a.rank() - 2;
  for (size_t d = 0; d < batch; ++d) {
    p.batch.push_back(c.dims[d]);
    p.a_batch.push_back(p.a.strides[d]);
    p.b_batch.push_back(b.strides[d]);
  }
  p.m = p.a.dims[batch];
  p.k = p.a.dims[batch + 1];
  p.n = c.dims[batch + 1];
  p.a_m = p.a.strides[batch];
  p.a_k = p.a.strides[batch + 1];
  p.b.k = p.k;
  p.b.k_stride = b.strides[batch];
  p.b.n_stride = b.strides[batch + 1];
  LS_RETURN_IF_ERROR(LowerProduct(l, k, std::move(p)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kMatmulNpu = {.op = &ops::kMatmul, .lower = Lower, .stages = Stages::kRows};

}  // namespace liveshape::npu
