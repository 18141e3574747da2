// Attention written out: the forms that exports come in, and what must stay as it is.
#include <limits>

#include "passes/recognise_testing.h"

namespace liveshape::passes {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kMin = -3.4028234663852886e+38;

class AttentionForm : public RecogniseTest {
 protected:
  Expr b_ = Symbol("b", 1, 4), s_ = Symbol("s", 1, 32);
  ValueId q_ = Input("q", {b_, Int(4), s_, Int(16)});
  ValueId k_ = Input("k", {b_, Int(4), s_, Int(16)}), v_ = Input("v", {b_, Int(4), s_, Int(16)});
  ValueId seen_ = Input("seen", {b_, Int(1), s_, s_}, DType::kBool);
  ValueId added_ = Input("added", {b_, Int(1), s_, s_});

  ValueId Scores(double scale = 0.25) { return Scores(q_, scale); }
  ValueId Scores(ValueId q, double scale) {
    return Op(PwOp::kMul, Matmul(q, c_.Transpose(k_, 2, 3)), scale);
  }
  const ir::Node& Fused() {
    EXPECT_EQ(Count(ops::kSoftmax), 0);
    EXPECT_EQ(Count(ops::kMatmul), 0);
    return Only(ops::kAttention);
  }
  void ExpectWrittenOut() {
    EXPECT_EQ(Count(ops::kAttention), 0) << ir::Print(graph_);
    EXPECT_GT(Count(ops::kSoftmax), 0);
  }
};

TEST_F(AttentionForm, Plain) {
  Return(Matmul(Softmax(Scores(), 3), v_));
  Run(&RecogniseAttention);
  const ir::Node& a = Fused();
  EXPECT_EQ(a.inputs, (std::vector<ValueId>{q_, k_, v_}));
  EXPECT_EQ(a.Float("scale"), 0.25);
  EXPECT_EQ(a.String("all_masked"), "nan");
  EXPECT_EQ(graph_.nodes.size(), 1u);
}

TEST_F(AttentionForm, EagerWithAnOpaqueMaskKeepsItAdditive) {
  Return(Matmul(Softmax(Op(PwOp::kAdd, Scores(), added_), 3), v_));
  Run(&RecogniseAttention, &RecogniseMasks);
  const ir::Node& a = Fused();
  ASSERT_EQ(a.inputs.size(), 4u);
  EXPECT_EQ(TypeOf(a.inputs[3]), DType::kF32);
  EXPECT_EQ(a.String("all_masked"), "nan");
}

TEST_F(AttentionForm, TheMaskMayComeFirst) {
  Return(Matmul(Softmax(Op(PwOp::kAdd, added_, Scores()), 3), v_));
  Run(&RecogniseAttention);
  EXPECT_EQ(Fused().inputs.size(), 4u);
}

TEST_F(AttentionForm, FiniteLowMaskMeansTheMean) {
  const ValueId mask = Where(seen_, 0.0, kMin);
  Return(Matmul(Softmax(Op(PwOp::kAdd, Scores(), mask), 3), v_));
  Run(&RecogniseAttention, &RecogniseMasks);
  const ir::Node& a = Fused();
  EXPECT_EQ(TypeOf(a.inputs[3]), DType::kBool);
  EXPECT_EQ(a.String("all_masked"), "mean");
}

TEST_F(AttentionForm, InfiniteMaskKeepsWhatSoftmaxSays) {
  const ValueId hidden = Not(seen_);
  Return(Matmul(Softmax(Op(PwOp::kAdd, Scores(), Where(hidden, -kInf, 0.0)), 3), v_));
  Run(&RecogniseAttention, &RecogniseMasks);
  const ir::Node& a = Fused();
  EXPECT_EQ(TypeOf(a.inputs[3]), DType::kBool);
  EXPECT_EQ(a.String("all_masked"), "nan");
}

TEST_F(AttentionForm, AMildMaskStaysAdditive) {
  Return(Matmul(Softmax(Op(PwOp::kAdd, Scores(), Where(seen_, 0.0, -10000.0)), 3), v_));
  Run(&RecogniseAttention, &RecogniseMasks);
  EXPECT_EQ(TypeOf(Fused().inputs[3]), DType::kF32);
}

TEST_F(AttentionForm, TheLowestHalfHidesHalves) {
  auto half = [&](ValueId x) { return c_.Cast(x, DType::kF16); };
  const ValueId q = half(q_), k = half(k_), v = half(v_);
  const ValueId mask = half(Where(seen_, 0.0, -65504.0));
  const ValueId scores = Op(PwOp::kAdd, Matmul(q, c_.Transpose(k, 2, 3)), mask);
  Return(Matmul(half(Softmax(c_.Cast(scores, DType::kF32), 3)), v));
  Run(&RecogniseAttention, &RecogniseMasks);
  EXPECT_EQ(TypeOf(Fused().inputs[3]), DType::kBool);
  EXPECT_EQ(Fused().String("all_masked"), "mean");
}

TEST_F(AttentionForm, WhereAndMaskedFill) {
  Return(Matmul(Softmax(Where(seen_, Scores(), -kInf), 3), v_));
  Return(Matmul(Softmax(Where(Not(seen_), -kInf, Scores(k_, 0.5)), 3, "zero"), v_));
  Return(Matmul(Softmax(Where(seen_, Scores(v_, 0.5), kMin), 3), v_));
  Run(&RecogniseAttention);
  std::vector<std::string> masked;
  for (const ir::Node& node : graph_.nodes)
    if (node.op == &ops::kAttention) masked.push_back(node.String("all_masked"));
  EXPECT_EQ(masked, (std::vector<std::string>{"nan", "zero", "mean"}));
  EXPECT_EQ(Count(ops::kSoftmax), 0);
}

// As torch decomposes scaled_dot_product_attention.
class Decomposed : public AttentionForm {
 protected:
  ValueId Merge(ValueId x) {
    Dims d = graph_.type(x).dims;
    return c_.Reshape(x, {d[0] * d[1], d[2], d[3]});
  }
  ValueId Masked() {
    const ValueId q = Merge(Op(PwOp::kMul, q_, 0.5));
    const ValueId k = Merge(Op(PwOp::kMul, c_.Transpose(k_, 2, 3), 0.5));
    return Op(PwOp::kAdd, c_.Reshape(Matmul(q, k), {b_, Int(4), s_, s_}), added_);
  }
  ValueId Safe(ValueId scores) {
    const ValueId any = Reduce("any", Not(Op(PwOp::kEq, scores, -kInf)), 3);
    return Where(Not(any), 0.0, Softmax(scores, 3));
  }
};

TEST_F(Decomposed, IsOneNodeThatGivesZeros) {
  Return(c_.Reshape(Matmul(Merge(Safe(Masked())), Merge(v_)), {b_, Int(4), s_, Int(16)}));
  Run(&RecogniseAttention);
  const ir::Node& a = Fused();
  EXPECT_EQ(a.String("all_masked"), "zero");
  EXPECT_EQ(a.Float("scale"), 0.25);
  EXPECT_EQ(a.inputs[0], q_);
  EXPECT_EQ(a.inputs[1], k_);
  EXPECT_EQ(a.inputs[2], v_);
  EXPECT_EQ(Count(ops::kReduce), 0);
}

TEST_F(Decomposed, WithTheRowsAskedOfTheMask) {
  const ValueId hidden = Not(seen_);
  const ValueId weights = Softmax(Where(hidden, -kInf, Scores()), 3);
  Return(Matmul(Where(Reduce("any", seen_, 3), weights, 0.0), v_));
  Run(&RecogniseAttention);
  EXPECT_EQ(Fused().String("all_masked"), "zero");
}

TEST_F(Decomposed, WithTheRowsOfAnotherMaskStays) {
  const ValueId other = Input("other", {b_, Int(1), s_, s_}, DType::kBool);
  const ValueId weights = Softmax(Where(seen_, Scores(), -kInf), 3);
  Return(Matmul(Where(Reduce("any", other, 3), weights, 0.0), v_));
  Run(&RecogniseAttention);
  ExpectWrittenOut();
}

TEST_F(AttentionForm, InHalvesWithSoftmaxInF32) {
  auto half = [&](ValueId x) { return c_.Cast(x, DType::kF16); };
  const ValueId q = half(q_), k = half(k_), v = half(v_);
  const ValueId scores = Op(PwOp::kMul, Matmul(q, c_.Transpose(k, 2, 3)), 0.25);
  Return(Matmul(half(Softmax(c_.Cast(scores, DType::kF32), 3)), v));
  Run(&RecogniseAttention);
  EXPECT_EQ(TypeOf(Fused().outputs[0]), DType::kF16);
}

TEST_F(AttentionForm, OfDoublesStays) {
  const ValueId x = Input("x", {b_, Int(4), s_, Int(16)}, DType::kF64);
  Return(Matmul(Softmax(Matmul(x, c_.Transpose(x, 2, 3)), 3), x));
  Run(&RecogniseAttention);
  ExpectWrittenOut();
}

TEST_F(AttentionForm, ReturnedWeightsOrScoresStay) {
  const ValueId weights = Softmax(Scores(), 3);
  Return(Matmul(weights, v_));
  Return(weights);
  const ValueId scores = Scores(0.5);
  Return(Matmul(Softmax(scores, 3), v_));
  Return(Op(PwOp::kExp, scores));
  Run(&RecogniseAttention);
  ExpectWrittenOut();
}

TEST_F(AttentionForm, SoftmaxOverQueriesStays) {
  Return(Matmul(Softmax(Scores(), 2), v_));
  Run(&RecogniseAttention);
  ExpectWrittenOut();
}

TEST_F(AttentionForm, ANonlinearityBeforeSoftmaxStays) {
  Return(Matmul(Softmax(Op(PwOp::kTanh, Scores()), 3), v_));
  Return(Matmul(Softmax(Op(PwOp::kMul, Op(PwOp::kAdd, Scores(), added_), 0.5), 3), v_));
  Run(&RecogniseAttention);
  ExpectWrittenOut();
}

class RepeatKv : public RecogniseTest {
 protected:
  Expr s_ = Symbol("s", 1, 32);
  ValueId q_ = Input("q", {Int(1), Int(4), s_, Int(16)});
  ValueId k_ = Input("k", {Int(1), Int(2), s_, Int(16)}),
          v_ = Input("v", {Int(1), Int(2), s_, Int(16)});

