#include <gtest/gtest.h>

#include <cmath>

#include "ir/op.h"
#include "ops/ops.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

using ir::Encoding;

class QuantiseWeightsTest : public testing::Test {
 protected:
  ir::ValueId Weight(const char* name, float value = 0.5f) {
    auto data = std::make_shared<std::vector<float>>(40 * 40, value);
    return graph_.AddConstant(
        {.name = name, .dims = {40, 40}, .data = std::as_bytes(std::span(*data)), .owner = data});
  }
  ir::ValueId Node(const ir::OpDef& op, std::vector<ir::ValueId> inputs, ir::Attrs attrs = {}) {
    return (*graph_.AddNode(op, std::move(inputs), std::move(attrs)))[0];
  }
  Status Run(Encoding encoding = Encoding::kQ4SymG32) {
    PassOptions options;
    options.quantise = encoding;
    options.quantised = [&](const QuantisedWeight& weight) { told_.push_back(weight); };
    LS_RETURN_IF_ERROR(QuantiseWeights(graph_, options));
    LS_RETURN_IF_ERROR(PackWeights(graph_, options));
    return ir::Verify(graph_);
  }
  const ir::Constant& Named(std::string_view name) {
    for (const ir::Constant& c : graph_.constants)
      if (c.name == name) return c;
    Panic(__FILE__, __LINE__, "no such constant");
  }

  ir::Graph graph_;
  ir::ValueId x_ = graph_.AddInput(
      "x", {DType::kF32,
            {graph_.table().Symbol({.name = "s0", .lo = 1, .hi = 8}), graph_.table().Int(40)}});
  std::vector<QuantisedWeight> told_;
};

TEST_F(QuantiseWeightsTest, LinearEmbeddingAndBothOfOneWeight) {
  const ir::ValueId ids = graph_.AddInput("ids", {DType::kI64, {graph_.table().Int(3)}});
  const ir::ValueId tied = Weight("tied");
  const ir::ValueId turned =
      Node(ops::kPermute, {Weight("turned")}, {{"perm", std::vector<int64_t>{1, 0}}});
  graph_.outputs = {{.name = "a", .value = Node(ops::kLinear, {x_, tied})},
                    {.name = "b", .value = Node(ops::kEmbedding, {tied, ids})},
                    {.name = "c", .value = Node(ops::kEmbedding, {Weight("rows"), ids})},
                    {.name = "d", .value = Node(ops::kLinear, {x_, turned})}};
  ASSERT_TRUE(Run().ok());
  for (const char* name : {"tied", "turned", "rows"}) {
    EXPECT_EQ(Named(name).encoding, Encoding::kQ4SymG32) << name;
    EXPECT_EQ(Named(name).data.size(), 3u * 2 * 288) << name;
  }
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[0].name, "tied");
  EXPECT_EQ(told_[0].bytes_before, 6400u);
  EXPECT_EQ(told_[0].bytes_after, 1728u);
}

TEST_F(QuantiseWeightsTest, WhatOthersReadStaysPlain) {
  const ir::ValueId shared = Weight("shared"), result = Weight("result");
  graph_.outputs = {{.name = "a", .value = Node(ops::kLinear, {x_, shared})},
                    {.name = "b", .value = Node(ops::kLinear, {shared, result})},
                    {.name = "c", .value = result}};
  ASSERT_TRUE(Run().ok());
  EXPECT_FALSE(Named("shared").packed());
  EXPECT_FALSE(Named("result").packed());
  EXPECT_TRUE(told_.empty());
}

TEST_F(QuantiseWeightsTest, OffUnlessAskedFor) {
  graph_.outputs = {{.name = "a", .value = Node(ops::kLinear, {x_, Weight("w")})}};
  ASSERT_TRUE(Run(Encoding::kPlain).ok());
  EXPECT_EQ(Named("w").encoding, Encoding::kPlain);
  EXPECT_EQ(Named("w").layout, ir::ConstantLayout::kPanel16);
}

TEST_F(QuantiseWeightsTest, RefusesNaNByName) {
  graph_.outputs = {
      {.name = "a", .value = Node(ops::kLinear, {x_, Weight("head.weight", std::nanf(""))})}};
  const Status status = Run();
  EXPECT_NE(status.message().find("constant `head.weight` cannot be quantised"), std::string::npos);
  EXPECT_NE(status.message().find("element [0, 0] is nan"), std::string::npos) << status.message();
}

// An artifact may say anything: a packed constant where elements are read is refused.
TEST_F(QuantiseWeightsTest, VerifyKeepsPackedConstantsFromOtherReaders) {
  const ir::ValueId w = Weight("w");
  graph_.outputs = {{.name = "a", .value = Node(ops::kLinear, {x_, w})}};
  ASSERT_TRUE(Run().ok());
  graph_.outputs.push_back({.name = "b", .value = w});
  EXPECT_NE(ir::Verify(graph_).message().find("output `b` reads the constant `w` (q4_sym_g32"),
            std::string::npos);
  graph_.outputs.pop_back();
  graph_.outputs.push_back({.name = "b", .value = Node(ops::kLinear, {w, w})});
  EXPECT_NE(ir::Verify(graph_).message().find("input 0 reads the constant `w`"), std::string::npos);
}

}  // namespace
}  // namespace liveshape::passes
