// Long lines along the last dim of memory one by one, others side by side; what lies neither way is gathered, and short
// lines are turned over to lie side by side.
#include "backends/cpu/lines.h"
#include "backends/cpu/transpose.h"
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

// What a line of a vector or four costs apart from its elements, maximum and sum across lanes and a division, is shared
// by as many lines as vectors have lanes.
constexpr int64_t kShortLine = 24;                  // at 32 both ways take as long
constexpr int64_t kTurned = kSoftmaxColumnsAtOnce;  // lines at once

// How far lines are apart; 0 if that varies.
int64_t Pitch(const Lines& lines, const int64_t* strides) {
  for (int d = 0; d + 1 < lines.rank; ++d)
    if (strides[d] != strides[d + 1] * lines.dims[d + 1]) return 0;
  return lines.rank == 0 ? 1 : strides[lines.rank - 1];
}

// Lines of 4-byte elements, dense and `pitch` apart, from memory to columns of kTurned, and back.
void TurnOver(const uint32_t* from, int64_t pitch, int64_t lines, int64_t n, uint32_t* to) {
  const TransposeStripFn strip = FindTransposeStrip();
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) strip(from + i, pitch, to + i * kTurned, kTurned, lines);
  for (; i < n; ++i) CopyStrided(from + i, pitch, to + i * kTurned, 1, lines);
}
void TurnBack(const uint32_t* from, int64_t lines, int64_t n, uint32_t* to, int64_t pitch) {
  const TransposeStripFn strip = FindTransposeStrip();
  int64_t line = 0;
  for (; line + 4 <= lines; line += 4) strip(from + line, kTurned, to + line * pitch, pitch, n);
  for (; line < lines; ++line) CopyStrided(from + line, kTurned, to + line * pitch, 1, n);
}

void RunShort(const KernelArgs& args, const SoftmaxPrepared& prepared, const SoftmaxFns& fns) {
  const View &x = args.in(0), &y = args.out(0);
  const int64_t n = x.dims[prepared.dim];
  const Lines lines(x, y, prepared.dim);
  const size_t size = SizeOf(x.dtype);
  const int64_t in_stride = x.strides[prepared.dim], out_stride = y.strides[prepared.dim];
  const int64_t in_pitch = Pitch(lines, lines.in), out_pitch = Pitch(lines, lines.out);
  const bool regular =
      size == sizeof(uint32_t) && in_stride == 1 && out_stride == 1 && in_pitch && out_pitch;
  const int64_t groups = (lines.count + kTurned - 1) / kTurned;
  args.pool.ParallelFor(groups, RowGrain(n * 8 * kTurned), [&](int64_t begin, int64_t end, int) {
    alignas(64) uint32_t turned[kShortLine * kTurned];
    alignas(64) float exps[kShortLine * kTurned];
    for (int64_t g = begin; g < end; ++g) {
      const int64_t first = g * kTurned, count = std::min(kTurned, lines.count - first);
      auto* const bytes = reinterpret_cast<std::byte*>(turned);
      if (regular) {
        TurnOver(x.as<const uint32_t>() + first * in_pitch, in_pitch, count, n, turned);
      } else {
        RowWalker<2> walk = lines.At(first);
        for (int64_t k = 0; k < count; ++k, walk.Next())
          CopyStrided(size, x.data + walk.offset(0) * size, in_stride, bytes + k * size, kTurned,
                      n);
      }
      fns.columns({turned, kTurned, turned, kTurned, exps, n, count, prepared.masked_zero});
      if (regular) {
        TurnBack(turned, count, n, y.as<uint32_t>() + first * out_pitch, out_pitch);
      } else {
        RowWalker<2> walk = lines.At(first);
        for (int64_t k = 0; k < count; ++k, walk.Next())
          CopyStrided(size, bytes + k * size, kTurned, y.data + walk.offset(1) * size, out_stride,
                      n);
      }
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
  const bool turn = fns.columns != nullptr && x.dims[prepared.dim] <= kShortLine;
  (columns ? RunColumns : turn ? RunShort : RunRows)(args, prepared, fns);
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
