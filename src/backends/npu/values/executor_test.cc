// The value executor shows what a tile program does wrong.
#include "backends/npu/values/executor.h"

#include <gmock/gmock.h>

#include <cmath>

#include "backends/npu/testing.h"

namespace liveshape::npu {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

// y = 2x over [N] in tiles of 64, with one mistake or none.
enum class Mistake { kNone, kNoBarrier, kLateBarrier, kTooLong, kTooFarStore };

class ExecutorTest : public ::testing::Test {
 protected:
  Status Double(Mistake mistake, int64_t n, std::vector<float>& y) {
    SizedGraph g;
    const sym::Expr size = g.Size("N");
    const ir::ValueId x = g.Input("x", {size});
    g.Output(g.Add(x, x));
    LS_ASSIGN_OR_RETURN(plan::Plan plan, plan::MakePlan(*g.graph, PlanRules()));
    const plan::Locations locations(*g.graph, plan);
    const Target target;
    const Lowering l{*g.graph, plan,      plan.steps[0], &g.graph->nodes[0],
                     target,   locations, "double"};
    KernelBuilder k(l);
    const View in = k.In(0), out = k.Out(0);
    const uint32_t a = k.AddBuffer("a", 256), b = k.AddBuffer("b", 256);
    const uint32_t code = k.AddCode({.name = "double"}, [](const ValueCall& call) {
      for (int64_t i = 0; i < call.record.extent[0]; ++i)
        call.as<float>(0)[i] = 2 * call.as<float>(1)[i];
      return Status();
    });
    k.Tiles("i", in.dims[0], k.Int(64), [&](Span span) {
      const Expr live = mistake == Mistake::kTooLong ? k.Int(65) : span.live;
      k.Item();
      k.Dispatch();
      k.Load(in, k.At(a), span.start * 4, {{live, k.Int(4), k.Int(4)}});
      if (mistake != Mistake::kNoBarrier && mistake != Mistake::kLateBarrier) k.BarrierLoads();
      k.Compute(code, {span.live}, {k.At(b), k.At(a)});
      if (mistake == Mistake::kLateBarrier) k.BarrierLoads();
      k.Store(out, k.At(b), span.start * (mistake == Mistake::kTooFarStore ? 8 : 4),
              {{span.live, k.Int(4), k.Int(4)}});
      k.BarrierTile();
    });
    std::vector<Kernel> kernels;
    LS_RETURN_IF_ERROR(k.Finish(kernels));
    std::vector<float> values(static_cast<size_t>(n), 1.5f);
    y.assign(static_cast<size_t>(n), 0);
    const std::span<std::byte> tensors[] = {std::as_writable_bytes(std::span(values)),
                                            std::as_writable_bytes(std::span(y))};
    Executor executor(1 << 16);
    Walker walker(kernels[0]);
    const int64_t args[] = {n};
    const std::span<const int64_t> no_params[1] = {};
    return executor.Run(kernels[0], walker, args, tensors, no_params);
  }
};

TEST_F(ExecutorTest, ARightProgramGivesRightValuesAtATail) {
  std::vector<float> y;
  Status status = Double(Mistake::kNone, 100, y);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_THAT(y, Each(3.0f));
}

TEST_F(ExecutorTest, ALoadIsNotThereBeforeItsBarrier) {
  std::vector<float> y;
  ASSERT_TRUE(Double(Mistake::kLateBarrier, 100, y).ok());
  for (float value : y) EXPECT_TRUE(std::isnan(value));
}

TEST_F(ExecutorTest, LoadsThatNothingWaitsForAreAnError) {
  std::vector<float> y;
  EXPECT_THAT(Double(Mistake::kNoBarrier, 100, y).message(), HasSubstr("nothing waited for"));
}

TEST_F(ExecutorTest, ABoxThatLeavesItsBufferIsAnError) {
  std::vector<float> y;
  EXPECT_THAT(Double(Mistake::kTooLong, 100, y).message(), HasSubstr("buffer `a`, which has 256"));
}

TEST_F(ExecutorTest, ABoxThatLeavesItsTensorIsAnError) {
  std::vector<float> y;
  EXPECT_THAT(Double(Mistake::kTooFarStore, 100, y).message(), HasSubstr("which has 400"));
}

}  // namespace
}  // namespace liveshape::npu
