// RMSNorm of each row: x * rsqrt(mean(x^2) + eps), rounded to x's dtype, times weight.
#include <cmath>

#include "backends/cpu/rows.h"
#include "ops/ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/rms_norm/cpu.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/reduce-inl.h"

#ifndef LS_OPS_RMS_NORM_ONCE
#define LS_OPS_RMS_NORM_ONCE
namespace liveshape::cpu {
struct RmsRow {
  const void* x;
  const void* weight;  // null: none
  void* y;
  int64_t n;
  double eps;
};
using RmsFn = void (*)(const RmsRow& row);
}  // namespace liveshape::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

struct SquareOf {
  template <class D, class V>
  HWY_INLINE V operator()(D, V v) const {
    return hn::Mul(v, v);
  }
};

template <class E>
void RmsNorm(const RmsRow& row) {
  using T = typename E::Type;
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d), n = row.n;
  const T* x = static_cast<const T*>(row.x);
  const T* w = static_cast<const T*>(row.weight);
  T* y = static_cast<T*>(row.y);
  const double mean = SumRow(e, x, n, 0.0f, SquareOf{}) / static_cast<double>(n);
  const auto scale = hn::Set(d, static_cast<float>(1.0 / std::sqrt(mean + row.eps)));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Mul(LoadF32(e, d, x + i), scale);
    if (w) v = hn::Mul(Rounded(e, d, v), LoadF32(e, d, w + i));
    StoreF32(e, v, d, y + i);
  }
  if (i < n) {
    auto v = hn::Mul(LoadPartial(e, d, x + i, n - i), scale);
    if (w) v = hn::Mul(Rounded(e, d, v), LoadPartial(e, d, w + i, n - i));
    StorePartial(e, v, d, y + i, n - i);
  }
}

RmsFn FindRmsNorm(DType dtype) {
  return dtype == DType::kF32 ? RmsNorm<F32> : dtype == DType::kF16 ? RmsNorm<F16> : RmsNorm<BF16>;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindRmsNorm);

void RmsNormDouble(const RmsRow& row) {
  const double* x = static_cast<const double*>(row.x);
  const double* w = static_cast<const double*>(row.weight);
  double* y = static_cast<double*>(row.y);
  double sum = 0;
  for (int64_t i = 0; i < row.n; ++i) sum += x[i] * x[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(row.n) + row.eps);
  for (int64_t i = 0; i < row.n; ++i) y[i] = x[i] * scale * (w ? w[i] : 1);
}

Status Run(const KernelArgs& args) {
  const View& x = args.in(0);
  const void* weight = args.inputs.size() > 1 ? args.in(1).data : nullptr;
  const double eps = static_cast<const NormPrepared&>(*args.prepared).eps;
  const int64_t n = x.dims[x.rank - 1];
  const RmsFn norm = x.dtype == DType::kF64 ? RmsNormDouble : LS_SIMD(FindRmsNorm)(x.dtype);
  ForEachRow<1>(args, {&x},
                [&](const auto& in, std::byte* out) { norm({in[0], weight, out, n, eps}); });
  return {};
}

}  // namespace

extern const CpuKernel kRmsNormKernel = {.op = &ops::kRmsNorm,
                                         .run = Run,
                                         .prepare = PrepareNorm,
                                         .need = NeedInnerDense,
                                         .tells_parts = true};

}  // namespace liveshape::cpu
#endif
