// SiLU, RMSNorm, RoPE: what is recognised, and what only looks like it.
#include "passes/recognise_testing.h"

namespace liveshape::passes {
namespace {

class Recognise : public RecogniseTest {
 protected:
  Expr s_ = Symbol("s0", 1, 128);
  ValueId x_ = Input("x", {s_, Int(64)});

  ValueId Norm(ValueId x, int64_t dim = 1, bool keepdim = true) {
    ValueId mean = Reduce("mean", Op(PwOp::kSquare, x), dim, keepdim);
    return Op(PwOp::kMul, x, Op(PwOp::kRsqrt, Op(PwOp::kAdd, mean, 1e-6)));
  }
};

TEST_F(Recognise, SiluInItsSpellings) {
  Return(Op(PwOp::kMul, x_, Op(PwOp::kSigmoid, x_)));
  Return(Op(PwOp::kMul, Op(PwOp::kSigmoid, x_), x_));
  const ValueId one_plus = Op(PwOp::kAdd, Op(PwOp::kExp, Op(PwOp::kNeg, x_)), 1.0);
  Return(Op(PwOp::kDiv, x_, one_plus));
  Return(Op(PwOp::kMul, x_, Op(PwOp::kReciprocal, one_plus)));
  Return(Op(PwOp::kMul, x_, Op(PwOp::kDiv, 1.0, one_plus)));
  Run(&RecogniseSilu, &EliminateCommonSubexpressions);
  EXPECT_EQ(graph_.nodes.size(), 1u);
  EXPECT_EQ(Count(PwOp::kSilu), 1);
}

TEST_F(Recognise, AGateOfAnotherTensorIsNoSilu) {
  const ValueId other = Input("other", {s_, Int(64)});
  Return(Op(PwOp::kMul, x_, Op(PwOp::kSigmoid, other)));
  Return(Op(PwOp::kDiv, x_, Op(PwOp::kAdd, Op(PwOp::kExp, Op(PwOp::kNeg, x_)), 2.0)));
  Run(&RecogniseSilu);
  EXPECT_EQ(Count(PwOp::kSilu), 0);
}

TEST_F(Recognise, RmsNormWithWeightOnEitherSide) {
  const ValueId w = Constant("w", DType::kF32, {64}, std::vector<float>(64, 2.f));
  Return(Op(PwOp::kMul, w, Norm(x_)));
  const ValueId other = Input("other", {s_, Int(64)});
  Return(Op(PwOp::kMul, Norm(Norm(other)), w));
  Run(&RecogniseRmsNorm);
  EXPECT_EQ(Count(ops::kRmsNorm), 3);
  EXPECT_EQ(graph_.nodes.size(), 3u) << ir::Print(graph_);
  EXPECT_EQ(graph_.nodes[0].Float("eps"), 1e-6);
}

TEST_F(Recognise, RmsNormSpeltWithSqrtPowAndUnsqueeze) {
  const ValueId mean = Reduce("mean", Op(PwOp::kMul, x_, x_), 1, false);
  const ValueId root = Op(PwOp::kSqrt, Op(PwOp::kAdd, c_.Unsqueeze(mean, 1), 1e-5));
  Return(Op(PwOp::kDiv, x_, root));
  Return(Op(PwOp::kMul, Op(PwOp::kReciprocal, root), x_));
  Run(&RecogniseRmsNorm);
  EXPECT_EQ(Count(ops::kRmsNorm), 2);
  EXPECT_EQ(Count(ops::kReduce), 0);
}

TEST_F(Recognise, RmsNormOfHalvesTakesTheCastsIn) {
  const ValueId half = Input("half", {s_, Int(64)}, DType::kBF16);
  const ValueId w = Input("w", {Int(64)}, DType::kBF16);
  const ValueId back = c_.Cast(Norm(c_.Cast(half, DType::kF32)), DType::kBF16);
  Return(Op(PwOp::kMul, w, back));
  Run(&RecogniseRmsNorm);
  ASSERT_EQ(graph_.nodes.size(), 1u) << ir::Print(graph_);
  EXPECT_EQ(Only(ops::kRmsNorm).inputs, (std::vector<ValueId>{half, w}));
}

TEST_F(Recognise, RmsNormKeepsRoundingsWhereTheyAre) {
  const ValueId half = Input("half", {s_, Int(64)}, DType::kF16);
  Return(Norm(half));  // the mean itself is rounded to f16
  Run(&RecogniseRmsNorm);
  EXPECT_EQ(Count(ops::kRmsNorm), 0);
}

TEST_F(Recognise, NormsOverAnotherDimOrBroadcastElsewhereAreNotRms) {
  const ValueId square = Input("square", {Int(64), Int(64)});
  Return(Norm(square, 0));
  Return(Norm(square, 1, false));  // [64] broadcasts along the rows
  const ValueId other = Input("other", {s_, Int(64)});
  Return(Op(PwOp::kMul, other,
            Op(PwOp::kRsqrt, Op(PwOp::kAdd, Reduce("mean", Op(PwOp::kSquare, x_), 1), 1e-6))));
  Run(&RecogniseRmsNorm);
  EXPECT_EQ(Count(ops::kRmsNorm), 0);
}

TEST_F(Recognise, AWeightPerRowStaysAProduct) {
  const ValueId square = Input("square", {Int(64), Int(64)});
  const ValueId w = Input("w", {Int(64)});
  Return(Op(PwOp::kMul, Norm(square), c_.Unsqueeze(w, 1)));
  Run(&RecogniseRmsNorm);
  EXPECT_EQ(Only(ops::kRmsNorm).inputs.size(), 1u);
  EXPECT_EQ(Count(PwOp::kMul), 1);
}

class Rope : public RecogniseTest {
 protected:
  Expr s_ = Symbol("s0", 1, 16);
  ValueId q_ = Input("q", {Int(2), Int(4), s_, Int(16)});
  ValueId cos_ = Input("cos", {s_, Int(16)}), sin_ = Input("sin", {s_, Int(16)});

  ValueId Half(int64_t start, int64_t dim = 3) { return c_.Slice(q_, dim, Int(start), Int(8)); }
  ValueId Rotated() { return Cat(Op(PwOp::kNeg, Half(8)), Half(0), 3); }
};

TEST_F(Rope, InEveryOrder) {
  Return(Op(PwOp::kAdd, Op(PwOp::kMul, q_, cos_), Op(PwOp::kMul, Rotated(), sin_)));
  Return(Op(PwOp::kAdd, Op(PwOp::kMul, sin_, Rotated()), Op(PwOp::kMul, cos_, q_)));
  Run(&RecogniseRope);
  EXPECT_EQ(Count(ops::kRope), 2);
  EXPECT_EQ(Count(ops::kCat), 0);
  EXPECT_EQ(Count(ops::kPointwise), 0);
}

TEST_F(Rope, OtherTurnsStay) {
  const ValueId straight = Op(PwOp::kMul, q_, cos_);
  Return(Op(PwOp::kAdd, straight, Op(PwOp::kMul, Cat(Half(8), Op(PwOp::kNeg, Half(0)), 3), sin_)));
  Return(Op(PwOp::kAdd, straight, Op(PwOp::kMul, Cat(Op(PwOp::kNeg, Half(0)), Half(8), 3), sin_)));
  Return(Op(PwOp::kSub, straight, Op(PwOp::kMul, Rotated(), sin_)));
  Run(&RecogniseRope);
  EXPECT_EQ(Count(ops::kRope), 0);
}

}  // namespace
}  // namespace liveshape::passes
