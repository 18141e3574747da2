// Softmax of each row: maximum, exponentials and their sum, scaling. f16 and bf16 rows are computed in f32.
#include <cmath>
#include <cstring>

#include "backends/cpu/lines.h"
#include "ops/ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/softmax/cpu.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/math-inl.h"
#include "backends/cpu/simd/reduce-inl.h"

#ifndef LS_OPS_SOFTMAX_ONCE
#define LS_OPS_SOFTMAX_ONCE
namespace liveshape::cpu {
struct SoftmaxRow {
  const void* x;
  void* y;           // may be x
  float* exps;       // n floats; may be y where that is f32
  int64_t n;         // > 0
  bool masked_zero;  // a row of only -inf gives zeros, else NaN
};
using SoftmaxFn = void (*)(const SoftmaxRow& row);
}  // namespace liveshape::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

template <class E>
void Softmax(const SoftmaxRow& row) {
  using T = typename E::Type;
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d), n = row.n;
  const T* x = static_cast<const T*>(row.x);
  T* y = static_cast<T*>(row.y);
  const float max = ExtremeRow<1>(e, x, n);
  if (row.masked_zero && max == -kInf) {
    std::memset(y, 0, n * sizeof(T));
    return;
  }
  // -inf - -inf is NaN, as torch has it for a row of only -inf. Sums as in SumRow.
  const auto shift = hn::Set(d, max);
  float* exps = row.exps;
  const int64_t block = 256 * lanes;
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    auto s0 = hn::Zero(d), s1 = s0;
    int64_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      const auto e0 = ExpNonPositive(d, hn::Sub(LoadF32(e, d, x + i), shift));
      const auto e1 = ExpNonPositive(d, hn::Sub(LoadF32(e, d, x + i + lanes), shift));
      s0 = hn::Add(s0, e0);
      s1 = hn::Add(s1, e1);
      hn::StoreU(e0, d, exps + i);
      hn::StoreU(e1, d, exps + i + lanes);
    }
    for (; i < end; i += lanes) {
      const int64_t left = end - i < lanes ? end - i : lanes;
      const auto v = ExpNonPositive(d, hn::Sub(LoadPartial(e, d, x + i, left, -kInf), shift));
      // Padding must not count where max is -inf or inf (the difference is NaN there).
      HWY_ALIGN float tail[HWY_MAX_BYTES / sizeof(float)] = {};
      hn::Store(v, d, tail);
      for (int64_t k = left; k < lanes; ++k) tail[k] = 0;
      s0 = hn::Add(s0, hn::Load(d, tail));
      std::memcpy(exps + i, tail, left * sizeof(float));
    }
    sum += SumLanes(d, hn::Add(s0, s1));
  }
  const auto scale = hn::Set(d, static_cast<float>(1.0 / sum));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) StoreF32(e, hn::Mul(hn::LoadU(d, exps + i), scale), d, y + i);
  if (i < n)
    StorePartial(e, hn::Mul(LoadPartial(F32{}, d, exps + i, n - i), scale), d, y + i, n - i);
}

SoftmaxFn FindSoftmax(DType dtype) {
  return dtype == DType::kF32 ? Softmax<F32> : dtype == DType::kF16 ? Softmax<F16> : Softmax<BF16>;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindSoftmax);

void SoftmaxDouble(const SoftmaxRow& row) {
  const double* x = static_cast<const double*>(row.x);
  double* y = static_cast<double*>(row.y);
  double max = x[0], sum = 0;
  for (int64_t i = 1; i < row.n; ++i) max = x[i] > max || x[i] != x[i] ? x[i] : max;
  const bool zero = row.masked_zero && max == -HUGE_VAL;
  for (int64_t i = 0; i < row.n; ++i) sum += y[i] = std::exp(x[i] - max);
  for (int64_t i = 0; i < row.n; ++i) y[i] = zero ? 0 : y[i] / sum;
}

struct SoftmaxPrepared : Prepared {
  int dim = 0;
  bool masked_zero = false;
};

int64_t WorkerBytes(int64_t n) { return (n * 16 + 127) / 64 * 64; }  // exps, and a gathered row

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

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const SoftmaxPrepared&>(*args.prepared);
  const View& x = args.in(0);
  const View& y = args.out(0);
  const int dim = prepared.dim;
  const int64_t n = x.dims[dim];
  if (y.numel() == 0) return {};
  const Lines lines(x, y, dim);
  const size_t size = SizeOf(x.dtype);
  const int64_t in_stride = x.strides[dim], out_stride = y.strides[dim];
  const bool dense = (in_stride == 1 && out_stride == 1) || n == 1;
  const SoftmaxFn softmax = x.dtype == DType::kF64 ? SoftmaxDouble : LS_SIMD(FindSoftmax)(x.dtype);
  args.pool.ParallelFor(lines.count, RowGrain(n * 8), [&](int64_t begin, int64_t end, int worker) {
    std::byte* scratch = args.scratch + worker * WorkerBytes(n);
    std::byte* gathered = scratch + n * 8;
    RowWalker<2> walk = lines.At(begin);
    for (int64_t r = begin; r < end; ++r, walk.Next()) {
      const std::byte* from = x.data + walk.offset(0) * size;
      std::byte* to = y.data + walk.offset(1) * size;
      std::byte* result = dense ? to : gathered;
      if (!dense) CopyStrided(size, from, in_stride, gathered, 1, n);
      float* exps = reinterpret_cast<float*>(x.dtype == DType::kF32 ? result : scratch);
      softmax({dense ? from : gathered, result, exps, n, prepared.masked_zero});
      if (!dense) CopyStrided(size, gathered, 1, to, out_stride, n);
    }
  });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<SoftmaxPrepared>();
  prepared->dim = static_cast<int>(node.Int("dim"));
  prepared->masked_zero = node.String("all_masked") == "zero";
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int threads) {
  return (graph.type(node.inputs[0]).dims[node.Int("dim")] * 16 + 128) * threads;
}

}  // namespace

extern const CpuKernel kSoftmaxKernel = {
    .op = &ops::kSoftmax, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
#endif
