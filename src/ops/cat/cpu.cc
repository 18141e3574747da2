#include <algorithm>

#include "backends/cpu/rows.h"
#include "ops/index/cpu_elements.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct Axis : Prepared { int dim = 0; };

constexpr int64_t kTaskBytes = 64 << 10;  // worth waking a thread for

// Threads share one input at a time, cut along its first dim that has an extent.
void CopyInput(const View& x, const View& y, std::byte* to, ThreadPool& pool) {
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  int cut = 0;
  while (cut + 1 < x.rank && x.dims[cut] == 1) ++cut;
  const int64_t count = x.dims[cut], bytes = x.numel() * size;
  const int64_t grain = bytes > 0 ? std::max<int64_t>(1, kTaskBytes * count / bytes) : count;
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int) {
    int64_t dims[kMaxRank];
    std::copy_n(x.dims, x.rank, dims);
    dims[cut] = end - begin;
    CopyBox({x.rank, dims, x.strides, y.strides}, size, x.data + begin * x.strides[cut] * size,
            to + begin * y.strides[cut] * size);
  });
}

Status Run(const KernelArgs& args) {
  const View& y = args.out(0);
  const int dim = static_cast<const Axis&>(*args.prepared).dim;
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  int64_t at = 0;
  for (const View& x : args.inputs) {
    CopyInput(x, y, y.data + at * y.strides[dim] * size, args.pool);
    at += x.dims[dim];
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto axis = std::make_unique<Axis>();
  axis->dim = static_cast<int>(node.Int("dim"));
  return std::unique_ptr<Prepared>(std::move(axis));
}

}  // namespace

extern const CpuKernel kCatKernel = {.op = &ops::kCat, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
