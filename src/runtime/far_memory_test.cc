// A backend that keeps states in memory of its own: what the session moves, and when. It stands for a device; its
// kernels are the CPU's, run on copies, and the host's mirror of a state is spoilt after every run.
#include <cstring>

#include "runtime/testing.h"

namespace liveshape {
namespace {

class FarBackend : public Backend {
 public:
  const char* name() const override { return "far"; }
  plan::Rules rules() const override { return inner_->rules(); }
  Status Load(const ir::Graph& graph, const plan::Plan& plan) override {
    plan_ = &plan;
    for (const ir::State& state : graph.states)
      far_.emplace_back(*ir::DenseBytes(state.dtype, state.dims), std::byte{0xee});
    return inner_->Load(graph, plan);
  }
  Status Run(const RunContext& context, size_t begin, size_t end, size_t* failed) override {
    const auto mirror = [&](size_t i) { return context.bases[plan_->state_storage[i]]; };
    for (size_t i = 0; i < far_.size(); ++i) std::memcpy(mirror(i), far_[i].data(), far_[i].size());
    Status status = inner_->Run(context, begin, end, failed);
    for (size_t i = 0; i < far_.size(); ++i) {
      std::memcpy(far_[i].data(), mirror(i), far_[i].size());
      std::memset(mirror(i), 0xaa, far_[i].size());
    }
    made_ += makes_;
    return status;
  }
  Status FetchState(size_t state, std::byte* host) override {
    std::memcpy(host, far_[state].data(), far_[state].size());
    return {};
  }
  Status StoreState(size_t state, const std::byte* host) override {
    if (host)
      std::memcpy(far_[state].data(), host, far_[state].size());
    else
      std::memset(far_[state].data(), 0, far_[state].size());
    return {};
  }
  uint64_t objects_made() const override { return made_; }
  void AddStats(Stats& stats) const override { stats.device_buffers = 7; }

  uint64_t makes_ = 0;  // objects a run makes, which it must not

 private:
  BackendPtr inner_ = MakeCpuBackend({.threads = 1});
  const plan::Plan* plan_ = nullptr;
  std::vector<std::vector<std::byte>> far_;
  uint64_t made_ = 3;
};

// total += x; returns total.
std::shared_ptr<const Artifact> RunningSum() {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 1, 4);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {m.Int(2)}});
  m.graph->AddInput("length", {DType::kF32, {s}});
  const ir::ValueId total = m.State("total", DType::kF32, {2});
  const ir::ValueId sum = m.Add(total, x);
  m.graph->states[0].result = sum;
  m.Output("y", sum);
  return m.Finish();
}

class FarMemory : public ::testing::Test {
 protected:
  void Open(SessionOptions options = {}) {
    auto backend = std::make_unique<FarBackend>();
    far_ = backend.get();
    auto session = Session::Create(RunningSum(), std::move(backend), options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    session_ = *std::move(session);
  }
  std::vector<float> Run(float a, float b) {
    Owned<float> x(DType::kF32, {2}, {a, b}), length = Floats({3});
    const TensorRef inputs[] = {x.ref, length.ref};
    const Status status = session_->Run(inputs);
    EXPECT_TRUE(status.ok()) << status.message();
    return ReadFloats(session_->output(0));
  }
  std::vector<float> State() {
    std::vector<float> values(2);
    EXPECT_TRUE(session_->ReadState("total", std::as_writable_bytes(std::span(values))).ok());
    return values;
  }

  FarBackend* far_ = nullptr;
  std::unique_ptr<Session> session_;
};

using Values = std::vector<float>;

TEST_F(FarMemory, StatesAreReadWrittenResetAndRestoredWhereTheyLie) {
  Open({.strict = true});
  EXPECT_EQ(State(), (Values{0, 0}));
  EXPECT_EQ(Run(1, 2), (Values{1, 2}));
  EXPECT_EQ(Run(10, 20), (Values{11, 22}));
  EXPECT_EQ(State(), (Values{11, 22}));
  auto snapshot = session_->Snapshot();
  ASSERT_TRUE(snapshot.ok());
  const Values given = {5, 6};
  ASSERT_TRUE(session_->WriteState("total", std::as_bytes(std::span(given))).ok());
  EXPECT_EQ(Run(1, 1), (Values{6, 7}));
  ASSERT_TRUE(session_->ResetStates().ok());
  EXPECT_EQ(Run(1, 1), (Values{1, 1}));
  ASSERT_TRUE(session_->Restore(*snapshot).ok());
  EXPECT_EQ(Run(1, 1), (Values{12, 23}));
  EXPECT_EQ(session_->stats().device_buffers, 7u);
  EXPECT_EQ(session_->stats().rebuilds, 0u);
}

TEST_F(FarMemory, AnObjectMadeInARunIsARebuild) {
  Open();
  far_->makes_ = 2;
  Run(1, 2);
  EXPECT_EQ(session_->stats().rebuilds, 2u);
}

TEST_F(FarMemory, StrictAbortsOnAnObjectMadeInARun) {
  Open({.strict = true});
  far_->makes_ = 1;
  EXPECT_DEATH(Run(1, 2), "the backend made 1 objects inside run");
}

}  // namespace
}  // namespace liveshape
