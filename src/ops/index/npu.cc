#include "backends/npu/lower/indexed.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  IndexedMove move{.x = k.In(0),
                   .indices = {},
                   .axes = {},
                   .outer = {},
                   .inner = {},
                   .dense = k.Out(0),
                   .wrap = l.node->IntOr("wrap", 1) != 0};
  for (int64_t axis : l.node->Ints("axes")) move.axes.push_back(static_cast<size_t>(axis));
  for (size_t i = 1; i < l.step.inputs.size(); ++i) move.indices.push_back(k.In(i));
  SplitDims(move);
  LS_RETURN_IF_ERROR(LowerIndexed(k, move));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kIndexNpu = {.op = &ops::kIndex, .lower = Lower};

}  // namespace liveshape::npu
