#include "sym/axis_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace liveshape::sym {
namespace {

using ::testing::ElementsAre;

class AxisSplitTest : public ::testing::Test {
 protected:
  Expr Symbol(const char* name, int64_t lo = 1) {
    return table_.Symbol({.name = name, .lo = lo, .hi = 4096});
  }
  std::vector<Expr> Split(Expr extent, std::vector<Expr> boundaries) {
    auto split = AxisSplit(table_, extent, boundaries);
    return split ? *split : std::vector<Expr>{};
  }
  Table table_;
  Expr one_ = table_.Int(1);
};

// N7, word for word.
TEST_F(AxisSplitTest, N7RowsOfASymbolicWidth) {
  const Expr m = Symbol("M"), n = Symbol("N");
  EXPECT_THAT(Split(m * n, {n}), ElementsAre(one_, n, m * n));
}

TEST_F(AxisSplitTest, N7ThreeFactors) {
  const Expr a = Symbol("A"), b = Symbol("B"), c = Symbol("C");
  EXPECT_THAT(Split(a * b * c, {c, b * c}), ElementsAre(one_, c, b * c, a * b * c));
  EXPECT_THAT(Split(a * b * c, {b * c, c}), ElementsAre(one_, c, b * c, a * b * c));
}

TEST_F(AxisSplitTest, N7IncomparableBoundariesHaveNone) {
  const Expr n = Symbol("N"), p = Symbol("P");
  EXPECT_FALSE(AxisSplit(table_, n * p, {{n, p}}));
}

TEST_F(AxisSplitTest, N7ABoundaryThatDoesNotDivideTheExtentHasNone) {
  const Expr m = Symbol("M"), n = Symbol("N", 2);
  EXPECT_FALSE(AxisSplit(table_, m * n + 1, {{n}}));
}

TEST_F(AxisSplitTest, IntegersAreTheSpecialCase) {
  const auto i = [&](int64_t v) { return table_.Int(v); };
  EXPECT_THAT(Split(i(24), {i(12), i(4)}), ElementsAre(one_, i(4), i(12), i(24)));
  EXPECT_FALSE(AxisSplit(table_, i(24), {{i(4), i(6)}}));
  EXPECT_FALSE(AxisSplit(table_, i(24), {{i(5)}}));
  EXPECT_THAT(Split(i(1), {i(1)}), ElementsAre(one_));
}

TEST_F(AxisSplitTest, OrderIsDivisibilityNotValue) {
  // 4*N is a boundary inside 8*N*M whatever N is, also where it is smaller than another's value.
  const Expr n = Symbol("N", 0), m = Symbol("M", 0);
  EXPECT_THAT(Split(8 * n * m, {4 * n, table_.Int(2)}),
              ElementsAre(one_, table_.Int(2), 4 * n, 8 * n * m));
  EXPECT_FALSE(AxisSplit(table_, 8 * n * m, {{4 * n, 3 * n}}));
}

TEST_F(AxisSplitTest, BoundariesThatRepeatAddNothing) {
  const Expr m = Symbol("M"), n = Symbol("N");
  EXPECT_THAT(Split(m * n, {n, one_, n, m * n}), ElementsAre(one_, n, m * n));
}

}  // namespace
}  // namespace liveshape::sym
