// Rows of a weight, which may lie in the matmul's panels, quantised or not: a tied embedding and output head
// are one constant.
#include "base/half.h"
#include "ops/index/cpu_elements.h"
#include "ops/linear/panel.h"
#include "ops/linear/quantised.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

void DequantiseRow(const View& weight, int64_t row, std::byte* to) {
  const int64_t cols = weight.dims[1];
  ops::WithBlocks(weight.encoding, weight.data, [&](const auto* blocks) {
    const auto fill = [&](auto* out, auto&& narrow) {
      for (int64_t c = 0; c < cols; ++c) out[c] = narrow(ops::QuantisedAt(blocks, cols, row, c));
    };
    switch (weight.dtype) {
      case DType::kF16: return fill(reinterpret_cast<uint16_t*>(to), F16FromF32);
      case DType::kBF16: return fill(reinterpret_cast<uint16_t*>(to), BF16FromF32);
      default: return fill(reinterpret_cast<float*>(to), [](float value) { return value; });
    }
  });
}

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
      if (weight.encoding != ir::Encoding::kPlain) {
        DequantiseRow(weight, id, to);
      } else if (weight.layout == ir::ConstantLayout::kPanel16) {
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
