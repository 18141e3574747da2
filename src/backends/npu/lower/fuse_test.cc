// What is fused behind a product, by the kernels, stores and records of small graphs; values are checked against torch in
// tests/conformance/test_npu.py.
#include "backends/npu/lower/fuse.h"

#include <gmock/gmock.h>

#include "backends/npu/testing.h"

namespace liveshape::npu {
namespace {

using ::testing::ElementsAre;

// Sizes M, K and N in this order; N up to 4096, beyond what a tile holds.
struct ProductGraph : SizedGraph {
  explicit ProductGraph(std::vector<int64_t> given = {}) {
    sizes = std::move(given);
    m = Size("M");
    k = Size("K");
    n = Size("N");
    x = Input("x", {m, k});
  }

  sym::Expr m = {}, k = {}, n = {};
  ir::ValueId x = {};

  ir::ValueId Product(ir::ValueId a, sym::Expr columns) {
    return call.Emit(ops::kMatmul, {a, Input("w", {k, columns})});
  }
  ir::ValueId Residual(ir::ValueId value) { return Add(value, Input("r", {m, n})); }
  ir::ValueId Norm(ir::ValueId value) {
    return call.Emit(ops::kRmsNorm, {value, Input("weight", {n})}, {{"eps", 1e-6}});
  }
  Result<Lowered> Finish(const Target& target = {}) {
    if (!call.ok()) return call.status();
    return LowerGraph(std::move(graph), target);
  }
};

std::vector<std::string> Names(const Lowered& lowered) {
  std::vector<std::string> names;
  for (const Kernel& kernel : lowered.model.kernels) names.push_back(kernel.name);
  return names;
}

std::vector<std::string> Stored(const Kernel& kernel, std::span<const int64_t> sizes) {
  std::vector<std::string> names;
  const Recorder walk = RecordWalk(kernel, sizes);
  for (size_t i = 0; i < walk.kinds.size(); ++i)
    if (walk.kinds[i] == 's') names.push_back(kernel.tensors[walk.As<ls_trace_dma>(i).tensor].name);
  return names;
}

// relu(x w + r): the sum is added to and stored once; x w never is.
TEST(FuseTest, AChainIsComputedOnTheTileAndTheProductIsNotStored) {
  ProductGraph g;
  const ir::ValueId sum = g.Residual(g.Product(g.x, g.n));
  g.Output(g.call.Unary(ir::PwOp::kRelu, sum));
  const std::string result = g.graph->value(g.graph->outputs[0].value).name;
  auto lowered = g.Finish();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  ASSERT_THAT(Names(*lowered), ElementsAre("k0_matmul_pointwise_pointwise"));
  const Kernel& kernel = lowered->model.kernels[0];
  EXPECT_EQ(kernel.step, 2u);
  EXPECT_EQ(RecordWalk(kernel, {{8, 16, 32}}).kinds,
            "dllbcb"
            "dlbccsb");  // sums, then a strip
  EXPECT_THAT(Stored(kernel, {{8, 16, 32}}), ElementsAre(result));
  for (const Tensor& tensor : kernel.tensors)
    EXPECT_NE(tensor.storage, lowered->plan.steps[0].outputs[0].storage);
}

// What a chain reads beside the tile goes by in strips, and the tile of sums is as large as that of the product alone.
TEST(FuseTest, AResidualTakesNoRoomFromTheSums) {
  for (const auto& [target, rows] :
       {std::pair{Target{}, 1024}, {Target{.scratchpad_bytes = 8 << 20}, 512}}) {
    ProductGraph g, alone;
    g.Output(g.Residual(g.Product(g.x, g.n)));
    alone.Output(alone.Product(alone.x, alone.n));
    auto lowered = g.Finish(target), plain = alone.Finish(target);
    ASSERT_TRUE(lowered.ok() && plain.ok());
    const Kernel& kernel = lowered->model.kernels.at(0);
    const auto bytes_of = [](const Kernel& k, std::string_view name) {
      for (const Buffer& buffer : k.buffers)
        if (buffer.name == name) return buffer.bytes;
      return std::vector<int64_t>();
    };
    EXPECT_EQ(bytes_of(kernel, "c"), bytes_of(plain->model.kernels.at(0), "c"));
    // Of a tile two steps of K, then four strips.
    const std::string kinds = RecordWalk(kernel, {{rows, 256, 256}}).kinds;
    EXPECT_EQ(kinds,
              "dllbcbdllbcb"
              "dlbcsbdlbcsbdlbcsbdlbcsb");
  }
}

// One product made a gate and what it gates: a tile keeps both sums.
TEST(FuseTest, SlicesOfAProductArePartsOfATile) {
  ProductGraph g;
  const ir::ValueId both = g.Product(g.x, g.n * 2);
  const ir::ValueId gate = g.call.Slice(both, 1, g.Int(0), g.n),
                    up = g.call.Slice(both, 1, g.n, g.n);
  g.Output(g.call.Binary(ir::PwOp::kMul, g.call.Of(gate), g.call.Of(up)));
  auto lowered = g.Finish();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  ASSERT_EQ(lowered->model.kernels.size(), 1u);
  const Kernel& kernel = lowered->model.kernels[0];
  const Recorder walk = RecordWalk(kernel, {{8, 16, 32}});
  ASSERT_EQ(walk.kinds, "dlllbcccsb");
  EXPECT_EQ(walk.As<ls_trace_dma>(3).offset - walk.As<ls_trace_dma>(2).offset, 32 * 4);
  EXPECT_EQ(Stored(kernel, {{8, 16, 32}}).size(), 1u);
}

// What reads one slice alone is no stage: the others would have to be kept.
TEST(FuseTest, ASliceThatIsReadAloneIsApart) {
  ProductGraph g;
  const ir::ValueId both = g.Product(g.x, g.n * 2);
  g.Output(g.call.Unary(ir::PwOp::kExp, g.call.Slice(both, 1, g.Int(0), g.n)));
  g.Output(g.call.Unary(ir::PwOp::kSilu, g.call.Slice(both, 1, g.n, g.n)));
  auto lowered = g.Finish();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(lowered->model.kernels.size(), 3u);
}

TEST(FuseTest, WhatOthersReadIsStoredToo) {
  ProductGraph g;
  const ir::ValueId sum = g.Residual(g.Product(g.x, g.n));
  g.Output(g.Norm(sum));
  g.Output(sum);
  auto lowered = g.Finish();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  const Kernel& kernel = lowered->model.kernels.at(1);
  ASSERT_EQ(kernel.name, "k0_matmul_pointwise_rms_norm");
  EXPECT_EQ(Stored(kernel, {{8, 16, 32}}).size(), 2u);
}

// N9: whether rows fit a tile is asked of the live N; a static program has the kernels that run at its size, with the
// records of the dynamic one.
TEST(FuseTest, N9ANormIsFusedWhereItsRowsFitATile) {
  const auto make = [](std::vector<int64_t> sizes, const Target& target) {
    ProductGraph g(std::move(sizes));
    g.Output(g.Norm(g.Residual(g.Product(g.x, g.n))));
    return g.Finish(target);
  };
  for (const Target& target :
       {Target{}, Target{.scratchpad_bytes = 1 << 20}, Target{.forced_tile = 48}}) {
    auto dynamic = make({}, target);
    ASSERT_TRUE(dynamic.ok()) << dynamic.status().message();
    EXPECT_THAT(Names(*dynamic),
                ElementsAre("k0_matmul_pointwise", "k0_matmul_pointwise_rms_norm", "k2_rms_norm"));
    bool fused = false, apart = false;
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{37, 65, 48}, {300, 200, 129}, {3, 128, 1024}, {129, 16, 1025}}) {
      auto constant = make(sizes, target);
      ASSERT_TRUE(constant.ok()) << constant.status().message();
      size_t next = 0;
      for (const Kernel& kernel : dynamic->model.kernels) {
        const Recorder walk = RecordWalk(kernel, sizes);
        if (walk.kinds.empty()) continue;
        ASSERT_LT(next, constant->model.kernels.size());
        const Kernel& same = constant->model.kernels[next++];
        EXPECT_EQ(kernel.name, same.name);
        EXPECT_EQ(walk.records, RecordWalk(same, {}).records) << kernel.name;
      }
      EXPECT_EQ(next, constant->model.kernels.size());
      (next == 1 ? fused : apart) = true;
    }
    EXPECT_TRUE(fused && apart);
  }
}

