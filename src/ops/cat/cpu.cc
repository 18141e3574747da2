#include <algorithm>

#include "backends/cpu/rows.h"
#include "ops/index/cpu_elements.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct Axis : Prepared { int dim = 0; };

constexpr int64_t kTaskBytes = 64 << 10;  // worth waking a thread for
constexpr int64_t kPartBytes = 16 << 10;  // of the output

// Positions [begin, end) along dim `cut` of one input, `at` elements into the output.
void CopyPart(const View& x, const View& y, int64_t at, int cut, int64_t begin, int64_t end) {
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  int64_t dims[kMaxRank];
  std::copy_n(x.dims, x.rank, dims);
  dims[cut] = end - begin;
  CopyBox({x.rank, dims, x.strides, y.strides}, size, x.data + begin * x.strides[cut] * size,
          y.data + (at + begin * y.strides[cut]) * size);
}

// Threads share the first dim that has an extent. Where that lies before the inputs' common one, each takes whole rows of
// the output, some L1 of them at a time, so these are written from end to end; else one input comes after the other.
Status Run(const KernelArgs& args) {
  const View& y = args.out(0);
  const int dim = static_cast<const Axis&>(*args.prepared).dim;
  if (y.numel() == 0) return {};
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype)), step = y.strides[dim];
  int cut = 0;
  while (cut < dim && y.dims[cut] == 1) ++cut;
  const auto grain = [&](int64_t count, int64_t elements, int64_t bytes) {
    return std::max<int64_t>(1, bytes * count / (elements * size));
  };
  if (cut < dim) {
    const int64_t count = y.dims[cut];
    const int64_t few = grain(count, y.numel(), kPartBytes);
    args.pool.ParallelFor(count, grain(count, y.numel(), kTaskBytes),
                          [&](int64_t begin, int64_t end, int) {
                            for (int64_t i = begin; i < end; i += few) {
                              int64_t at = 0;
                              for (const View& x : args.inputs) {
                                CopyPart(x, y, at, cut, i, std::min(i + few, end));
                                at += x.dims[dim] * step;
                              }
                            }
                          });
    return {};
  }
  int64_t at = 0;
  for (const View& x : args.inputs) {
    int inner = dim;
    while (inner + 1 < x.rank && x.dims[inner] == 1) ++inner;
    const int64_t count = x.dims[inner];
    if (x.numel() > 0)
      args.pool.ParallelFor(
          count, grain(count, x.numel(), kTaskBytes),
          [&](int64_t begin, int64_t end, int) { CopyPart(x, y, at, inner, begin, end); });
    at += x.dims[dim] * step;
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
