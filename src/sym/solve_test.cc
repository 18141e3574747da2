// Symbols from the dims of inputs (G1, X2).
#include "sym/solve.h"

#include <gtest/gtest.h>

namespace liveshape::sym {
namespace {

class SolveTest : public ::testing::Test {
 protected:
  Table t;
  Expr s = t.Symbol({.name = "s0", .lo = 1, .hi = 4096, .display = "S"});
  Expr r = t.Symbol({.name = "s1", .lo = 2, .hi = 64});
  SymbolSolver solver{t};
  std::vector<int64_t> values = std::vector<int64_t>(2, -1);

  Status Solve(std::vector<int64_t> observed) { return solver.Solve(observed, values); }
};

TEST_F(SolveTest, G1_LinearEquationsInAnyOrder) {
  solver.AddEquation(s * r + 3, "input 0 `x` dim 0");  // needs s1 first
  solver.AddEquation(2 * s, "input 0 `x` dim 1");
  solver.AddEquation(t.Int(64), "input 0 `x` dim 2");
  ASSERT_TRUE(solver.Prepare().ok());
  ASSERT_TRUE(Solve({7 * 5 + 3, 14, 64}).ok());
  EXPECT_EQ(values, (std::vector<int64_t>{7, 5}));
  EXPECT_EQ(Solve({38, 15, 64}).message(),
            "input 0 `x` dim 1 is 15: it must be `2*S`, which holds for no integer `S`");
  EXPECT_EQ(Solve({39, 14, 64}).message(),
            "input 0 `x` dim 0 is 39: it must be `S*s1 + 3`, which holds for no integer `s1`");
  EXPECT_EQ(Solve({38, 14, 65}).message(), "input 0 `x` dim 2 is 65: it must be 64");
}

TEST_F(SolveTest, X2_RangesNameSymbolValueBoundAndInput) {
  solver.AddEquation(s, "input 0 `tokens` dim 1");
  solver.AddEquation(64 - r, "input 1 `y` dim 0");
  solver.AddEquation(s + r, "input 2 `z` dim 0");
  ASSERT_TRUE(solver.Prepare().ok());
  EXPECT_TRUE(Solve({10, 60, 14}).ok());
  EXPECT_EQ(Solve({4097, 60, 14}).message(),
            "input 0 `tokens` dim 1 is 4097: symbol `S` would be 4097, above its bound 4096");
  EXPECT_EQ(Solve({10, 63, 14}).message(),
            "input 1 `y` dim 0 is 63: symbol `s1` would be 1, below its minimum 2");
  EXPECT_EQ(Solve({10, 60, 15}).message(),
            "input 2 `z` dim 0 is 15: it must be 14, which is `S + s1` at S=10, s1=4");
  EXPECT_EQ(Solve({10, 60, 15}).code(), Code::kInvalidArgument);
}

TEST_F(SolveTest, AnUndeterminedSymbolIsNamed) {
  solver.AddEquation(s, "input 0 `x` dim 0");
  solver.AddEquation(FloorDiv(r, t.Int(2)), "input 0 `x` dim 1");
  EXPECT_EQ(
      solver.Prepare().message(),
      "symbol `s1` is not determined by the shape of any input; input 0 `x` dim 1 is `s1//2`");
}

TEST_F(SolveTest, ASymbolOfOneValueIsKnownWithoutAnInput) {
  const Expr four = t.Symbol({.name = "u1", .lo = 4, .hi = 4});
  solver.AddEquation(s, "a");
  solver.AddEquation(four * r, "b");  // known only by it
  values.resize(3, -1);
  ASSERT_TRUE(solver.Prepare().ok());
  ASSERT_TRUE(Solve({9, 20}).ok());
  EXPECT_EQ(values, (std::vector<int64_t>{9, 5, 4}));
}

TEST_F(SolveTest, TheSurestEquationIsChosen) {
  solver.AddEquation(3 * s, "a");
  solver.AddEquation(s, "b");
  solver.AddEquation(r, "c");
  ASSERT_TRUE(solver.Prepare().ok());
  EXPECT_TRUE(Solve({21, 7, 3}).ok());
  EXPECT_EQ(Solve({22, 7, 3}).message(), "a is 22: it must be 21, which is `3*S` at S=7");
}

TEST_F(SolveTest, LaterStagesAreLeftAlone) {
  const Expr u = t.Symbol({.name = "u0", .lo = 0, .hi = 9, .stage = 2});
  solver.AddEquation(s, "a");
  solver.AddEquation(r, "b");
  solver.AddEquation(u, "c");
  ASSERT_TRUE(solver.Prepare().ok());
  values = {0, 0, 77};
  ASSERT_TRUE(Solve({7, 3, 100}).ok());
  EXPECT_EQ(values[2], 77);
}

TEST_F(SolveTest, ExtremesDoNotOverflow) {
  solver.AddEquation(s - 1, "a");
  solver.AddEquation(-r, "b");
  ASSERT_TRUE(solver.Prepare().ok());
  EXPECT_FALSE(Solve({INT64_MAX, -3}).ok());
  EXPECT_FALSE(Solve({3, INT64_MIN}).ok());
  EXPECT_TRUE(Solve({3, -3}).ok());
}

}  // namespace
}  // namespace liveshape::sym
