// Walking the rows of strided views without a division a row.
//
//   RowWalker<2> rows(dims, rank - 1, {x.strides, c.strides}, begin);   // at row `begin` of the outer dims
//   for (int64_t r = begin; r < end; ++r, rows.Next()) f(x + rows.offset(0), c + rows.offset(1), out + r * n);
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/kernel.h"
#include "backends/cpu/stream.h"

namespace liveshape::cpu {

inline constexpr int kMaxRank = 32;

// For `prepare`: kernels keep dims on the stack.
inline Status CheckRank(const ir::Graph& graph, ir::ValueId value) {
  const size_t rank = graph.type(value).dims.size();
  if (rank > kMaxRank) return Unsupported("rank {}: kernels serve at most {}", rank, kMaxRank);
  return {};
}

template <size_t N>
class RowWalker {
 public:
  RowWalker(const int64_t* dims, int rank, std::array<const int64_t*, N> strides, int64_t row)
      : dims_(dims), rank_(rank), strides_(strides) {
    for (int d = rank - 1; d >= 0; --d) {
      at_[d] = row % dims[d];
      row /= dims[d];
      for (size_t k = 0; k < N; ++k) offset_[k] += at_[d] * strides_[k][d];
    }
  }
  int64_t offset(size_t k) const { return offset_[k]; }
  void Next() {
    for (int d = rank_ - 1; d >= 0; --d) {
      for (size_t k = 0; k < N; ++k) offset_[k] += strides_[k][d];
      if (++at_[d] < dims_[d]) return;
      for (size_t k = 0; k < N; ++k) offset_[k] -= at_[d] * strides_[k][d];
      at_[d] = 0;
    }
  }

 private:
  const int64_t* dims_;
  int rank_;
  std::array<const int64_t*, N> strides_;
  int64_t at_[kMaxRank];
  int64_t offset_[N] = {};
};

// Rows a claim of the pool: about 16K elements, some microseconds.
inline int64_t RowGrain(int64_t row_length) {
  return row_length <= 0 ? 16384 : (16384 + row_length - 1) / row_length;
}

// Rows that are told together (CpuKernel::tells_parts), if a thread has claimed so many: what is read, written and made of
// it stays in L2.
inline int64_t RowsOfPart(int64_t row_length) {
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(1, row_length));
}

// A row that is streamed is made on the stack first: no larger than L1 leaves room for.
inline constexpr int64_t kStreamRowBytes = 16384;

// Every row (last dim) of input 0 in parallel, with the same row of the other inputs in `with`:
//
//   ForEachRow(args, {&x, &cos, &sin}, [&](const std::array<const std::byte*, 3>& in, std::byte* out) { ... });
//
// Inputs have x's dims and, as x, a dense last dim (NeedInnerDense); the output is dense. Tells parts (CpuKernel).
template <size_t N, class F>
void ForEachRow(const KernelArgs& args, const std::array<const View*, N>& inputs, F&& row) {
  const View &x = *inputs[0], &y = args.out(0);
  if (y.numel() == 0) return;
  const int outer = x.rank - 1;
  const int64_t n = x.dims[outer], size = static_cast<int64_t>(SizeOf(x.dtype));
  std::array<const int64_t*, N> strides;
  for (size_t k = 0; k < N; ++k) strides[k] = inputs[k]->strides;
  const int64_t rows = y.numel() / n, together = RowsOfPart(n);
  // What nobody else reads is written to the same lines again and again.
  const bool passing = args.passing && together * args.pool.size() <= rows;
  const bool streamed = args.written == nullptr && n * size <= kStreamRowBytes &&
                        (N + 1) * static_cast<size_t>(rows * n * size) >= StreamBytes();
  const StreamFn stream = FindStream();
  args.pool.ParallelFor(rows, RowGrain(n), [&](int64_t begin, int64_t end, int worker) {
    RowWalker<N> walk(x.dims, outer, strides, begin);
    std::array<const std::byte*, N> at;
    for (int64_t r = begin, first = begin; r < end; first = r) {
      std::byte* const part = y.data + (passing ? worker * together : first) * n * size;
      for (std::byte* out = part; r < std::min(end, first + together); ++r, walk.Next()) {
        for (size_t k = 0; k < N; ++k) at[k] = inputs[k]->data + walk.offset(k) * size;
        if (streamed) {
          alignas(64) std::byte made[kStreamRowBytes];
          row(at, made);
          stream(made, out, static_cast<size_t>(n * size));
        } else {
          row(at, out);
        }
        out += n * size;
      }
      if (args.written) (*args.written)({first * n, r * n, worker, part});
    }
    if (streamed) FlushStreams();
  });
}

inline Need NeedInnerDense(const ir::Node&, size_t) { return Need::kInnerDense; }

// What a norm knows of its node.
struct NormPrepared : Prepared { double eps = 0; };
inline Result<std::unique_ptr<Prepared>> PrepareNorm(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<NormPrepared>();
  prepared->eps = node.Float("eps");
  return std::unique_ptr<Prepared>(std::move(prepared));
}

}  // namespace liveshape::cpu
