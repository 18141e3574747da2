// Writes the indexed elements and, in place, nothing else: a KV cache costs what is written, not what it
// holds.
#include "backends/cpu/gemm/element.h"
#include "backends/cpu/strided_copy.h"
#include "ops/index/cpu_indexed.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

template <typename T>
T Sum(T a, T b) {
  return static_cast<T>(a + b);
}
int64_t Sum(int64_t a, int64_t b) { return static_cast<int64_t>(uint64_t(a) + uint64_t(b)); }
int32_t Sum(int32_t a, int32_t b) { return static_cast<int32_t>(uint32_t(a) + uint32_t(b)); }
bool Sum(bool a, bool b) { return a || b; }
Half Sum(Half a, Half b) { return FromFloat<Half>(ToFloat(a) + ToFloat(b)); }
BFloat Sum(BFloat a, BFloat b) { return FromFloat<BFloat>(ToFloat(a) + ToFloat(b)); }

template <typename T>
void AddBox(const Box& box, const std::byte* from, std::byte* to) {
  elements_internal::ForEach(box, 0, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to),
                             [](T& out, T in) { out = Sum(out, in); });
}

void Accumulate(DType dtype, const Box& box, const std::byte* from, std::byte* to) {
  switch (dtype) {
    case DType::kF32: return AddBox<float>(box, from, to);
    case DType::kF16: return AddBox<Half>(box, from, to);
    case DType::kBF16: return AddBox<BFloat>(box, from, to);
    case DType::kF64: return AddBox<double>(box, from, to);
    case DType::kI64: return AddBox<int64_t>(box, from, to);
    case DType::kI32: return AddBox<int32_t>(box, from, to);
    case DType::kI16: return AddBox<int16_t>(box, from, to);
    case DType::kI8: return AddBox<int8_t>(box, from, to);
    case DType::kU8: return AddBox<uint8_t>(box, from, to);
    case DType::kBool: return AddBox<bool>(box, from, to);
  }
}

Status Run(const KernelArgs& args) {
  const View &base = args.in(0), &values = args.in(1), &y = args.out(0);
  const auto& axes = static_cast<const IndexedAxes&>(*args.prepared);
  const Indexed indexed(axes, y, values, args.inputs.subspan(2));
  LS_RETURN_IF_ERROR(indexed.Check());
  const int64_t size = static_cast<int64_t>(SizeOf(y.dtype));
  if (!args.in_place) StridedCopy(base, y.data, args.pool);
  if (values.numel() == 0) return {};
  // Split over outer positions only, which no two entries share: duplicates of one place stay on one
  // thread, in row-major order, and the last one wins.
  const int64_t grain = 1 + 65536 / (indexed.entries() * indexed.inner() * size);
  args.pool.ParallelFor(indexed.outer(), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t outer = begin; outer < end; ++outer) {
      for (int64_t entry = 0; entry < indexed.entries(); ++entry) {
        const std::byte* from = values.data + indexed.DenseOffset(outer, entry) * size;
        std::byte* to = y.data + indexed.XOffset(outer, entry) * size;
        if (axes.accumulate) {
          Accumulate(y.dtype, indexed.ToX(), from, to);
        } else {
          CopyBox(indexed.ToX(), size, from, to);
        }
      }
    }
  });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  const int rank = static_cast<int>(graph.type(node.inputs[0]).dims.size());
  auto axes = std::make_unique<IndexedAxes>(node, rank);
  axes->accumulate = node.Int("accumulate") != 0;
  return std::unique_ptr<Prepared>(std::move(axes));
}

}  // namespace

extern const CpuKernel kIndexPutKernel = {.op = &ops::kIndexPut, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
