// The executor on whatever adapter this machine has: what is made once, what changes at a bind, what is refused.
#include <gmock/gmock.h>

#include <cstring>
#include <map>
#include <random>

#include "base/interpose.h"
#include "runtime/testing.h"

namespace liveshape {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Session> Open(std::shared_ptr<const Artifact> artifact, WebGpuOptions gpu = {},
                              SessionOptions options = {.strict = true}) {
  InstallAllocationObserver();
  auto session = Session::Create(std::move(artifact), MakeWebGpuBackend(gpu), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

Status Refused(std::shared_ptr<const Artifact> artifact) {
  return Session::Create(std::move(artifact), MakeWebGpuBackend()).status();
}

// y = x + x.T of a square, n = n // d, and a counter that a run advances.
std::shared_ptr<const Artifact> Mixed() {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 0, 40);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s, s}});
  const ir::ValueId n = m.graph->AddInput("n", {DType::kI64, {s}});
  const ir::ValueId d = m.graph->AddInput("d", {DType::kI64, {s}});
  m.Output("y", m.Add(x, m.call.Transpose(x, 0, 1)));
  m.Output("q", m.call.Binary(ir::PwOp::kFloorDiv, m.call.Of(n), m.call.Of(d)));
  m.Output("less", m.call.Binary(ir::PwOp::kLt, m.call.Of(n), m.call.Of(d)));
  const ir::ValueId count = m.State("count", DType::kI64, {1});
  const ir::ValueId next = m.Add(count, count);
  m.graph->states[0].result = next;
  return m.Finish();
}

struct MixedInputs {
  explicit MixedInputs(int64_t s)
      : x(Floats({s, s})), n(Integers({s}, std::vector<int64_t>(static_cast<size_t>(s)))), d(n) {
    for (size_t i = 0; i < n.data.size(); ++i) {
      n.data[i] = (int64_t{1} << 40) * (static_cast<int64_t>(i) - 7) + 12345;
      d.data[i] = i % 2 ? 3 : -(int64_t{1} << 33) - 5;
    }
    d.ref.data = d.data.data();
    refs = {x.ref, n.ref, d.ref};
  }
  Owned<float> x;
  Owned<int64_t> n, d;
  std::vector<TensorRef> refs;
};

void ExpectRight(const Session& session, const MixedInputs& in, int64_t s) {
  ASSERT_EQ(session.output(0).dims, (std::vector<int64_t>{s, s}));
  const auto* y = static_cast<const float*>(session.output(0).data);
  const auto* q = static_cast<const int64_t*>(session.output(1).data);
  const auto* less = static_cast<const uint8_t*>(session.output(2).data);
  for (int64_t i = 0; i < s; ++i) {
    for (int64_t j = 0; j < s; ++j)
      ASSERT_EQ(y[i * s + j], in.x.data[i * s + j] + in.x.data[j * s + i]);
    const int64_t a = in.n.data[i], b = in.d.data[i];
    ASSERT_EQ(q[i], a / b - (a % b != 0 && ((a < 0) != (b < 0)))) << a << " // " << b;
    ASSERT_EQ(less[i], a < b);
  }
}

class WebGpuBackendTest : public ::testing::TestWithParam<const char*> {};

TEST_P(WebGpuBackendTest, EveryShapeFromOneLoadAndNothingIsMadeAgain) {
  const auto artifact = Mixed();
  for (const Poison poison : {Poison::kNone, Poison::kNaN, Poison::kLarge}) {
    auto session = Open(artifact, {.limits = GetParam()}, {.strict = true, .poison = poison});
    const Stats before = session->stats();
    EXPECT_GT(before.device_pipelines, 0u);
    for (const int64_t s : {40, 1, 0, 7, 40, 39}) {
      const MixedInputs in(s);
      const Status status = session->Run(in.refs);
      ASSERT_TRUE(status.ok()) << status.message();
      ExpectRight(*session, in, s);
    }
    const Stats after = session->stats();
    EXPECT_EQ(after.device_buffers, before.device_buffers);
    EXPECT_EQ(after.device_shaders, before.device_shaders);
    EXPECT_EQ(after.device_pipelines, before.device_pipelines);
    EXPECT_EQ(after.device_bind_groups, before.device_bind_groups);
    EXPECT_EQ(after.rebuilds + after.moved_addresses + after.allocations, 0u);
  }
}