  ValueId Repeat(ValueId x, int64_t dim) {
    ValueId y = c_.Unsqueeze(x, dim);
    Dims sizes = graph_.type(y).dims;
    sizes[static_cast<size_t>(dim)] = Int(2);
    return c_.Reshape(c_.Expand(y, sizes), {Int(1), Int(4), s_, Int(16)});
  }
  void Attend(ValueId k, ValueId v) {
    Return(c_.Emit(ops::kAttention, {q_, k, v},
                   {{"scale", 0.25}, {"all_masked", std::string("zero")}}));
  }
};

TEST_F(RepeatKv, IsRemoved) {
  Attend(Repeat(k_, 2), Repeat(v_, 2));
  Run(&RemoveRepeatKv, &Canonicalise);
  EXPECT_EQ(Only(ops::kAttention).inputs, (std::vector<ValueId>{q_, k_, v_}));
  EXPECT_EQ(graph_.nodes.size(), 1u) << ir::Print(graph_);
}

TEST_F(RepeatKv, TiledHeadsAreInAnotherOrder) {
  Attend(Repeat(k_, 1), Repeat(v_, 1));
  Run(&RemoveRepeatKv);
  EXPECT_EQ(Count(ops::kExpand), 2);
}

TEST_F(RepeatKv, OneRepeatedOperandStays) {
  const ValueId keys = Input("keys", {Int(1), Int(4), s_, Int(16)});
  Attend(keys, Repeat(v_, 2));
  Run(&RemoveRepeatKv);
  EXPECT_EQ(Count(ops::kExpand), 1);
}

}  // namespace
}  // namespace liveshape::passes
