// A session over a long life: thousands of binds, half of them refused, interleaved with runs; many runs with flat
// memory; many sessions on many threads. The model attends over a cache of keys: two symbols, one state.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "base/interpose.h"
#include "runtime/testing.h"

namespace liveshape {
namespace {

constexpr int64_t kWidth = 8, kMostTokens = 16, kMostPosition = 48, kCapacity = 64;

// x [S, 8] is written at row P of the cache; then softmax(x @ seen.T) @ seen over the first P + S rows.
std::shared_ptr<const Artifact> CachedAttention() {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 1, kMostTokens), p = m.Symbol("s1", 0, kMostPosition);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s, m.Int(kWidth)}});
  m.graph->AddScalarInput("pos", p);
  const ir::ValueId cache = m.State("cache", DType::kF32, {kCapacity, kWidth});
  const ir::ValueId written = m.call.Emit(ops::kViewWrite, {cache, x},
                                          {{"sizes", ir::Dims{s, m.Int(kWidth)}},
                                           {"strides", ir::Dims{m.Int(kWidth), m.Int(1)}},
                                           {"offset", ir::Dims{p * kWidth}}});
  m.graph->states[0].result = written;
  const ir::ValueId seen = m.call.Emit(ops::kSlice, {written},
                                       {{"dim", int64_t{0}},
                                        {"start", ir::Dims{m.Int(0)}},
                                        {"length", ir::Dims{p + s}},
                                        {"step", int64_t{1}}});
  const ir::ValueId scores = m.call.Emit(ops::kLinear, {x, seen});
  const ir::ValueId weights = m.call.Emit(
      ops::kSoftmax, {scores}, {{"dim", int64_t{1}}, {"all_masked", std::string("nan")}});
  m.Output("y", m.call.Emit(ops::kMatmul, {weights, seen}));
  return m.Finish();
}

// Inputs of any live shape in memory that is allocated once.
struct Inputs {
  std::vector<float> x = std::vector<float>(kMostTokens * 4 * kWidth);
  int64_t position = 0;
  std::vector<TensorRef> refs = {{DType::kF32, x.data(), {0, kWidth}},
                                 {DType::kI64, &position, {}}};

  void Set(int64_t tokens, int64_t at, std::mt19937_64& random) {
    refs[0].dims[0] = tokens;
    position = at;
    for (int64_t i = 0; i < tokens * kWidth; ++i)
      x[static_cast<size_t>(i)] = static_cast<float>(random() % 2048) / 1024 - 1;
  }
  void SetLegal(std::mt19937_64& random) {
    Set(1 + static_cast<int64_t>(random() % kMostTokens),
        static_cast<int64_t>(random() % (kMostPosition + 1)), random);
  }
  // One of the symbols, or both, beyond its range.
  void SetIllegal(std::mt19937_64& random) {
    const auto kind = random() % 4;
    Set(kind == 0   ? 0
        : kind == 1 ? 1
                    : kMostTokens + 1 + static_cast<int64_t>(random() % kMostTokens),
        kind == 2 ? 0 : (random() % 2 ? -1 : kMostPosition + 1), random);
  }
};

std::vector<std::byte> OutputBytes(const Session& session) {
  const TensorRef& out = session.output(0);
  const auto* data = static_cast<const std::byte*>(out.data);
  return {data, data + out.bytes()};
}

size_t ResidentBytes() {
  long total = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return static_cast<size_t>(resident) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Reliability, TenThousandBindsHalfOfThemRefusedChangeNoResult) {
  InstallAllocationObserver();
  const auto artifact = CachedAttention();
  const auto session = MakeSession(artifact, {.strict = true});
  std::mt19937_64 random(1);
  Inputs inputs;
  inputs.SetLegal(random);
  ASSERT_TRUE(session->Run(inputs.refs).ok());
  for (int i = 0; i < 10'000; ++i) {
    if (random() % 2) {
      const std::vector<int64_t> before(session->symbol_values().begin(),
                                        session->symbol_values().end());
      inputs.SetIllegal(random);
      ASSERT_EQ(session->Bind(inputs.refs).code(), Code::kOutOfRange);
      ASSERT_TRUE(std::ranges::equal(before, session->symbol_values()));
      ASSERT_EQ(session->output(0).dims, (std::vector<int64_t>{before[0], kWidth}));
      continue;
    }
    inputs.SetLegal(random);
    ASSERT_TRUE(session->Bind(inputs.refs).ok());
    if (random() % 10) continue;
    const auto states = session->Snapshot();
    ASSERT_TRUE(session->Run(inputs.refs).ok());
    const auto fresh = MakeSession(artifact, {.poison = Poison::kNaN}, 1);
    ASSERT_TRUE(fresh->Restore(*states).ok());
    ASSERT_TRUE(fresh->Run(inputs.refs).ok());
    ASSERT_EQ(OutputBytes(*session), OutputBytes(*fresh)) << "bind " << i;
    ASSERT_EQ(*session->Snapshot(), *fresh->Snapshot()) << "bind " << i;
  }
  EXPECT_EQ(session->stats().moved_addresses, 0u);
}

// `make soak` asks for 100,000.
TEST(Reliability, MemoryIsFlatOverManyRuns) {
  InstallAllocationObserver();
  const char* asked = std::getenv("LIVESHAPE_SOAK_RUNS");
  const long runs = asked ? std::atol(asked) : 5'000;
  const auto session = MakeSession(CachedAttention(), {.strict = true});
  std::mt19937_64 random(2);
  Inputs inputs;
  size_t start = 0;
  for (long i = 0; i < runs + 500; ++i) {
    inputs.SetLegal(random);
    ASSERT_TRUE(session->Run(inputs.refs).ok());
    if (i % 1000 == 999) session->Trim();
    if (i == 499) start = ResidentBytes();  // every page has been touched by now
  }
  const Stats stats = session->stats();
  EXPECT_EQ(stats.allocations, 0u);
  EXPECT_EQ(stats.runs, static_cast<uint64_t>(runs) + 500);
  EXPECT_LE(stats.arena_resident, stats.arena_reserved);
  EXPECT_LE(ResidentBytes(), start + (size_t{1} << 20));
  if (asked)
    std::printf("%ld runs: resident %zu KiB after 500, %zu KiB at the end\n", runs, start >> 10,
                ResidentBytes() >> 10);
}

std::vector<std::byte> Story(const std::shared_ptr<const Artifact>& artifact, uint64_t seed) {
  const auto session = MakeSession(artifact, {}, seed % 4 == 0 ? 2 : 1);
  std::mt19937_64 random(seed);
  Inputs inputs;
  std::vector<std::byte> results;
  for (int i = 0; i < 60; ++i) {
    inputs.SetLegal(random);
    if (!session->Run(inputs.refs).ok()) return {};
    const std::vector<std::byte> output = OutputBytes(*session);
    results.insert(results.end(), output.begin(), output.end());
  }
  return results;
}

TEST(Reliability, EightThreadsWithASessionEachGetWhatOneAfterAnotherGets) {
  const auto artifact = CachedAttention();
  std::vector<std::vector<std::byte>> together(8);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < together.size(); ++t)
    threads.emplace_back([&, t] { together[t] = Story(artifact, t); });
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < together.size(); ++t) {
    EXPECT_FALSE(together[t].empty());
    EXPECT_EQ(together[t], Story(artifact, t)) << t;
  }
}

}  // namespace
}  // namespace liveshape
