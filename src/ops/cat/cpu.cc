#include "ops/index/cpu_elements.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct Axis : Prepared { int dim = 0; };

Status Run(const KernelArgs& args) {
  const View& y = args.out(0);
  const int dim = static_cast<const Axis&>(*args.prepared).dim;
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  int64_t at = 0;
  for (const View& x : args.inputs) {
    CopyBox({x.rank, x.dims, x.strides, y.strides}, size, x.data,
            y.data + at * y.strides[dim] * size);
    at += x.dims[dim];
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  auto axis = std::make_unique<Axis>();
  axis->dim = static_cast<int>(node.Int("dim"));
  return std::unique_ptr<Prepared>(std::move(axis));
}

}  // namespace

extern const CpuKernel kCatKernel = {.op = &ops::kCat, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
