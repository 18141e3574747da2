#include "backends/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/peak.cc"
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

MachinePeak MeasurePeak(ThreadPool& pool) {
  // Best of a few: other programs on the machine only make it slower.
  const auto best = [](auto&& work) {
    double least = 1e30;
    for (int i = 0; i < 4; ++i) {
      const auto start = std::chrono::steady_clock::now();
      work();
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      least = std::min(least, took.count());
    }
    return least;
  };
  constexpr int64_t kRounds = 100'000;  // about 1 ms
  const int n = pool.size();
  const double fma = best([&] {
    pool.ParallelFor(n, 1, [](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) MultiplyAdds(kRounds);
    });
  });
  std::vector<float> memory(int64_t{32} << 20, 1.0f);  // 128 MB: beyond most L3
  const int64_t part = static_cast<int64_t>(memory.size()) / (16 * n);
  const double read = best([&] {
    pool.ParallelFor(16 * n, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) ReadAll(memory.data() + i * part, part);
    });
  });
  const double bytes = static_cast<double>(part * 16 * n) * sizeof(float);
  return {.flops = n * kRounds * FlopsOfRound() / fma, .bytes = bytes / read, .threads = n};
}

}  // namespace liveshape::cpu
#endif