// The planner would give the sum's slot the bytes of h, which dies at the product: tiles of one would be stored where
// rows of the other are still read.
TEST(FuseTest, TheResultDoesNotLieOnWhatTheProductReads) {
  ProductGraph g;
  const ir::ValueId h = g.call.Unary(ir::PwOp::kExp, g.x);
  g.Output(g.Residual(g.Product(h, g.n)));
  auto lowered = g.Finish();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  const Kernel& kernel = lowered->model.kernels.back();
  ASSERT_EQ(kernel.codes.size(), 2u) << kernel.name;
  for (const Tensor& read : kernel.tensors)
    for (const Tensor& written : kernel.tensors) {
      const plan::Storage &a = lowered->plan.storages[read.storage],
                          &b = lowered->plan.storages[written.storage];
      if (&a == &b || !written.written || a.place != plan::Place::kArena ||
          b.place != plan::Place::kArena)
        continue;
      EXPECT_TRUE(a.offset + a.capacity <= b.offset || b.offset + b.capacity <= a.offset);
    }
  plan::Rules without = PlanRules();
  without.linger = 0;
  auto plan = plan::MakePlan(*lowered->graph, without);
  ASSERT_TRUE(plan.ok());
  auto apart = Lower(*lowered->graph, *plan, {});
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(apart->kernels.size(), lowered->model.kernels.size() + 1);
}

TEST(FuseTest, AChainThatReadsTheTileInAnotherOrderIsApart) {
  ProductGraph g;
  const ir::ValueId turned = g.call.Transpose(g.Product(g.x, g.n), 0, 1);
  g.Output(g.Add(turned, g.Input("r", {g.n, g.m})));
  auto lowered = g.Finish();
  ASSERT_TRUE(lowered.ok()) << lowered.status().message();
  EXPECT_EQ(lowered->model.kernels.size(), 2u);
}

}  // namespace
}  // namespace liveshape::npu
