#include "ops/index/cpu_indexed.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

Status Run(const KernelArgs& args) {
  const View &x = args.in(0), &y = args.out(0);
  const Indexed indexed(static_cast<const IndexedAxes&>(*args.prepared), x, y,
                        args.inputs.subspan(1));
  LS_RETURN_IF_ERROR(indexed.Check());
  const int64_t boxes = indexed.outer() * indexed.entries();
  if (y.numel() == 0) return {};
  const int64_t size = static_cast<int64_t>(SizeOf(x.dtype));
  const int64_t grain = 1 + 65536 / (indexed.inner() * size);  // bytes worth a thread
  args.pool.ParallelFor(boxes, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t outer = i / indexed.entries(), entry = i % indexed.entries();
      CopyBox(indexed.FromX(), size, x.data + indexed.XOffset(outer, entry) * size,
              y.data + indexed.DenseOffset(outer, entry) * size);
    }
  });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  const int rank = static_cast<int>(graph.type(node.inputs[0]).dims.size());
  return std::unique_ptr<Prepared>(std::make_unique<IndexedAxes>(node, rank));
}

}  // namespace

extern const CpuKernel kIndexKernel = {.op = &ops::kIndex, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
