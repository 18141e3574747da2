// Masks become limits where they say no more than that.
#include <limits>

#include "passes/recognise_testing.h"

namespace liveshape::passes {
namespace {

constexpr int64_t kCapacity = 32;

class Mask : public RecogniseTest {
 protected:
  Expr s_ = Symbol("s", 1, kCapacity);
  ValueId q_ = Input("q", {Int(2), Int(4), s_, Int(16)});
  ValueId k_ = Input("k", {Int(2), Int(2), Int(kCapacity), Int(16)});
  ValueId v_ = Input("v", {Int(2), Int(2), Int(kCapacity), Int(16)});

  ValueId Keys() { return Row(Arange(Int(kCapacity))); }
  ValueId Rows(ValueId position) { return Column(Op(PwOp::kAdd, Arange(s_), position)); }

  void Attend(ValueId mask, const char* all_masked = "zero") {
    const ValueId wide = c_.Expand(mask, {Int(2), Int(4), s_, Int(kCapacity)});
    Return(c_.Emit(ops::kAttention, {q_, k_, v_, wide},
                   {{"scale", 0.25}, {"all_masked", std::string(all_masked)}}));
    Run(&RecogniseMasks);
  }
  std::string Limit() {
    const ir::Node& a = Only(ops::kAttention);
    return a.Has("limit") ? sym::ToString(a.Exprs("limit")[0]) : "none";
  }
  size_t Inputs() { return Only(ops::kAttention).inputs.size(); }
  ValueId RowLimits() { return Inputs() == 5 ? Only(ops::kAttention).inputs[4] : ir::kNoValue; }
};

TEST_F(Mask, OfACounterStateIsALimit) {
  const ValueId length = IntState("length", {1});
  Attend(Op(PwOp::kLe, Keys(), Rows(length)));
  EXPECT_EQ(Limit(), "h0 + 1");
  EXPECT_EQ(Inputs(), 3u);
  EXPECT_EQ(graph_.nodes.size(), 1u) << "the mask is dead\n" << ir::Print(graph_);
  ASSERT_EQ(graph_.host_values.size(), 1u);
  EXPECT_EQ(graph_.host_values[0].source, ir::Origin::kState);
  EXPECT_TRUE(graph_.host_values[0].element.is_int(0));
  EXPECT_EQ(graph_.table().symbols()[graph_.host_values[0].symbol].stage, 1);
}

// transformers' static cache: cumulative_length.copy_(cache_position[0]).
TEST_F(Mask, OfTheFirstPositionIsALimit) {
  const ValueId positions = Input("cache_position", {s_}, DType::kI64);
  const ValueId first = c_.Reshape(c_.Slice(positions, 0, Int(0), Int(1)), {});
  const ValueId mask = Op(PwOp::kLe, Keys(), Rows(first));
  Attend(And(mask, c_.FullInt({}, DType::kBool, Int(1))));
  EXPECT_EQ(Limit(), "h0 + 1");
  EXPECT_EQ(Inputs(), 3u);
  EXPECT_EQ(graph_.host_values.at(0).source, ir::Origin::kInput);
}

TEST_F(Mask, InAnyArrangement) {
  const ValueId pos = Input("pos", {}, DType::kI64);
  const ValueId difference = Op(PwOp::kSub, Rows(pos), Keys());
  const ValueId not_after =
      Not(Op(PwOp::kLt, Op(PwOp::kAdd, difference, Int(3)), c_.FullInt({}, DType::kI64, Int(3))));
  Attend(not_after);
  EXPECT_EQ(Limit(), "h0 + 1");
  EXPECT_EQ(Inputs(), 3u);
}

TEST_F(Mask, OfASymbolIsALimit) {
  const Expr past = Symbol("past", 0, 16);
  graph_.AddScalarInput("past", past);
  Attend(Op(PwOp::kGt, Column(Op(PwOp::kAdd, Arange(s_), past)), Keys()));
  EXPECT_EQ(Limit(), "past");
  EXPECT_TRUE(graph_.host_values.empty());
}

TEST_F(Mask, OfPositionsIsALimitPerRow) {
  const ValueId positions = Input("positions", {s_}, DType::kI64);
  Attend(Op(PwOp::kLe, Keys(), Column(positions)));
  EXPECT_EQ(Limit(), "none");
  ASSERT_NE(RowLimits(), ir::kNoValue);
  EXPECT_EQ(Only(ops::kAttention).inputs[3], ir::kNoValue);
  EXPECT_EQ(graph_.type(RowLimits()), (ir::TensorType{DType::kI64, {Int(2), Int(4), s_}}));
  EXPECT_EQ(Count(PwOp::kLe), 0);
  EXPECT_TRUE(graph_.host_values.empty());
}

TEST_F(Mask, OfPositionsAndLengthsPerBatchIsTheSmaller) {
  const ValueId positions = Input("positions", {Int(2), s_}, DType::kI64);
  const ValueId lengths = Input("lengths", {Int(2)}, DType::kI32);
  const ValueId causal = Op(PwOp::kLe, c_.Reshape(Keys(), {Int(1), Int(1), Int(1), Int(kCapacity)}),
                            c_.Reshape(positions, {Int(2), Int(1), s_, Int(1)}));
  const ValueId real = Op(PwOp::kLt, c_.Reshape(Keys(), {Int(1), Int(1), Int(1), Int(kCapacity)}),
                          c_.Reshape(lengths, {Int(2), Int(1), Int(1), Int(1)}));
  Attend(And(causal, real));
  ASSERT_NE(RowLimits(), ir::kNoValue) << ir::Print(graph_);
  EXPECT_EQ(Only(ops::kAttention).inputs[3], ir::kNoValue);
  EXPECT_EQ(Count(PwOp::kMin), 1);
}

TEST_F(Mask, AWindowKeepsTheMaskBesideTheLimit) {
  const ValueId pos = Input("pos", {}, DType::kI64);
  const ValueId rows = Rows(pos);
  const ValueId near = Op(PwOp::kLt, Op(PwOp::kSub, rows, Keys()), Int(4));
  Attend(And(Op(PwOp::kLe, Keys(), rows), near));
  EXPECT_EQ(Limit(), "h0 + 1");
  EXPECT_EQ(Inputs(), 4u);
}

TEST_F(Mask, WithoutABoundOnKeysIsUsedAsGiven) {
  const ValueId pos = Input("pos", {}, DType::kI64);
  const ValueId other = Input("other", {Int(kCapacity)}, DType::kI64);
  Attend(And(Op(PwOp::kGe, Keys(), Rows(pos)),
             Op(PwOp::kLe, Op(PwOp::kMul, Keys(), Keys()), Row(other))));
  EXPECT_EQ(Limit(), "none");
  EXPECT_EQ(Inputs(), 4u);
  EXPECT_TRUE(graph_.host_values.empty());
}

TEST_F(Mask, ThatHidesNothingDisappears) {
  const ValueId keys = Keys();
  Attend(And(Op(PwOp::kGe, keys, Int(0)), Op(PwOp::kLt, keys, Int(kCapacity))));
  EXPECT_EQ(Inputs(), 3u);
  EXPECT_EQ(Limit(), "none");
}

TEST_F(Mask, AddedLowNumbersAreALimitThatKeepsTheMean) {
  const ValueId length = IntState("length", {1});
  const ValueId causal = Op(PwOp::kLe, Keys(), Rows(length));
  Attend(Where(c_.Reshape(causal, {Int(1), Int(1), s_, Int(kCapacity)}), 0.0,
               -3.4028234663852886e+38));
  EXPECT_EQ(Limit(), "h0 + 1");
  EXPECT_EQ(Inputs(), 3u);
  EXPECT_EQ(Only(ops::kAttention).String("all_masked"), "mean");
}

TEST_F(Mask, KeptAsABufferIsALimit) {
  std::vector<uint8_t> tril;
  for (int r = 0; r < kCapacity; ++r)
    for (int k = 0; k < kCapacity; ++k) tril.push_back(k <= r);
  const ValueId buffer = Constant("bias", DType::kBool, {1, 1, kCapacity, kCapacity}, tril);
  const Expr past = Symbol("past", 0, 8);
  graph_.AddScalarInput("past", past);
  Attend(c_.Slice(buffer, 2, past, s_));
  EXPECT_EQ(Limit(), "past + 1");
  EXPECT_EQ(Inputs(), 3u);
}

// transformers compares document numbers even where nobody packs documents: positions are consecutive,
// so every difference is 1 and the running count of breaks is 0 everywhere.
TEST_F(Mask, OfASingleDocumentIsCausal) {
  const ValueId positions = c_.Expand(Row(Arange(s_)), {Int(2), s_});
  const ValueId before = Op(PwOp::kSub, c_.Slice(positions, 1, Int(0), Int(1)), Int(1));
  const ValueId shifted = Cat(before, positions, 1);
  const ValueId breaks = Op(
      PwOp::kNe, Op(PwOp::kSub, c_.Slice(shifted, 1, Int(1), s_), c_.Slice(shifted, 1, Int(0), s_)),
      Int(1));
  const ValueId documents = c_.Emit(ops::kCumsum, {breaks}, {{"dim", int64_t{1}}});
  auto pick = [&](Dims dims) {
    const Dims wide = {Int(2), Int(1), s_, s_};
    const ValueId batch =
        c_.Expand(c_.Reshape(Arange(Int(2)), {Int(2), Int(1), Int(1), Int(1)}), wide);
    const ValueId place = c_.Expand(c_.Reshape(Arange(s_), std::move(dims)), wide);
    return c_.Emit(ops::kIndex, {documents, batch, place}, {{"axes", std::vector<int64_t>{0, 1}}});
  };
  const ValueId same =
      Op(PwOp::kEq, pick({Int(1), Int(1), s_, Int(1)}), pick({Int(1), Int(1), Int(1), s_}));
  const ValueId causal = Op(PwOp::kLe, Row(Arange(s_)), Column(Arange(s_)));
  const ValueId keys = Input("keys", {Int(2), Int(2), s_, Int(16)});
  const ValueId mask = c_.Expand(And(causal, same), {Int(2), Int(4), s_, s_});
  Return(c_.Emit(ops::kAttention, {q_, keys, keys, mask},
                 {{"scale", 0.25}, {"all_masked", std::string("zero")}}));
  Run(&RecogniseMasks);
  EXPECT_EQ(Limit(), "1");
  EXPECT_EQ(Inputs(), 3u);
}

TEST_F(Mask, NarrowIntegersThatMayWrapAreNotFollowed) {
  const ValueId pos = Input("pos", {Int(1)}, DType::kI32);
  const ValueId rows = c_.Cast(Column(c_.Expand(Op(PwOp::kAdd, pos, Int(1)), {s_})), DType::kI64);
  Attend(Op(PwOp::kLt, Keys(), rows));
  EXPECT_EQ(Limit(), "none");
  EXPECT_NE(RowLimits(), ir::kNoValue) << "the wrapped sum itself is row data\n"
                                       << ir::Print(graph_);
}

TEST_F(Mask, AHostValueMustLieInsideItsInputAtEveryShape) {
  const Expr n = Symbol("n", 0, 4);
  const ValueId positions = Input("positions", {n}, DType::kI64);
  const ValueId first = c_.Reshape(c_.Slice(positions, 0, Int(0), Int(1)), {});
  Attend(Op(PwOp::kLe, Keys(), Rows(first)));
  EXPECT_TRUE(graph_.host_values.empty());
  EXPECT_EQ(Limit(), "none");
}

}  // namespace
}  // namespace liveshape::passes
