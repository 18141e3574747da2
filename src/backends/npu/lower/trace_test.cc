// What walks of tile programs emit.
#include <gmock/gmock.h>

#include "backends/npu/testing.h"

namespace liveshape::npu {
namespace {

using ::testing::HasSubstr;

Result<Lowered> AddVectors(std::vector<int64_t> sizes = {}, Target target = {.forced_tile = 512}) {
  SizedGraph g;
  g.sizes = std::move(sizes);
  const sym::Expr n = g.Size("N");
  const ir::ValueId a = g.Input("a", {n}), b = g.Input("b", {n});
  g.Output(g.Add(a, b));
  return LowerGraph(std::move(g.graph), target);
}

// N5: per tile dispatch, load a, load b, barrier, compute, store, barrier, and nothing else.
TEST(TraceTest, N5AddInTilesOf512) {
  auto add = AddVectors();
  ASSERT_TRUE(add.ok()) << add.status().message();
  ASSERT_EQ(add->model.kernels.size(), 1u);
  const Kernel& kernel = add->model.kernels[0];
  for (auto [n, tiles] : {std::pair{1024, 2}, {2048, 4}}) {
    const Recorder walk = RecordWalk(kernel, {{n}});
    std::string expected;
    for (int t = 0; t < tiles; ++t) expected += "dllbcsb";
    EXPECT_EQ(walk.kinds, expected) << "N=" << n;
  }
}

TEST(TraceTest, TailsAreClamped) {
  auto add = AddVectors();
  ASSERT_TRUE(add.ok());
  const Recorder walk = RecordWalk(add->model.kernels[0], {{1000}});
  ASSERT_EQ(walk.kinds, "dllbcsbdllbcsb");
  const auto load = walk.As<ls_trace_dma>(8);
  EXPECT_EQ(load.offset, 512 * 4);
  EXPECT_EQ(load.rank, 1u);
  EXPECT_EQ(load.extent[0], 488);
  EXPECT_EQ(walk.As<ls_trace_compute>(11).extent[0], 488);
  EXPECT_EQ(walk.As<ls_trace_dispatch>(7).tile, 1);
  EXPECT_EQ(load.place.version, 1u);
}

TEST(TraceTest, NothingIsEmittedForNoElements) {
  auto add = AddVectors({0});
  ASSERT_TRUE(add.ok());
  EXPECT_EQ(RecordWalk(add->model.kernels[0], {}).kinds, "");
}

TEST(TraceTest, AWrongNumberOfShapeArgsIsRefused) {
  auto add = AddVectors();
  ASSERT_TRUE(add.ok());
  Recorder recorder;
  const int64_t two[] = {1, 2};
  EXPECT_EQ(Walk(add->model.kernels[0], two, recorder.sink()), -1);
}

TEST(TraceTest, ACallbackEndsTheWalk) {
  auto add = AddVectors();
  ASSERT_TRUE(add.ok());
  ls_trace_sink sink = Recorder().sink();
  sink.dispatch = [](void*, const ls_trace_dispatch*) { return 42; };
  EXPECT_EQ(Walk(add->model.kernels[0], {{1024}}, sink), 42);
}

// A broadcast whose dims merge at some live sizes only, then a product and a softmax.
Result<Lowered> Mixed(std::vector<int64_t> sizes, const Target& target) {
  SizedGraph g;
  g.sizes = std::move(sizes);
  const sym::Expr r = g.Size("R"), c = g.Size("C");
  const ir::ValueId x = g.Input("x", {r, c}), bias = g.Input("bias", {c}),
                    w = g.Input("w", {c, g.Int(40)});
  const ir::ValueId sum = g.Add(x, g.call.Expand(bias, {r, c}));
  const ir::ValueId y = g.call.Emit(ops::kMatmul, {sum, w});
  g.Output(
      g.call.Emit(ops::kSoftmax, {y}, {{"dim", int64_t{1}}, {"all_masked", std::string("nan")}}));
  if (!g.call.ok()) return g.call.status();
  return LowerGraph(std::move(g.graph), target);
}

// N9: a static program is the dynamic one with constants, and emits the same records.
TEST(TraceTest, N9StaticAndDynamicEmitTheSameRecords) {
  for (const Target& target :
       {Target{}, Target{.scratchpad_bytes = 1 << 20}, Target{.forced_tile = 48}}) {
    auto dynamic = Mixed({}, target);
    ASSERT_TRUE(dynamic.ok()) << dynamic.status().message();
    for (auto [r, c] : {std::pair{1, 1}, {1, 37}, {37, 1}, {129, 65}, {1000, 513}, {2048, 128}}) {
      auto constant = Mixed({r, c}, target);
      ASSERT_TRUE(constant.ok()) << constant.status().message();
      ASSERT_EQ(constant->model.kernels.size(), dynamic->model.kernels.size());
      for (size_t k = 0; k < dynamic->model.kernels.size(); ++k) {
        const Recorder a = RecordWalk(dynamic->model.kernels[k], {{r, c}});
        const Recorder b = RecordWalk(constant->model.kernels[k], {});
        EXPECT_TRUE(a.kinds == b.kinds && a.records == b.records)
            << dynamic->model.kernels[k].name << " at " << r << "x" << c;
        EXPECT_EQ(dynamic->model.kernels[k].buffers[0].bytes,
                  constant->model.kernels[k].buffers[0].bytes);
      }
    }
  }
}

// N7: x[M, N].T seen flat has no strides, but a common refinement with a flat chain: no kernel copies it.
TEST(TraceTest, N7AReshapeThatStridesCannotExpressNeedsNoCopy) {
  SizedGraph g;
  const sym::Expr m = g.Size("M"), n = g.Size("N");
  const ir::ValueId x = g.Input("x", {m, n}), y = g.Input("y", {m * n});
  const ir::ValueId transposed =
      g.call.Emit(ops::kPermute, {x}, {{"perm", std::vector<int64_t>{1, 0}}});
  g.Output(g.Add(g.call.Reshape(transposed, {m * n}), y));
  ASSERT_TRUE(g.call.ok()) << g.call.status().message();
  auto lowered = LowerGraph(std::move(g.graph), {});
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(lowered->plan.steps.size(), 2u);
  ASSERT_EQ(lowered->model.kernels.size(), 1u);
  const Recorder walk = RecordWalk(lowered->model.kernels[0], {{7, 5}});
  ASSERT_EQ(walk.kinds, "dllbcsb");
  const auto load = walk.As<ls_trace_dma>(1);  // 5 columns of 7, transposed on the way in
  EXPECT_EQ(load.rank, 2u);
  EXPECT_EQ(load.extent[0], 5);
  EXPECT_EQ(load.stride[0], 4);
  EXPECT_EQ(load.extent[1], 7);
  EXPECT_EQ(load.stride[1], 5 * 4);
}

TEST(TraceTest, ATileThatCannotFitIsAnErrorWithTheSizes) {
  auto add = AddVectors({}, {.scratchpad_bytes = 4096, .forced_tile = 512});
  ASSERT_FALSE(add.ok());
  EXPECT_THAT(add.status().message(), HasSubstr("its tile needs 12288 bytes"));
  EXPECT_THAT(add.status().message(), HasSubstr("the scratchpad has 4096"));
}

TEST(TraceTest, N10AnOpWithoutALoweringIsRefusedByName) {
  SizedGraph g;
  const sym::Expr n = g.Size("N");
  const ir::ValueId x = g.Input("x", {n});
  auto places = g.graph->AddNode(ops::kNonzero, {x}, {{"count", ir::Dims{n}}});
  ASSERT_TRUE(places.ok()) << places.status().message();
  g.Output((*places)[0]);
  auto lowered = LowerGraph(std::move(g.graph), {});
  ASSERT_FALSE(lowered.ok());
  EXPECT_THAT(lowered.status().message(), HasSubstr("no tile lowering for `nonzero`"));
}

}  // namespace
}  // namespace liveshape::npu
