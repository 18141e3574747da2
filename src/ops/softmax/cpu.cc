// Lines along the last dim of memory one by one, others side by side; what lies neither way is gathered.
#include "backends/cpu/lines.h"
#include "ops/ops.h"
#include "ops/softmax/cpu_lines.h"

namespace liveshape::cpu {
namespace {

struct SoftmaxPrepared : Prepared {
  int dim = 0;
  bool masked_zero = false, log = false;
};

// Columns of one claim: a few lines of memory, so that a row of them is worth a page walk.
constexpr int64_t kColumns = 64;

// Exponentials of halves, and a gathered row; or exponentials of columns of halves.
int64_t RowBytes(int64_t n) { return n * 16; }
int64_t ColumnBytes(DType dtype, int64_t n) {
  return SizeOf(dtype) == 2 ? SoftmaxColumnFloats(n) * static_cast<int64_t>(sizeof(float)) : 0;
}
int64_t WorkerBytes(int64_t bytes) { return (bytes + 127) / 64 * 64; }

template <typename T>
void CopyStrided(const T* from, int64_t from_stride, T* to, int64_t to_stride, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i * to_stride] = from[i * from_stride];
}

void CopyStrided(size_t size, const std::byte* from, int64_t from_stride, std::byte* to,
                 int64_t to_stride, int64_t n) {
  auto copy = [&]<typename T>(T*) {
    CopyStrided(reinterpret_cast<const T*>(from), from_stride, reinterpret_cast<T*>(to), to_stride,
                n);
  };
  if (size == 2) return copy(static_cast<uint16_t*>(nullptr));
  if (size == 4) return copy(static_cast<uint32_t*>(nullptr));
  return copy(static_cast<uint64_t*>(nullptr));
}

void RunRows(const KernelArgs& args, const SoftmaxPrepared& prepared, const SoftmaxFns& fns) {
  const View &x = args.in(0), &y = args.out(0);
  const int dim = prepared.dim;
  const int64_t n = x.dims[dim];
  const Lines lines(x, y, dim);
  const size_t size = SizeOf(x.dtype);
  const int64_t in_stride = x.strides[dim], out_stride = y.strides[dim];
  const bool dense = (in_stride == 1 && out_stride == 1) || n == 1;
  args.pool.ParallelFor(lines.count, RowGrain(n * 8), [&](int64_t begin, int64_t end, int worker) {
    std::byte* scratch = args.scratch + worker * WorkerBytes(RowBytes(n));
    std::byte* gathered = scratch + n * 8;
    RowWalker<2> walk = lines.At(begin);
    for (int64_t r = begin; r < end; ++r, walk.Next()) {
      const std::byte* from = x.data + walk.offset(0) * size;
      std::byte* to = y.data + walk.offset(1) * size;
      std::byte* result = dense ? to : gathered;
      if (!dense) CopyStrided(size, from, in_stride, gathered, 1, n);
      float* exps = reinterpret_cast<float*>(x.dtype == DType::kF32 ? result : scratch);
      fns.row({dense ? from : gathered, result, exps, n, prepared.masked_zero});
      if (!dense) CopyStrided(size, gathered, 1, to, out_stride, n);
    }
  });
}

void RunColumns(const KernelArgs& args, const SoftmaxPrepared& prepared, const SoftmaxFns& fns) {
  const View &x = args.in(0), &y = args.out(0);
  const int dim = prepared.dim;
  const int64_t n = x.dims[dim], width = x.dims[x.rank - 1];
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  const Lines lines(x, y, dim, x.rank - 1);
  const size_t size = SizeOf(x.dtype);
  const int64_t bytes = WorkerBytes(ColumnBytes(x.dtype, n));
  args.pool.ParallelFor(
      lines.count * blocks, RowGrain(n * kColumns * 8),
      [&](int64_t begin, int64_t end, int worker) {
        auto* exps = reinterpret_cast<float*>(args.scratch + worker * bytes);
        for (int64_t b = begin; b < end; ++b) {
          const RowWalker<2> line = lines.At(b / blocks);
          const int64_t first = b % blocks * kColumns;
          fns.columns({x.data + (line.offset(0) + first) * size, x.strides[dim],
                       y.data + (line.offset(1) + first) * size, y.strides[dim], exps, n,
                       std::min(kColumns, width - first), prepared.masked_zero});
        }
      });
}

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const SoftmaxPrepared&>(*args.prepared);
  const View &x = args.in(0), &y = args.out(0);
  if (y.numel() == 0) return {};
  const SoftmaxFns fns = FindSoftmax(x.dtype, prepared.log);
  const int last = x.rank - 1;
  // With fewer columns most of a vector would be empty.
  const bool columns =
      prepared.dim != last && fns.columns != nullptr && x.dims[last] >= 4 && x.strides[last] == 1;
  (columns ? RunColumns : RunRows)(args, prepared, fns);
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<SoftmaxPrepared>();
  prepared->dim = static_cast<int>(node.Int("dim"));
  prepared->masked_zero = node.String("all_masked") == "zero";
  prepared->log = node.IntOr("log", 0) != 0;
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  const ir::TensorType& x = graph.type(node.inputs[0]);
  const auto dim = static_cast<size_t>(node.Int("dim"));
  const bool columns = dim + 1 < x.dims.size();
  return (x.dims[dim] * std::max(RowBytes(1), columns ? ColumnBytes(x.dtype, 1) : 0) + 128) *
         threads;
}

}  // namespace

extern const CpuKernel kSoftmaxKernel = {
    .op = &ops::kSoftmax, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
