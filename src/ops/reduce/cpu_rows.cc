#include "ops/reduce/cpu_plan.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reduce/cpu_rows.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/math-inl.h"
#include "backends/cpu/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

template <class E>
void Sum(const void* from, int64_t n, int64_t row_stride, int64_t rows, double* out) {
  const auto* x = static_cast<const typename E::Type*>(from);
  for (int64_t r = 0; r < rows; ++r) out[r] = SumRow(E{}, x + r * row_stride, n, 0.0f, Identity{});
}

template <int kSign, class E>
void Extreme(const void* from, int64_t n, int64_t row_stride, int64_t rows, float* out) {
  const auto* x = static_cast<const typename E::Type*>(from);
  for (int64_t r = 0; r < rows; ++r) out[r] = ExtremeRow<kSign>(E{}, x + r * row_stride, n);
}

// f32 sums of 256 rows, four at a time, those added in double.
template <class E>
void SumColumns(const void* from, int64_t row_stride, int64_t rows, int64_t columns, double* out) {
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto* x = static_cast<const typename E::Type*>(from);
  float sums[kReduceBlock];
  for (int64_t begin = 0; begin < rows; begin += 256) {
    const int64_t end = begin + 256 < rows ? begin + 256 : rows;
    for (int64_t r = begin; r < end; r += 4) {
      // Beyond the last row the first is read again and not added.
      const int64_t count = end - r < 4 ? end - r : 4;
      const auto* x0 = x + r * row_stride;
      const auto* x1 = count > 1 ? x0 + row_stride : x0;
      const auto* x2 = count > 2 ? x1 + row_stride : x0;
      const auto* x3 = count > 3 ? x2 + row_stride : x0;
      int64_t c = 0;
      const auto add_four = [&](auto first) HWY_ATTR {
        for (; c + lanes <= columns; c += lanes) {
          const auto a = hn::Add(LoadF32(e, d, x0 + c), LoadF32(e, d, x1 + c));
          const auto b = hn::Add(LoadF32(e, d, x2 + c), LoadF32(e, d, x3 + c));
          const auto sum = hn::Add(a, b);
          hn::StoreU(first ? sum : hn::Add(hn::LoadU(d, sums + c), sum), d, sums + c);
        }
      };
      if (count == 4) r == begin ? add_four(std::true_type()) : add_four(std::false_type());
      for (; c < columns; ++c) {
        const float a = E::One(x0[c]) + (count > 1 ? E::One(x1[c]) : 0.0f);
        const float b = (count > 2 ? E::One(x2[c]) : 0.0f) + (count > 3 ? E::One(x3[c]) : 0.0f);
        sums[c] = r == begin ? a + b : sums[c] + (a + b);
      }
    }
    const hn::ScalableTag<double> wide;
    const hn::Rebind<float, decltype(wide)> narrow;
    const int64_t step = hn::Lanes(wide);
    int64_t c = 0;
    for (; c + step <= columns; c += step) {
      const auto sum = hn::PromoteTo(wide, hn::LoadU(narrow, sums + c));
      hn::StoreU(hn::Add(hn::LoadU(wide, out + c), sum), wide, out + c);
    }
    for (; c < columns; ++c) out[c] += sums[c];
  }
}

void Finish(const double* acc, int64_t n, double count, float* out) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR  // whose DemoteTo makes the largest float of infinity
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const int64_t lanes = hn::Lanes(d);
  const auto divisor = hn::Set(d, count);
  const auto store = [&](auto divide) HWY_ATTR {
    for (; i + lanes <= n; i += lanes) {
      const auto v = hn::LoadU(d, acc + i);
      hn::StoreU(hn::DemoteTo(narrow, divide ? hn::Div(v, divisor) : v), narrow, out + i);
    }
  };
  count == 1 ? store(std::false_type()) : store(std::true_type());
#endif
  for (; i < n; ++i) out[i] = static_cast<float>(acc[i] / count);
}

template <int kSign, class E>
void ExtremeColumns(const void* from, int64_t row_stride, int64_t rows, int64_t columns,
                    float* out) {
  const E e;
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  const auto better = [&](auto a, auto b)
                          HWY_ATTR { return kSign > 0 ? MaxNaN(d, a, b) : MinNaN(d, a, b); };
  const auto* x = static_cast<const typename E::Type*>(from);
  for (int64_t r = 0; r < rows; ++r, x += row_stride) {
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes)
      hn::StoreU(better(hn::LoadU(d, out + c), LoadF32(e, d, x + c)), d, out + c);
    if (c == columns) continue;
    const int64_t left = columns - c;
    const auto best = better(LoadPartial(F32{}, d, out + c, left), LoadPartial(e, d, x + c, left));
    StorePartial(F32{}, best, d, out + c, left);
  }
}

template <class E>
ReduceRuns Runs() {
  return {Sum<E>,        Extreme<1, E>,        Extreme<-1, E>,
          SumColumns<E>, ExtremeColumns<1, E>, ExtremeColumns<-1, E>};
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
LS_SIMD_TABLE(Finish);
}  // namespace

ReduceRuns FindReduceRuns(DType dtype) { return LS_SIMD_FOR_MEMORY(FindRuns)(dtype); }
FinishFn FindReduceFinish() { return LS_SIMD(Finish); }

}  // namespace liveshape::cpu
#endif
