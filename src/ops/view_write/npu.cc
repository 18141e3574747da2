// Writes the source to a strided place of the row-major base; where that is not done in place, the base is copied
// first.
#include "backends/npu/lower/map.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  if (!l.step.in_place) {
    KernelBuilder k(l, "_base");
    LowerMove(k, k.Out(0), k.In(0));
    LS_RETURN_IF_ERROR(k.Finish(kernels));
  }
  KernelBuilder k(l);
  View y = k.Out(0);
  y.offset = y.offset + k.Import(l.node->Exprs("offset")[0]) * y.element();
  y.dims.clear();
  y.strides.clear();
  for (Expr size : l.node->Exprs("sizes")) y.dims.push_back(k.Import(size));
  for (Expr stride : l.node->Exprs("strides")) y.strides.push_back(k.Import(stride) * y.element());
  LowerMove(k, y, k.In(1));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kViewWriteNpu = {.op = &ops::kViewWrite, .lower = Lower};

}  // namespace liveshape::npu
