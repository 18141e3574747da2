// The contract: bind is a transaction (X2), nothing is allocated, rebuilt or moved (X1), states survive
// failures or say that they did not.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "base/interpose.h"
#include "runtime/testing.h"

namespace liveshape {
namespace {

using ::testing::HasSubstr;

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override { InstallAllocationObserver(); }
};

// softmax(x + x) over the last dim: x [S, 8], S in [0, 64].
std::shared_ptr<const Artifact> SmallModel(int64_t bound = 64) {
  GraphMaker m;
  sym::Expr s = m.Symbol("s0", 0, bound);
  ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s, m.Int(8)}});
  ir::ValueId y = m.call.Emit(ops::kSoftmax, {m.Add(x, x)},
                              {{"dim", int64_t{1}}, {"all_masked", std::string("nan")}});
  m.Output("y", y);
  return m.Finish();
}

// A counter that grows by 1 a run, then table[ids]: an id out of range fails after the counter was computed.
std::shared_ptr<const Artifact> CountingModel() {
  GraphMaker m;
  sym::Expr s = m.Symbol("s0", 1, 16);
  ir::ValueId ids = m.graph->AddInput("ids", {DType::kI64, {s}});
  ir::ValueId counter = m.State("counter", DType::kI64, {1});
  m.graph->states[0].result =
      m.call.Binary(ir::PwOp::kAdd, m.call.Of(counter), m.call.Number(m.Int(1)));
  auto table = std::make_shared<std::vector<float>>(4 * 2, 1.0f);
  ir::ValueId weight = m.graph->AddConstant({.name = "table",
                                             .dtype = DType::kF32,
                                             .dims = {4, 2},
                                             .data = std::as_bytes(std::span(*table)),
                                             .owner = table});
  m.Output("rows", m.call.Emit(ops::kEmbedding, {weight, ids}));
  return m.Finish();
}

// Writes x into row `ids` of a cache in place, then reads table[ids] of a smaller table: a run with an id
// that fits the cache but not the table fails after the cache has changed.
std::shared_ptr<const Artifact> CacheModel() {
  GraphMaker m;
  sym::Expr s = m.Symbol("s0", 1, 8);
  ir::ValueId ids = m.graph->AddInput("ids", {DType::kI64, {s}});
  ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s, m.Int(2)}});
  ir::ValueId cache = m.State("cache", DType::kF32, {8, 2});
  ir::ValueId written =
      m.call.Emit(ops::kIndexPut, {cache, x, ids},
                  {{"axes", std::vector<int64_t>{0}}, {"accumulate", int64_t{0}}});
  m.graph->states[0].result = written;
  auto table = std::make_shared<std::vector<float>>(4 * 2, 1.0f);
  ir::ValueId weight = m.graph->AddConstant({.name = "table",
                                             .dtype = DType::kF32,
                                             .dims = {4, 2},
                                             .data = std::as_bytes(std::span(*table)),
                                             .owner = table});
  m.Output("sum", m.Add(m.call.Emit(ops::kEmbedding, {weight, ids}), x));
  return m.Finish();
}

int64_t ReadCounter(const Session& session) {
  int64_t value = -1;
  EXPECT_TRUE(session.ReadState("counter", std::as_writable_bytes(std::span(&value, 1))).ok());
  return value;
}

TEST_F(SessionTest, X1_NothingIsAllocatedWhileShapesChange) {
  auto session = MakeSession(SmallModel(), {.strict = true});
  for (int64_t s : {64, 1, 17, 0, 64, 3}) {
    auto x = Floats({s, 8});
    ASSERT_TRUE(session->Run({&x.ref, 1}).ok());
    EXPECT_EQ(session->output(0).dims, (std::vector<int64_t>{s, 8}));
  }
  const Stats stats = session->stats();
  EXPECT_TRUE(stats.allocations_observed);
  EXPECT_EQ(stats.allocations, 0u);
  EXPECT_EQ(stats.rebuilds, 0u);
  EXPECT_EQ(stats.moved_addresses, 0u);
  EXPECT_EQ(stats.binds, 6u);
}

