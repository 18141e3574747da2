#include <gtest/gtest.h>

#include <memory>

#include "ops/ops.h"
#include "ops/window.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

using ir::PwOp;
using ir::ValueId;

// conv(x) * scale + shift on [s0, 1, 4, 4] -> [s0, 2, 4, 4], by a 1x1 convolution with weights 3 and 5.
class FoldIntoConvolutionsTest : public ::testing::Test {
 protected:
  ValueId Constant(std::vector<int64_t> dims, std::vector<float> values) {
    auto data = std::make_shared<std::vector<float>>(std::move(values));
    return graph_.AddConstant({.name = "c",
                               .dims = std::move(dims),
                               .data = std::as_bytes(std::span(*data)),
                               .owner = data});
  }
  ValueId Add(const ir::OpDef& op, std::vector<ValueId> inputs, ir::Attrs attrs) {
    auto outputs = graph_.AddNode(op, std::move(inputs), std::move(attrs), "n");
    LS_CHECK(outputs.ok());
    return (*outputs)[0];
  }
  ValueId Pointwise(PwOp op, ValueId x, std::vector<float> by_channel) {
    const ir::Dims dims = graph_.type(x).dims;
    ir::PointwiseProgram p;
    p.code = {
        {.op = PwOp::kLoad, .imm = 0}, {.op = PwOp::kLoad, .imm = 1}, {.op = op, .a = 0, .b = 1}};
    const ValueId c =
        Add(ops::kExpand, {Constant({2, 1, 1}, std::move(by_channel))}, {{"sizes", dims}});
    return Add(ops::kPointwise, {x, c}, {{"program", p}, {"dims", dims}});
  }
  ValueId Conv() {
    sym::Table& t = graph_.table();
    const sym::Expr s = t.Symbol({.name = "s0", .lo = 1, .hi = 8});
    const ValueId x = graph_.AddInput("x", {DType::kF32, {s, t.Int(1), t.Int(4), t.Int(4)}});
    ir::Attrs attrs = ops::WindowAttrs({});
    attrs.emplace_back("groups", int64_t{1});
    return Add(ops::kConv, {x, Constant({2, 1}, {3, 5}), Constant({2}, {1, -1})}, attrs);
  }
  size_t Fold(ValueId result) {
    graph_.outputs.push_back({.name = "y", .value = result});
    EXPECT_TRUE(FoldIntoConvolutions(graph_, {}).ok());
    EXPECT_TRUE(ir::Verify(graph_).ok());
    return graph_.nodes.size();
  }
  std::vector<float> Values(ValueId v) const {
    const ir::Constant& c = graph_.constants[graph_.value(v).index];
    const auto* floats = reinterpret_cast<const float*>(c.data.data());
    return {floats, floats + c.data.size() / sizeof(float)};
  }

  ir::Graph graph_;
};

TEST_F(FoldIntoConvolutionsTest, ScaleAndShiftBecomeWeightAndBias) {
  ASSERT_EQ(Fold(Pointwise(PwOp::kAdd, Pointwise(PwOp::kMul, Conv(), {2, -4}), {10, 20})), 1u);
  EXPECT_EQ(Values(graph_.nodes[0].inputs[1]), (std::vector<float>{6, -20}));
  EXPECT_EQ(Values(graph_.nodes[0].inputs[2]), (std::vector<float>{12, 24}));
}

TEST_F(FoldIntoConvolutionsTest, AResultThatOthersReadStays) {
  const ValueId conv = Conv();
  graph_.outputs.push_back({.name = "raw", .value = conv});
  EXPECT_EQ(Fold(Pointwise(PwOp::kMul, conv, {2, 4})), 3u);
}

TEST_F(FoldIntoConvolutionsTest, WhatWouldOverflowStays) {
  EXPECT_EQ(Fold(Pointwise(PwOp::kMul, Conv(), {1, 3e38f})), 3u);
}

TEST_F(FoldIntoConvolutionsTest, WhatWouldUnderflowStays) {
  EXPECT_EQ(Fold(Pointwise(PwOp::kMul, Conv(), {1, 1e-39f})), 3u);
}

}  // namespace
}  // namespace liveshape::passes
