// Which linear layers become one, what their joined weights hold, and which stay apart.
#include <cstring>

#include "passes/recognise_testing.h"

namespace liveshape::passes {
namespace {

class MergeLinearsTest : public RecogniseTest {
 protected:
  Expr s_ = Symbol("s0", 1, 128);
  ValueId x_ = Input("x", {s_, Int(4)});

  ValueId Weight(const char* name, int64_t rows, float value) {
    return Constant(name, DType::kF32, {rows, 4},
                    std::vector<float>(static_cast<size_t>(rows * 4), value));
  }
  ValueId Bias(const char* name, int64_t rows, float value) {
    return Constant(name, DType::kF32, {rows},
                    std::vector<float>(static_cast<size_t>(rows), value));
  }
  ValueId Linear(ValueId x, ValueId w, ValueId bias = ir::kNoValue) {
    if (bias == ir::kNoValue) return c_.Emit(ops::kLinear, {x, w});
    return c_.Emit(ops::kLinear, {x, w, bias});
  }
  std::vector<float> Data(ValueId v) {
    const ir::Constant& c = graph_.constants[graph_.value(v).index];
    std::vector<float> data(c.data.size() / sizeof(float));
    std::memcpy(data.data(), c.data.data(), c.data.size());
    return data;
  }
};

TEST_F(MergeLinearsTest, OneProductAndItsSlices) {
  const ValueId q = Linear(x_, Weight("q", 3, 1), Bias("qb", 3, 7));
  const ValueId k = Linear(x_, Weight("k", 2, 2));
  Return(Op(PwOp::kNeg, q));
  Return(Op(PwOp::kNeg, k));
  Run(&MergeLinears);
  const ir::Node& merged = Only(ops::kLinear);
  EXPECT_EQ(Count(ops::kLinear), 1);
  EXPECT_EQ(Count(ops::kSlice), 2);
  EXPECT_EQ(ir::ToString(graph_.type(merged.outputs[0])), "f32[s0, 5]");
  std::vector<float> weight(12, 1.f);
  weight.resize(20, 2.f);
  EXPECT_EQ(Data(merged.inputs[1]), weight);
  EXPECT_EQ(Data(merged.inputs[2]), (std::vector<float>{7, 7, 7, 0, 0})) << "no bias is zeros";
  EXPECT_EQ(graph_.constants.size(), 2u) << "the parts are gone";
}

TEST_F(MergeLinearsTest, NoBiasIsMadeWhereNoneIs) {
  Return(Op(PwOp::kNeg, Linear(x_, Weight("a", 3, 1))));
  Return(Op(PwOp::kAbs, Linear(x_, Weight("b", 3, 2))));
  Run(&MergeLinears);
  EXPECT_EQ(Only(ops::kLinear).inputs.size(), 2u);
}

TEST_F(MergeLinearsTest, ATiedWeightIsNotStoredTwice) {
  const ValueId tied = Weight("tied", 3, 1);
  const ValueId ids = Input("ids", {s_}, DType::kI64);
  Return(Op(PwOp::kNeg, Linear(x_, tied)));
  Return(Op(PwOp::kNeg, Linear(x_, Weight("b", 3, 2))));
  Return(c_.Emit(ops::kEmbedding, {tied, ids}));
  Run(&MergeLinears);
  EXPECT_EQ(Count(ops::kLinear), 2);
}

TEST_F(MergeLinearsTest, WhatLeavesTheGraphOrReadsAnotherTensorStaysApart) {
  const ValueId other = Input("other", {s_, Int(4)});
  Return(Linear(x_, Weight("a", 3, 1)));
  Return(Op(PwOp::kNeg, Linear(x_, Weight("b", 3, 2))));
  Return(Op(PwOp::kNeg, Linear(other, Weight("c", 3, 3))));
  Run(&MergeLinears);
  EXPECT_EQ(Count(ops::kLinear), 3);
  EXPECT_EQ(Count(ops::kSlice), 0);
}

}  // namespace
}  // namespace liveshape::passes