TEST_F(SessionTest, X1_EachDetectorAbortsOnAnInjectedFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::pair<const char*, const char*> faults[] = {
      {"allocate", "strict: .*allocations inside run"},
      {"rebuild", "strict: the plan was rebuilt inside run"},
      {"move", "strict: the address of storage .* moved inside run"},
  };
  for (const auto& [fault, message] : faults) {
    auto run = [&, fault = fault](bool strict) {
      InstallAllocationObserver();
      auto session = MakeSession(SmallModel(), {.strict = strict, .inject = fault}, 1);
      auto x = Floats({4, 8});
      (void)session->Run({&x.ref, 1});
      return session->stats();
    };
    EXPECT_DEATH(run(true), message) << fault;
    const Stats stats = run(false);  // counted, not fatal, without --strict
    EXPECT_EQ(stats.allocations + stats.rebuilds + stats.moved_addresses, 1u) << fault;
  }
}

TEST_F(SessionTest, X1_ResultsDoNotDependOnHistoryBoundOrThreads) {
  auto x = Floats({17, 8});
  auto fresh = MakeSession(SmallModel(17), {}, 1);
  ASSERT_TRUE(fresh->Run({&x.ref, 1}).ok());
  const auto expected = ReadFloats(fresh->output(0));
  for (int threads : {1, 2, 3})
    for (Poison poison : {Poison::kNaN, Poison::kLarge}) {
      auto session = MakeSession(SmallModel(4096), {.poison = poison}, threads);
      for (int64_t s : {4096, 2, 100}) {
        auto other = Floats({s, 8}, 3);
        ASSERT_TRUE(session->Run({&other.ref, 1}).ok());
      }
      ASSERT_TRUE(session->Run({&x.ref, 1}).ok());
      const auto got = ReadFloats(session->output(0));
      ASSERT_EQ(got.size(), expected.size());
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0);
    }
}

TEST_F(SessionTest, X2_ARefusedShapeNamesSymbolValueBoundAndInputAndChangesNothing) {
  auto session = MakeSession(SmallModel(), {.strict = true});
  auto x = Floats({5, 8}), large = Floats({65, 8}), wide = Floats({5, 9});
  ASSERT_TRUE(session->Run({&x.ref, 1}).ok());
  const auto before = ReadFloats(session->output(0));

  Status status = session->Run({&large.ref, 1});
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  for (const char* part : {"`x`", "Ds0", "65", "64"})
    EXPECT_THAT(status.message(), HasSubstr(part));
  EXPECT_FALSE(session->Run({&wide.ref, 1}).ok());

  auto wrong_rank = Floats({5, 8, 1});
  EXPECT_THAT(session->Bind({&wrong_rank.ref, 1}).message(), HasSubstr("rank 3"));
  auto wrong_dtype = Integers({5, 8}, std::vector<int64_t>(40));
  EXPECT_THAT(session->Bind({&wrong_dtype.ref, 1}).message(),
              HasSubstr("is i64, the model takes f32"));
  EXPECT_THAT(session->Bind({}).message(), HasSubstr("0 inputs given, the model has 1"));

  EXPECT_EQ(session->output(0).dims, (std::vector<int64_t>{5, 8}));
  EXPECT_EQ(session->symbol_values()[0], 5);
  EXPECT_EQ(ReadFloats(session->output(0)), before);
  EXPECT_EQ(session->stats().binds, 1u);
}

TEST_F(SessionTest, X2_BindingTheCurrentShapeIsACompare) {
  auto session = MakeSession(SmallModel());
  auto x = Floats({5, 8});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->Bind({&x.ref, 1}).ok());
  EXPECT_EQ(session->stats().binds, 1u);
}

