// One kernel a piece: a move into its part of the output.
#include "backends/npu/lower/map.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  const auto dim = static_cast<size_t>(l.node->Int("dim"));
  for (size_t i = 0; i < l.step.inputs.size(); ++i) {
    KernelBuilder k(l, fmt::format("_{}", i));
    View y = k.Out(0);
    for (size_t before = 0; before < i; ++before)
      y.offset =
          y.offset + k.Import(l.graph.type(l.step.inputs[before].value).dims[dim]) * y.strides[dim];
    const View x = k.In(i);
    y.dims = x.dims;
    LowerMove(k, y, x);
    LS_RETURN_IF_ERROR(k.Finish(kernels));
  }
  return {};
}

}  // namespace

extern const NpuOp kCatNpu = {.op = &ops::kCat, .lower = Lower};

}  // namespace liveshape::npu