// Empty: what the adapter has. The last two bind x and y in parts.
INSTANTIATE_TEST_SUITE_P(Limits, WebGpuBackendTest,
                         ::testing::Values("", "smallest", "smallest,binding_bytes=4096",
                                           "smallest,binding_bytes=2304"));

// Slots of 5120 bytes in buffers of 8192: the arena is two buffers, one of its tensors lies in both.
TEST(WebGpuBackend, AnArenaBeyondABufferIsSeveralAndATensorMayLieInTwo) {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 0, 1250);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s}});
  const ir::ValueId a = m.Add(x, x), b = m.Add(a, a), c = m.Add(b, a);
  m.Output("y", m.Add(c, m.Add(a, b)));
  const auto artifact = m.Finish();
  auto session = Open(artifact, {.limits = "smallest,buffer_bytes=8192"});
  ASSERT_GT(session->plan_report().bytes, 8192u);
  for (const int64_t n : {1250, 1, 600, 0, 1250}) {
    const Owned<float> in = Floats({n});
    const Status status = session->Run({&in.ref, 1});
    ASSERT_TRUE(status.ok()) << status.message();
    const auto* y = static_cast<const float*>(session->output(0).data);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], 12 * in.data[static_cast<size_t>(i)]);
  }
}

TEST(WebGpuBackend, MoreBuffersThanTheDeviceBindsAreRefusedAtLoad) {
  const auto artifact = Mixed();
  for (const char* limits : {"storage_buffers=1", "smallest,binding_bytes=1024"}) {
    const Status status = Session::Create(artifact, MakeWebGpuBackend({.limits = limits})).status();
    EXPECT_EQ(status.code(), Code::kUnsupported) << limits;
    EXPECT_THAT(status.message(), HasSubstr("buffers in one dispatch")) << limits;
  }
  for (const char* limits : {"smalest", "binding_bytes", "binding_bytes=x", "binding_bytes=8"})
    EXPECT_EQ(Session::Create(artifact, MakeWebGpuBackend({.limits = limits})).status().code(),
              Code::kInvalidArgument)
        << limits;
}

// W1, X1, X2: 500 shapes in random order, one in five beyond the bound; every result is that of a session that has
// seen no other shape, bit by bit, and nothing was made on the way.
TEST(WebGpuBackend, FiveHundredRandomBindsAreAsFreshSessions) {
  const auto artifact = Mixed();
  const int64_t sizes[] = {0, 1, 2, 7, 16, 31, 40};
  std::map<int64_t, std::vector<std::string>> fresh;
  const auto bytes = [](const Session& session) {
    std::vector<std::string> all;
    for (size_t i = 0; i < session.output_count(); ++i) {
      const TensorRef& out = session.output(i);
      all.emplace_back(static_cast<const char*>(out.data), out.bytes());
    }
    return all;
  };
  for (const int64_t s : sizes) {
    const MixedInputs in(s);
    auto session = Open(artifact);
    ASSERT_TRUE(session->Run(in.refs).ok());
    fresh[s] = bytes(*session);
  }
  auto session = Open(artifact);
  const Stats before = session->stats();
  std::mt19937 random(1);
  uint64_t runs = 0;
  for (int i = 0; i < 500; ++i) {
    const bool refused = random() % 5 == 0, run = random() % 2 == 0;
    const int64_t s = refused ? 41 + static_cast<int64_t>(random() % 9) : sizes[random() % 7];
    const MixedInputs in(s);
    ASSERT_EQ(session->Bind(in.refs).ok(), !refused);
    if (!refused && run) {
      ASSERT_TRUE(session->Run(in.refs).ok());
      ASSERT_EQ(bytes(*session), fresh[s]) << "bind " << i << ", s " << s;
      ++runs;
    }
  }
  const Stats after = session->stats();
  EXPECT_EQ(after.runs, runs);
  EXPECT_GT(runs, 100u);
  EXPECT_EQ(after.device_buffers, before.device_buffers);
  EXPECT_EQ(after.device_shaders, before.device_shaders);
  EXPECT_EQ(after.device_pipelines, before.device_pipelines);
  EXPECT_EQ(after.device_bind_groups, before.device_bind_groups);
  EXPECT_EQ(after.rebuilds + after.moved_addresses + after.allocations, 0u);
}