TEST_F(SessionTest, X2_AFailedRunLeavesACounterAsItWas) {
  auto session = MakeSession(CountingModel(), {.strict = true});
  auto good = Integers({2}, {0, 3}), bad = Integers({2}, {0, 4});
  ASSERT_TRUE(session->Run({&good.ref, 1}).ok());
  EXPECT_EQ(ReadCounter(*session), 1);
  Status status = session->Run({&bad.ref, 1});
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("embedding"));
  EXPECT_FALSE(session->needs_reset());
  EXPECT_EQ(ReadCounter(*session), 1);  // not 2: a failed run did not happen
  ASSERT_TRUE(session->Run({&good.ref, 1}).ok());
  EXPECT_EQ(ReadCounter(*session), 2);
}

TEST_F(SessionTest, X2_ARunThatFailedAfterAWriteRefusesToGoOnUntilReset) {
  auto session = MakeSession(CacheModel(), {.strict = true});
  auto x = Floats({1, 2});
  auto good = Integers({1}, {2}), late = Integers({1}, {6}), early = Integers({1}, {9});
  TensorRef inputs[] = {good.ref, x.ref};
  ASSERT_TRUE(session->Run(inputs).ok());
  const auto snapshot = session->Snapshot();
  ASSERT_TRUE(snapshot.ok());

  inputs[0] = early.ref;  // out of the cache itself: refused before anything is written
  EXPECT_FALSE(session->Run(inputs).ok());
  EXPECT_FALSE(session->needs_reset());

  inputs[0] = late.ref;
  EXPECT_FALSE(session->Run(inputs).ok());
  EXPECT_TRUE(session->needs_reset());
  inputs[0] = good.ref;
  EXPECT_EQ(session->Run(inputs).code(), Code::kFailedPrecondition);
  EXPECT_FALSE(session->Snapshot().ok());
  ASSERT_TRUE(session->Restore(*snapshot).ok());
  EXPECT_TRUE(session->Run(inputs).ok());
  ASSERT_TRUE(session->ResetStates().ok());
  float cache[16];
  ASSERT_TRUE(session->ReadState("cache", std::as_writable_bytes(std::span(cache))).ok());
  for (float v : cache) EXPECT_EQ(v, 0);
}

TEST_F(SessionTest, StatesAreListedReadAndWritten) {
  auto session = MakeSession(CountingModel());
  EXPECT_EQ(session->state_names(), std::vector<std::string>{"counter"});
  const int64_t ten = 10;
  ASSERT_TRUE(session->WriteState("counter", std::as_bytes(std::span(&ten, 1))).ok());
  auto ids = Integers({1}, {0});
  ASSERT_TRUE(session->Run({&ids.ref, 1}).ok());
  EXPECT_EQ(ReadCounter(*session), 11);
  EXPECT_THAT(session->state("cache").status().message(), HasSubstr("counter"));
  EXPECT_FALSE(session->WriteState("counter", {}).ok());
}

TEST_F(SessionTest, CancellationStopsBetweenOps) {
  auto session = MakeSession(CountingModel());
  auto ids = Integers({1}, {0});
  session->cancel() = true;
  EXPECT_EQ(session->Run({&ids.ref, 1}).code(), Code::kCancelled);
  session->cancel() = false;
  ASSERT_TRUE(session->Run({&ids.ref, 1}).ok());
  EXPECT_EQ(ReadCounter(*session), 1);
}

TEST_F(SessionTest, InputsAndOutputsMayLieAnywhere) {
  auto session = MakeSession(SmallModel(), {.strict = true});
  auto x = Floats({3, 8});
  ASSERT_TRUE(session->Run({&x.ref, 1}).ok());
  const auto expected = ReadFloats(session->output(0));
  std::vector<std::byte> in(x.ref.bytes() + 1), out(x.ref.bytes() + 3, std::byte{0xab});
  std::memcpy(in.data() + 1, x.ref.data, x.ref.bytes());
  TensorRef input{DType::kF32, in.data() + 1, {3, 8}}, output{DType::kF32, out.data() + 2, {0, 0}};
  ASSERT_TRUE(session->Run({&input, 1}, {&output, 1}).ok());
  EXPECT_EQ(output.dims, (std::vector<int64_t>{3, 8}));
  EXPECT_EQ(std::memcmp(out.data() + 2, expected.data(), x.ref.bytes()), 0);
  EXPECT_EQ(out.front(), std::byte{0xab});
  EXPECT_EQ(out.back(), std::byte{0xab});
  EXPECT_EQ(session->stats().moved_addresses, 0u);
}

