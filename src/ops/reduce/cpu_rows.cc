#include "ops/reduce/cpu_plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce/cpu_rows.cc"
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backends/cpu/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

template <class E>
double Sum(const void* x, int64_t n) {
  return SumRow(E{}, static_cast<const typename E::Type*>(x), n, 0.0f, Identity{});
}

template <int kSign, class E>
float Extreme(const void* x, int64_t n) {
  return ExtremeRow<kSign>(E{}, static_cast<const typename E::Type*>(x), n);
}

// f32 sums of 128 rows, those added in double: a vector of columns at a time.
template <class E>
void SumColumns(const void* from, int64_t row_stride, int64_t rows, int64_t columns, double* out) {
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto* x = static_cast<const typename E::Type*>(from);
  HWY_ALIGN float sums[kReduceColumns];
  for (int64_t begin = 0; begin < rows; begin += 128) {
    const int64_t end = begin + 128 < rows ? begin + 128 : rows;
    int64_t c = 0;
    for (; c + 2 * lanes <= columns; c += 2 * lanes) {
      auto s0 = hn::Zero(d), s1 = s0;
      for (int64_t r = begin; r < end; ++r) {
        s0 = hn::Add(s0, LoadF32(e, d, x + r * row_stride + c));
        s1 = hn::Add(s1, LoadF32(e, d, x + r * row_stride + c + lanes));
      }
      hn::StoreU(s0, d, sums + c);
      hn::StoreU(s1, d, sums + c + lanes);
    }
    for (; c < columns; ++c) {
      sums[c] = 0;
      for (int64_t r = begin; r < end; ++r) sums[c] += E::One(x[r * row_stride + c]);
    }
    for (c = 0; c < columns; ++c) out[c] += sums[c];
  }
}

template <class E>
ReduceRuns Runs() {
  return {Sum<E>, Extreme<1, E>, Extreme<-1, E>, SumColumns<E>};
}

ReduceRuns FindRuns(DType dtype) {
  return dtype == DType::kF32 ? Runs<F32>() : dtype == DType::kF16 ? Runs<F16>() : Runs<BF16>();
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FindRuns);
}  // namespace

ReduceRuns FindReduceRuns(DType dtype) { return LS_SIMD(FindRuns)(dtype); }

}  // namespace liveshape::cpu
#endif
