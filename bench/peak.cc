#include "bench/peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/peak.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 12;  // latency 4 x 2 pipes, and some

float FmaLoop(int64_t rounds) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> sum[kChains];
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  // Chains must differ, or the compiler makes one of several.
  HWY_UNROLL(12)
  for (int c = 0; c < kChains; ++c) sum[c] = hn::Set(d, static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
    HWY_UNROLL(12)
    for (int c = 0; c < kChains; ++c) sum[c] = hn::MulAdd(sum[c], a, b);
  }
  for (int c = 1; c < kChains; ++c) sum[0] = hn::Add(sum[0], sum[c]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

// Four streams, as one does not reach the bandwidth of a core's memory here (19 against 25 GB/s).
float ReadLoop(const float* from, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), quarter = count / 4;
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (int64_t i = 0; i + lanes <= quarter; i += lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, from + i));
    s1 = hn::Add(s1, hn::LoadU(d, from + i + quarter));
    s2 = hn::Add(s2, hn::LoadU(d, from + i + 2 * quarter));
    s3 = hn::Add(s3, hn::LoadU(d, from + i + 3 * quarter));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

double Flops() { return 2.0 * kChains * static_cast<double>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(FmaLoop);
LS_SIMD_TABLE(ReadLoop);
LS_SIMD_TABLE(Flops);
volatile float sink;
}  // namespace

void MultiplyAdds(int64_t rounds) { sink = LS_SIMD(FmaLoop)(rounds); }
double FlopsOfRound() { return LS_SIMD(Flops)(); }
void ReadAll(const float* from, int64_t count) { sink = LS_SIMD(ReadLoop)(from, count); }

}  // namespace liveshape::cpu
#endif