TEST_F(SessionTest, OneValueIsAnOutputSeveralTimes) {
  GraphMaker m;
  const sym::Expr S = m.Symbol("s0", 1, 8);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {S, m.Int(4)}});
  const ir::ValueId sum = m.Add(x, x), turned = m.call.Transpose(x, 0, 1);
  for (const char* name : {"sum", "again"}) m.Output(name, sum);
  for (const char* name : {"turned", "turned_again"}) m.Output(name, turned);
  auto session = MakeSession(m.Finish());
  const auto in = Floats({3, 4});
  ASSERT_TRUE(session->Run({&in.ref, 1}).ok());
  std::vector<std::vector<float>> expected;
  for (size_t i = 0; i < 4; ++i) expected.push_back(ReadFloats(session->output(i)));
  // Every choice of which outputs the caller has memory for.
  for (int given = 0; given < 16; ++given) {
    std::vector<std::vector<float>> memory(4, std::vector<float>(12, -1));
    std::vector<TensorRef> out(4);
    for (size_t i = 0; i < 4; ++i) out[i].data = given >> i & 1 ? memory[i].data() : nullptr;
    ASSERT_TRUE(session->Run({&in.ref, 1}, out).ok());
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(ReadFloats(out[i]), expected[i]) << given << ' ' << i;
  }
}

TEST_F(SessionTest, SessionsOfOneArtifactRunSideBySide) {
  auto artifact = SmallModel();
  auto x = Floats({33, 8});
  auto reference = MakeSession(artifact, {}, 1);
  ASSERT_TRUE(reference->Run({&x.ref, 1}).ok());
  const auto expected = ReadFloats(reference->output(0));
  std::vector<std::thread> threads;
  std::vector<int> good(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      auto session = MakeSession(artifact, {}, 1);
      for (int64_t s : {1, 33, 64, 33}) {
        auto mine = Floats({s, 8});
        if (!session->Run({&mine.ref, 1}).ok()) return;
        if (s == 33) good[static_cast<size_t>(t)] += ReadFloats(session->output(0)) == expected;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, std::vector<int>(4, 2));
}

TEST_F(SessionTest, X5_ResidentMemoryFollowsTheLiveShapeDownToo) {
  auto session = MakeSession(SmallModel(1 << 20));
  auto small = Floats({16, 8}), large = Floats({1 << 20, 8});
  ASSERT_TRUE(session->Run({&small.ref, 1}).ok());
  const size_t at_small = session->stats().arena_resident;
  EXPECT_LT(at_small, size_t{1} << 20);
  EXPECT_GE(session->stats().arena_reserved, size_t{32} << 20);
  ASSERT_TRUE(session->Run({&large.ref, 1}).ok());
  EXPECT_GE(session->stats().arena_resident, size_t{32} << 20);
  ASSERT_TRUE(session->Run({&small.ref, 1}).ok());
  session->Trim();
  EXPECT_LE(session->stats().arena_resident, at_small + (size_t{1} << 16));
  ASSERT_TRUE(session->Run({&small.ref, 1}).ok());
}

TEST_F(SessionTest, ProfileCountsEveryStep) {
  auto session = MakeSession(SmallModel(), {.profile = true});
  auto x = Floats({3, 8});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->Run({&x.ref, 1}).ok());
  bool softmax = false;
  for (const ProfileEntry& entry : session->profile()) {
    EXPECT_EQ(entry.calls, 3u);
    softmax = softmax || entry.op == "softmax";
  }
  EXPECT_TRUE(softmax);
}

}  // namespace
}  // namespace liveshape
