// What the shape rules of sort and argmax refuse, and what they say.
#include <gtest/gtest.h>

#include "ops/ops.h"

namespace liveshape::ops {
namespace {

class OrderRules : public ::testing::Test {
 protected:
  std::string Refusal(const ir::OpDef& op, ir::Attrs attrs) {
    auto made = graph_.AddNode(op, {x_}, std::move(attrs), "y");
    return made.ok() ? "" : std::string(made.status().message());
  }
  ir::Attrs Sorted(int64_t dim, sym::Expr count) const {
    return {{"dim", dim}, {"descending", int64_t{0}}, {"count", ir::Dims{count}}};
  }

  ir::Graph graph_;
  sym::Expr s_ = graph_.table().Symbol({.name = "s0", .lo = 0, .hi = 9});
  ir::ValueId x_ = graph_.AddInput("x", {DType::kF32, {s_, graph_.table().Int(4)}});
};

TEST_F(OrderRules, SortGivesValuesAndIndices) {
  auto made = graph_.AddNode(kSort, {x_}, Sorted(1, graph_.table().Int(3)), "y");
  ASSERT_TRUE(made.ok()) << made.status().message();
  ASSERT_EQ(made->size(), 2u);
  EXPECT_EQ(ir::ToString(graph_.type((*made)[0])), "f32[s0, 3]");
  EXPECT_EQ(ir::ToString(graph_.type((*made)[1])), "i64[s0, 3]");
}

TEST_F(OrderRules, SortRefusesWhatCannotBe) {
  sym::Table& t = graph_.table();
  EXPECT_NE(Refusal(kSort, Sorted(1, t.Int(5))).find("takes 5 of 4 elements"), std::string::npos);
  EXPECT_NE(Refusal(kSort, Sorted(1, t.Int(-1))).find("takes -1 of 4"), std::string::npos);
  EXPECT_NE(Refusal(kSort, Sorted(2, t.Int(1))).find("`dim` = 2 is not a dim"), std::string::npos);
  EXPECT_NE(Refusal(kSort, {{"dim", int64_t{0}}}).find("`descending` is missing"),
            std::string::npos);
  EXPECT_EQ(Refusal(kSort, Sorted(0, t.Int(3))), "") << "3 of s0 may fit: a guard's business";
}

TEST_F(OrderRules, ArgmaxRefusesWhatCannotBe) {
  auto attrs = [](const char* kind, int64_t dim) {
    return ir::Attrs{{"kind", std::string(kind)}, {"dim", dim}, {"keepdim", int64_t{0}}};
  };
  EXPECT_EQ(Refusal(kArgmax, attrs("max", 0)), "");
  EXPECT_NE(Refusal(kArgmax, attrs("median", 0)).find("`median`"), std::string::npos);
  EXPECT_NE(Refusal(kArgmax, attrs("min", -1)).find("`dim` = -1"), std::string::npos);
}

}  // namespace
}  // namespace liveshape::ops
