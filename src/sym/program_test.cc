// The shape program (G1, X2): the same numbers as Evaluate, failing as it does.
#include "sym/program.h"

#include <gtest/gtest.h>

namespace liveshape::sym {
namespace {

class ProgramTest : public ::testing::Test {
 protected:
  Table t;
  Expr s = t.Symbol({.name = "s0", .lo = 0, .hi = 4096, .display = "S"});
  Expr r = t.Symbol({.name = "s1", .lo = 0, .hi = 64});
  Expr p = t.Symbol({.name = "pos", .lo = 0, .hi = 100, .stage = 1});
  Expr k(int64_t v) { return t.Int(v); }

  Status Run(const ShapeProgram& program, std::vector<int64_t> values,
             std::vector<int64_t>& block) {
    block.assign(program.block_size(), -1);
    program.SetSymbols(values, block);
    for (Stage stage = 0; stage < program.stage_count(); ++stage)
      LS_RETURN_IF_ERROR(program.Run(stage, block));
    return {};
  }
};

TEST_F(ProgramTest, G1_TuplesAndSlotsHoldTheirExpressions) {
  ProgramBuilder builder(t);
  const uint32_t dims = builder.Tuple({s, k(64), 2 * s + r});
  const uint32_t rows = builder.Slot(2 * s + r);
  const uint32_t same = builder.Tuple({s, k(64), 2 * s + r});
  const uint32_t volume = builder.Slot(s * r * 64);
  EXPECT_EQ(dims, same);
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block;
  ASSERT_TRUE(Run(program, {5, 3, 0}, block).ok());
  EXPECT_EQ(block[dims], 5);
  EXPECT_EQ(block[dims + 1], 64);
  EXPECT_EQ(block[dims + 2], 13);
  EXPECT_EQ(block[rows], 13);
  EXPECT_EQ(block[volume], 960);
  ASSERT_TRUE(Run(program, {4096, 64, 0}, block).ok());
  EXPECT_EQ(block[dims + 2], 8256);
}

TEST_F(ProgramTest, StagesAreSeparate) {
  ProgramBuilder builder(t);
  const uint32_t rows = builder.Slot(s * 2), end = builder.Slot(s * 2 + p);
  const ShapeProgram program = builder.Finish();
  ASSERT_EQ(program.stage_count(), 2);
  std::vector<int64_t> block(program.block_size());
  program.SetSymbols({{5, 0, 99}}, block);
  ASSERT_TRUE(program.Run(0, block).ok());
  EXPECT_EQ(block[rows], 10);
  block[p.symbol()] = 7;  // known at run
  ASSERT_TRUE(program.Run(1, block).ok());
  EXPECT_EQ(block[end], 17);
  block[p.symbol()] = 8;
  ASSERT_TRUE(program.Run(1, block).ok());
  EXPECT_EQ(block[end], 18);
  block[p.symbol()] = 101;
  EXPECT_EQ(program.Run(1, block).message(), "symbol `pos` would be 101, above its bound 100");
}

TEST_F(ProgramTest, X2_ChecksAndFaultsSayWhat) {
  ProgramBuilder builder(t);
  builder.Check(Le(s + r, k(64)),
                "capacity of `cache` is 64, `S` would be {S} and s1 {s1}; {other}");
  builder.Slot(FloorDiv(s, r));
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block;
  EXPECT_EQ(Run(program, {60, 5, 0}, block).message(),
            "capacity of `cache` is 64, `S` would be 60 and s1 5; {other}");
  EXPECT_EQ(Run(program, {60, 0, 0}, block).message(), "`S//s1` divides by zero at S=60, s1=0");
  EXPECT_TRUE(Run(program, {60, 4, 0}, block).ok());
}

TEST_F(ProgramTest, OnlyTheChosenSideCanFail) {
  ProgramBuilder builder(t);
  const Expr quotient = FloorDiv(s, r);
  const Expr nested =
      Select(Le(s, k(9)), Select(Ne(r, k(0)), quotient + Mod(s, r), k(-1)), FloorDiv(k(7), s - 10));
  const uint32_t guarded = builder.Slot(Select(Ne(r, k(0)), quotient, k(7)));
  const uint32_t both = builder.Slot(And(Ne(r, k(0)), Eq(quotient, k(3))));
  const uint32_t either = builder.Slot(Or(Eq(r, k(0)), Eq(quotient, k(3))));
  const uint32_t inner = builder.Slot(nested);
  // Uses quotient on every path of its own, after others used it on one path.
  const uint32_t later = builder.Slot(Select(Le(p, k(3)), quotient * 2, p));
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block;
  ASSERT_TRUE(Run(program, {9, 0, 50}, block).ok()) << Run(program, {9, 0, 50}, block).message();
  EXPECT_EQ(block[guarded], 7);
  EXPECT_EQ(block[both], 0);
  EXPECT_EQ(block[either], 1);
  EXPECT_EQ(block[inner], -1);
  EXPECT_EQ(block[later], 50);
  ASSERT_TRUE(Run(program, {9, 3, 1}, block).ok());
  EXPECT_EQ(block[guarded], 3);
  EXPECT_EQ(block[both], 1);
  EXPECT_EQ(block[inner], 3);
  EXPECT_EQ(block[later], 6);
  EXPECT_FALSE(Run(program, {10, 3, 1}, block).ok());
  EXPECT_FALSE(Run(program, {9, 0, 1}, block).ok());
}

TEST_F(ProgramTest, ASideComputedForAnotherUserIsReused) {
  ProgramBuilder builder(t);
  const Expr quotient = FloorDiv(s, r + 1);
  // One request that needs the quotient both strictly and as a side whose other side was left out.
  const Expr big = t.Symbol({.name = "s0"});
  const Expr e = Select(Le(s, k(5)), FloorDiv(s, r), s + r) + FloorDiv(s, r) * 3;
  const uint32_t slot = builder.Slot(e + quotient * 0 + big * 0);
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block;
  ASSERT_TRUE(Run(program, {8, 2, 0}, block).ok());
  EXPECT_EQ(block[slot], 10 + 12);
}

TEST_F(ProgramTest, OverflowIsFound) {
  const Expr big = t.Symbol({.name = "big", .lo = 0});
  ProgramBuilder builder(t);
  const uint32_t slot = builder.Slot(big * big + 1);
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block;
  EXPECT_TRUE(Run(program, {0, 0, 0, 3037000499}, block).ok());
  EXPECT_EQ(block[slot], int64_t{3037000499} * 3037000499 + 1);
  EXPECT_EQ(Run(program, {0, 0, 0, 3037000500}, block).message(),
            "`big**2` does not fit in 64 bits at big=3037000500");
}

TEST_F(ProgramTest, AnEmptyProgramRuns) {
  Table empty;
  const ShapeProgram program = ProgramBuilder(empty).Finish();
  std::vector<int64_t> block(program.block_size());
  program.SetSymbols({}, block);
  EXPECT_EQ(program.stage_count(), 1);
  EXPECT_TRUE(program.Run(0, block).ok());
}

}  // namespace
}  // namespace liveshape::sym
