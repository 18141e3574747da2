// C = A * B + bias over f32, f16 and bf16, summed in f32 and rounded once. Routed by live M:
//   M <= 6           bandwidth: several panels at once or in turns, no packing
//   M <= 16          panel by panel, each read once from memory for all rows
//   else             blocked: A packed per worker, B's panel blocks from L1
// One Zen 4 core (AVX2, 91.5 GFLOP/s and 25 GB/s by bench_kernels --cpu-time): 1024^3 at 91 % of peak, M = 1
// of 8192 x 8192 at the full read bandwidth, M = 3 to 512 of 1024 x 1024 at 76-92 % of peak.
// Quantised panels (quantised-inl.h) are dequantised in registers up to M = 4, else block by block.
// There, with a load of 4 to 9 beside it: M = 1 of 8192 x 8192 reads 13.6-16.3 GB/s of 8-bit panels (50-67 % of
// the bandwidth) and 8.6-8.8 GB/s of 4-bit ones (32-36 %), both bound by some 5.5 weights a cycle;
// 512 x 4096 x 1024 runs at 84-86 % of peak, in f32 at 83 %.
// Bits depend on the operands alone: not on the route, the split or the thread count (micro-inl.h).
//
//   GemmCall call = {.m = rows, .n = n, .k = k, .a = ..., .b = ..., .c = out};
//   std::byte* scratch;                     // GemmScratchBytes of this shape, or a larger one
//   Gemm(call, pool, scratch);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "ir/graph.h"

namespace liveshape::cpu {

// A: m rows, in row-major order over `rank` leading dims. Strides in elements, any value.
struct GemmLeft {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  const int64_t* dims = nullptr;
  const int64_t* strides = nullptr;
  int64_t k_stride = 1;
};

// B [k, n]: panels of ConstantLayout::kPanel16 (of the [n, k] weight), quantised or not, or any strides.
struct GemmRight {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  bool panels = false;
  ir::Encoding encoding = ir::Encoding::kPlain;  // of panels; if it is another, dtype says nothing
  int64_t k_stride = 0;
  int64_t n_stride = 1;

  bool quantised() const { return encoding != ir::Encoding::kPlain; }
  // What the inner kernel reads as it lies, without a widened copy of a block.
  bool f32_panels() const { return panels && !quantised() && dtype == DType::kF32; }
};

struct GemmCall {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  GemmLeft a;
  GemmRight b;
  const std::byte* bias = nullptr;  // [n] or null
  DType bias_dtype = DType::kF32;
  int64_t bias_stride = 1;
  std::byte* c = nullptr;  // [batch..., m, n], dense
  DType c_dtype = DType::kF32;
  // Leading dims that A, B and C share; B's data must not be panels then.
  int batch_rank = 0;
  const int64_t* batch_dims = nullptr;
  const int64_t* a_batch_strides = nullptr;
  const int64_t* b_batch_strides = nullptr;
};

// Enough for every call of these dtypes and smaller or equal m, n, k, which are int64_t or sym::Expr; the call's own
// and its pointers are not looked at. Give a.k_stride = 0 where it is not known to be 1.
template <typename Int>
Int GemmScratchBytes(const GemmCall& call, Int m, Int n, Int k, int threads);

void Gemm(const GemmCall& call, ThreadPool& pool, std::byte* scratch);

}  // namespace liveshape::cpu
