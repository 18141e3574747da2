// LayerNorm of each row in two passes over it (mean, then squares of the differences), the row being in
// cache: (x - mean) * rsqrt(variance + eps) * weight + bias, in f32, rounded once.
#include <cmath>
#include <type_traits>

#include "backends/cpu/rows.h"
#include "ops/ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm/cpu.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/reduce-inl.h"

#ifndef LS_OPS_LAYER_NORM_ONCE
#define LS_OPS_LAYER_NORM_ONCE
namespace liveshape::cpu {
struct LayerRow {
  const void* x;
  const void* weight;  // null: none
  const void* bias;    // null: none
  void* y;
  int64_t n;
  double eps;
};
using LayerFn = void (*)(const LayerRow& row);
}  // namespace liveshape::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

struct SquaredDifference {
  float mean;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V v) const {
    const V difference = hn::Sub(v, hn::Set(d, mean));
    return hn::Mul(difference, difference);
  }
};

template <class E>
void LayerNorm(const LayerRow& row) {
  using T = typename E::Type;
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d), n = row.n;
  const T* x = static_cast<const T*>(row.x);
  const T* w = static_cast<const T*>(row.weight);
  const T* b = static_cast<const T*>(row.bias);
  T* y = static_cast<T*>(row.y);
  const float mean = static_cast<float>(SumRow(e, x, n, 0.0f, Identity{}) / static_cast<double>(n));
  const double variance = SumRow(e, x, n, mean, SquaredDifference{mean}) / static_cast<double>(n);
  const auto shift = hn::Set(d, mean);
  const auto scale = hn::Set(d, static_cast<float>(1.0 / std::sqrt(variance + row.eps)));
  // Four loops: to ask for each vector whether there are weights took a sixth of a row.
  int64_t i = 0;
  const auto whole = [&](auto weighted, auto biased) HWY_ATTR {
    for (; i + lanes <= n; i += lanes) {
      auto v = hn::Mul(hn::Sub(LoadF32(e, d, x + i), shift), scale);
      if (weighted) v = hn::Mul(v, LoadF32(e, d, w + i));
      if (biased) v = hn::Add(v, LoadF32(e, d, b + i));
      StoreF32(e, v, d, y + i);
    }
  };
  constexpr std::true_type yes;
  constexpr std::false_type no;
  if (w)
    b ? whole(yes, yes) : whole(yes, no);
  else
    b ? whole(no, yes) : whole(no, no);
  if (i < n) {
    auto v = hn::Mul(hn::Sub(LoadPartial(e, d, x + i, n - i), shift), scale);
    if (w) v = hn::Mul(v, LoadPartial(e, d, w + i, n - i));
    if (b) v = hn::Add(v, LoadPartial(e, d, b + i, n - i));
    StorePartial(e, v, d, y + i, n - i);
  }
}

LayerFn FindLayerNorm(DType dtype) {
  return dtype == DType::kF32   ? LayerNorm<F32>
         : dtype == DType::kF16 ? LayerNorm<F16>
                                : LayerNorm<BF16>;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindLayerNorm);

void LayerNormDouble(const LayerRow& row) {
  const double* x = static_cast<const double*>(row.x);
  const double* w = static_cast<const double*>(row.weight);
  const double* b = static_cast<const double*>(row.bias);
  double* y = static_cast<double*>(row.y);
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < row.n; ++i) mean += x[i];
  mean /= static_cast<double>(row.n);
  for (int64_t i = 0; i < row.n; ++i) variance += (x[i] - mean) * (x[i] - mean);
  const double scale = 1 / std::sqrt(variance / static_cast<double>(row.n) + row.eps);
  for (int64_t i = 0; i < row.n; ++i)
    y[i] = (x[i] - mean) * scale * (w ? w[i] : 1) + (b ? b[i] : 0);
}

Status Run(const KernelArgs& args) {
  const View& x = args.in(0);
  const void* weight = args.inputs.size() > 1 ? args.in(1).data : nullptr;
  const void* bias = args.inputs.size() > 2 ? args.in(2).data : nullptr;
  const double eps = static_cast<const NormPrepared&>(*args.prepared).eps;
  const int64_t n = x.dims[x.rank - 1];
  const LayerFn norm = x.dtype == DType::kF64 ? LayerNormDouble : LS_SIMD(FindLayerNorm)(x.dtype);
  ForEachRow<1>(args, {&x},
                [&](const auto& in, std::byte* out) { norm({in[0], weight, bias, out, n, eps}); });
  return {};
}

}  // namespace

extern const CpuKernel kLayerNormKernel = {.op = &ops::kLayerNorm,
                                           .run = Run,
                                           .prepare = PrepareNorm,
                                           .need = NeedInnerDense,
                                           .tells_parts = true};

}  // namespace liveshape::cpu
#endif
