// Rows of a weight, which may lie in the matmul's panels: a tied embedding and output head are one
// constant.
#include "ops/index/cpu_elements.h"
#include "ops/linear/panel.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

Status Run(const KernelArgs& args) {
  const View &weight = args.in(0), &ids = args.in(1), &y = args.out(0);
  const int64_t rows = weight.dims[0], cols = weight.dims[1], count = ids.numel();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t id = IndexAt(ids, i);
    if (id < 0 || id >= rows) {
      return OutOfRange("id {} at element {} is outside the embedding's {} rows", id, i, rows);
    }
  }
  const int64_t size = static_cast<int64_t>(SizeOf(weight.dtype));
  if (cols == 0) return {};
  args.pool.ParallelFor(count, 1 + 65536 / (cols * size), [&](int64_t begin, int64_t end, int) {
    const int64_t dense = 1;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t id = IndexAt(ids, i);
      std::byte* to = y.data + i * cols * size;
      if (weight.layout == ir::ConstantLayout::kPanel16) {
        ops::UnpackPanel16Row(weight.data, weight.dtype, cols, id, to);
      } else {
        CopyBox({1, &cols, &weight.strides[1], &dense}, size,
                weight.data + id * weight.strides[0] * size, to);
      }
    }
  });
  return {};
}

}  // namespace

extern const CpuKernel kEmbeddingKernel = {.op = &ops::kEmbedding, .run = Run};

}  // namespace liveshape::cpu
