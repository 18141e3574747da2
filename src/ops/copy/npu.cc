// A copy is DMA in and out. The output is dense and keeps the order of elements, so that it may be seen with the
// dims of the input: a reshape is the same program, whatever its sizes.
#include "backends/npu/lower/map.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  const View x = k.In(0);
  View y = k.Out(0);
  y.dims = x.dims;
  y.strides.assign(x.rank(), Expr());
  Expr stride = k.Int(y.element());
  for (size_t d = x.rank(); d-- > 0; stride = stride * x.dims[d]) y.strides[d] = stride;
  LowerMove(k, y, x);
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kCopyNpu = {.op = &ops::kCopy, .lower = Lower};
extern const NpuOp kReshapeNpu = {.op = &ops::kReshape, .lower = Lower};

}  // namespace liveshape::npu
