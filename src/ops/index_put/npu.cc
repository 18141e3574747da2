// Scatters the values; where that is not done in place, the base is copied first.
#include "backends/npu/lower/indexed.h"
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
  IndexedMove move{.x = k.Out(0),
                   .indices = {},
                   .axes = {},
                   .outer = {},
                   .inner = {},
                   .dense = k.In(1),
                   .wrap = l.node->IntOr("wrap", 1) != 0,
                   .scatter = true,
                   .accumulate = l.node->Int("accumulate") != 0};
  for (int64_t axis : l.node->Ints("axes")) move.axes.push_back(static_cast<size_t>(axis));
  for (size_t i = 2; i < l.step.inputs.size(); ++i) move.indices.push_back(k.In(i));
  SplitDims(move);
  LS_RETURN_IF_ERROR(LowerIndexed(k, move));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kIndexPutNpu = {.op = &ops::kIndexPut, .lower = Lower};

}  // namespace liveshape::npu