TEST(WebGpuBackend, ARefusedShapeLeavesTheSessionAsItWas) {
  auto session = Open(Mixed());
  const MixedInputs good(5), beyond(41);
  ASSERT_TRUE(session->Run(good.refs).ok());
  EXPECT_FALSE(session->Bind(beyond.refs).ok());
  ASSERT_TRUE(session->Run(good.refs).ok());
  ExpectRight(*session, good, 5);
}

TEST(WebGpuBackend, BadDataFailsTheRunNamesTheNodeAndClosesASessionWithStates) {
  auto session = Open(Mixed());
  MixedInputs in(5);
  in.d.data[3] = 0;
  const Status status = session->Run(in.refs);
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_THAT(status.message(), HasSubstr("pointwise"));
  EXPECT_TRUE(session->needs_reset());
  ASSERT_TRUE(session->ResetStates().ok());
  const MixedInputs good(5);
  ASSERT_TRUE(session->Run(good.refs).ok());
  ExpectRight(*session, good, 5);
}

TEST(WebGpuBackend, WhatADriverRefusesAtLoadIsAnErrorAndANewSessionWorks) {
  struct Fault {
    WebGpuOptions options;
    Code code;
    const char* says;
  };
  const Fault faults[] = {
      {{.inject = "shader"}, Code::kInternal, "shader `test (pointwise), test (pointwise)"},
      {{.inject = "memory"}, Code::kResourceExhausted, "buffer `arena`"},
      {{.profile = true, .inject = "features"}, Code::kInternal, "without timestamps"},
  };
  const auto artifact = Mixed();
  for (const Fault& fault : faults) {
    const Status status = Session::Create(artifact, MakeWebGpuBackend(fault.options)).status();
    EXPECT_EQ(status.code(), fault.code) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(fault.says));
  }
  auto session = Open(artifact);
  const MixedInputs in(5);
  ASSERT_TRUE(session->Run(in.refs).ok());
  ExpectRight(*session, in, 5);
}

TEST(WebGpuBackend, ALostDeviceFailsTheRunAndANewSessionWorks) {
  const auto artifact = Mixed();
  auto session = Open(artifact, {.inject = "lose"});
  const MixedInputs in(5);
  ASSERT_TRUE(session->Run(in.refs).ok());
  const Status lost = session->Run(in.refs);
  EXPECT_EQ(lost.code(), Code::kFailedPrecondition);
  EXPECT_THAT(lost.message(), HasSubstr("lost"));
  EXPECT_TRUE(session->needs_reset());
  EXPECT_FALSE(session->ResetStates().ok());  // they are on a device that is gone
  EXPECT_FALSE(session->Run(in.refs).ok());
  session = Open(artifact);
  ASSERT_TRUE(session->Run(in.refs).ok());
  ExpectRight(*session, in, 5);
}

TEST(WebGpuBackend, StatesLiveOnTheDevice) {
  auto session = Open(Mixed());
  int64_t one = (int64_t{1} << 31) + 1;
  ASSERT_TRUE(session->WriteState("count", std::as_bytes(std::span(&one, 1))).ok());
  const MixedInputs in(3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->Run(in.refs).ok());
  int64_t found = 0;
  ASSERT_TRUE(session->ReadState("count", std::as_writable_bytes(std::span(&found, 1))).ok());
  EXPECT_EQ(found, 8 * one);
}

