#include "backends/npu/lower/indexed.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  const ir::Constant* weight = l.constant(0);
  if (weight && weight->encoding != ir::Encoding::kPlain)
    return Unsupported("an embedding of {} rows on the NPU", ir::Name(weight->encoding));
  KernelBuilder k(l);
  const IndexedMove move{.x = k.In(0),
                         .indices = {k.In(1)},
                         .axes = {0},
                         .outer = {},
                         .inner = {1},
                         .dense = k.Out(0),
                         .wrap = false,
                         .panels = weight && weight->packed()};
  LS_RETURN_IF_ERROR(LowerIndexed(k, move));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kEmbeddingNpu = {.op = &ops::kEmbedding, .lower = Lower};

}  // namespace liveshape::npu