// y = x + b runs on what it left: x is given once, then fed by y, which never leaves the device.
TEST(WebGpuBackend, TensorsStayOnTheDeviceBetweenRuns) {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 0, 2000);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s}});
  const ir::ValueId b = m.graph->AddInput("b", {DType::kF32, {s}});
  m.Output("y", m.Add(x, b));
  const auto artifact = m.Finish();
  for (const Poison poison : {Poison::kNone, Poison::kNaN}) {
    auto session = Open(artifact, {.limits = "smallest,binding_bytes=4096"},
                        {.strict = true, .poison = poison});
    ASSERT_TRUE(session->KeepOutput(0).ok());
    ASSERT_TRUE(session->FeedInput(0, 0).ok());
    EXPECT_FALSE(session->FeedInput(0, 0).ok());
    EXPECT_FALSE(session->FeedInput(2, 0).ok());
    EXPECT_FALSE(session->KeepOutput(1).ok());
    for (const int64_t n : {1999, 5}) {
      const Owned<float> first = Floats({n}), step = Floats({n});
      TensorRef refs[] = {first.ref, step.ref};
      for (int run = 0; run < 3; ++run) {
        const Status status = session->Run(refs);
        ASSERT_TRUE(status.ok()) << status.message();
        EXPECT_EQ(session->output(0).data, nullptr);
        refs[0].data = refs[1].data = nullptr;
      }
      std::vector<float> y(static_cast<size_t>(n));
      ASSERT_TRUE(session->ReadOutput(0, std::as_writable_bytes(std::span(y))).ok());
      for (size_t i = 0; i < y.size(); ++i)
        ASSERT_FLOAT_EQ(y[i], first.data[i] + 3 * step.data[i]) << i;
      // Another shape than what is held is refused, and the session goes on.
      refs[0].dims[0] = refs[1].dims[0] = n - 1;
      EXPECT_THAT(session->Run(refs).message(), HasSubstr("another shape"));
      refs[0].dims[0] = refs[1].dims[0] = n;
      EXPECT_TRUE(session->Run(refs).ok());
    }
    ASSERT_TRUE(session->KeepOutput(0, false).ok());
    const Owned<float> in = Floats({7});
    const TensorRef refs[] = {in.ref, in.ref};
    ASSERT_TRUE(session->Run(refs).ok());
    EXPECT_EQ(static_cast<const float*>(session->output(0).data)[3], 2 * in.data[3]);
  }
  auto host = Session::Create(artifact, MakeCpuBackend({.threads = 1}));
  ASSERT_TRUE(host.ok());
  EXPECT_EQ((*host)->KeepOutput(0).code(), Code::kUnsupported);
}

// 4.3 million elements are more workgroups than one dimension takes (W10).
TEST(WebGpuBackend, CountsBeyondOneDimensionAreFolded) {
  GraphMaker m;
  const sym::Expr s = m.Symbol("s0", 1, 4'300'000);
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {s}});
  m.Output("y", m.Add(x, x));
  auto session = Open(m.Finish());
  for (const int64_t n : {4'300'000, 17}) {
    const Owned<float> in = Floats({n});
    ASSERT_TRUE(session->Run({&in.ref, 1}).ok());
    const auto* y = static_cast<const float*>(session->output(0).data);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y[i], 2 * in.data[static_cast<size_t>(i)]);
  }
}

TEST(WebGpuBackend, WhatItCannotRunIsRefusedAtLoadByName) {
  GraphMaker m;
  const ir::ValueId x = m.graph->AddInput("x", {DType::kF32, {m.Int(8)}});
  m.Output("y", m.call.Emit(ops::kNonzero, {x}, {{"count", ir::Dims{m.Int(8)}}}));
  EXPECT_THAT(Refused(m.Finish()).message(), HasSubstr("no kernel for `nonzero`"));

  GraphMaker wide;
  const ir::ValueId d = wide.graph->AddInput("x", {DType::kF64, {wide.Int(4)}});
  wide.Output("y", wide.Add(d, d));
  EXPECT_THAT(Refused(wide.Finish()).message(), HasSubstr("f64"));

  GraphMaker large;
  const sym::Expr n = large.Symbol("s0", 1, int64_t{1} << 34);
  const ir::ValueId big = large.graph->AddInput("x", {DType::kF32, {n}});
  large.Output("y", large.Add(big, big));
  EXPECT_EQ(Refused(large.Finish()).code(), Code::kResourceExhausted);
}

// Its four nodes need nothing of each other; then the counter is taken over.
TEST(WebGpuBackend, ProfileBooksADispatchOnItsFirstStep) {
  auto session = Open(Mixed(), {.profile = true}, {.profile = true});
  const MixedInputs in(40);
  ASSERT_TRUE(session->Run(in.refs).ok());
  std::vector<uint64_t> calls;
  for (const ProfileEntry& entry : session->profile()) calls.push_back(entry.calls);
  EXPECT_EQ(calls, (std::vector<uint64_t>{1, 0, 0, 0, 1}));
  EXPECT_GT(session->profile()[0].us, 0);
}

}  // namespace
}  // namespace liveshape
