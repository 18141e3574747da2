// Sizes born from data (X3): they are checked where they are born, a failure there fails the run and not
// the session (X2), and whatever outlives the stop is kept.
#include <gmock/gmock.h>

#include "base/interpose.h"
#include "ops/nonzero/nonzero.h"
#include "passes/passes.h"
#include "runtime/testing.h"

namespace liveshape {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct BornMaker : GraphMaker {
  sym::Expr s = Symbol("s0", 0, 64);
  ir::ValueId x = graph->AddInput("x", {DType::kF32, {s}});

  // The elements of `from` that are not zero; their number is `name`.
  ir::ValueId Nonzeros(ir::ValueId from, const char* name, int64_t bound) {
    sym::Expr count = table().Symbol({.name = name, .lo = 0, .hi = bound});
    std::vector<ir::ValueId> at = ops::PositionsByDim(call, from, count);
    return call.Emit(ops::kIndex, {from, at[0]}, {{"axes", std::vector<int64_t>{0}}});
  }
  std::shared_ptr<const Artifact> Ordered() {
    EXPECT_TRUE(passes::OrderByStage(*graph, {}).ok());
    EXPECT_TRUE(ir::Verify(*graph).ok());
    return Finish();
  }
};

class BornTest : public ::testing::Test {
 protected:
  void SetUp() override { InstallAllocationObserver(); }
};

Owned<float> Row(std::vector<float> values) {
  return {DType::kF32, {static_cast<int64_t>(values.size())}, std::move(values)};
}

TEST_F(BornTest, X3_OneSessionServesAllData) {
  BornMaker m;
  m.Output("kept", m.Nonzeros(m.x, "u0", 64));
  auto session = MakeSession(m.Ordered(), {.strict = true, .poison = Poison::kNaN});
  auto many = Row({1, 0, 2, 3, 0, 4});
  auto none = Row({0, 0});
  auto empty = Row({});
  for (int again = 0; again < 2; ++again) {
    ASSERT_TRUE(session->Run({&many.ref, 1}).ok());
    EXPECT_THAT(ReadFloats(session->output(0)), ElementsAre(1, 2, 3, 4));
    ASSERT_TRUE(session->Run({&none.ref, 1}).ok());
    EXPECT_THAT(session->output(0).dims, ElementsAre(0));
    ASSERT_TRUE(session->Run({&empty.ref, 1}).ok());
    EXPECT_THAT(session->output(0).dims, ElementsAre(0));
  }
  EXPECT_EQ(session->stats().allocations, 0u);
}

TEST_F(BornTest, X2_ASizeAboveItsCapacityFailsTheRunAndNamesWhereItWasBorn) {
  BornMaker m;
  ir::ValueId counter = m.State("counter", DType::kI64, {1});
  m.graph->states[0].result =
      m.call.Binary(ir::PwOp::kAdd, m.call.Of(counter), m.call.Number(m.Int(1)));
  m.Output("kept", m.Nonzeros(m.x, "u0", 2));
  auto session = MakeSession(m.Ordered(), {.strict = true});
  auto few = Row({1, 0, 2});
  auto many = Row({1, 2, 3});
  ASSERT_TRUE(session->Run({&few.ref, 1}).ok());
  const Status refused = session->Run({&many.ref, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.message(), HasSubstr("`u0` = 3, outside [0, 2]"));
  EXPECT_THAT(refused.message(), HasSubstr("--bound u0=N"));
  EXPECT_FALSE(session->needs_reset());
  ASSERT_TRUE(session->Run({&few.ref, 1}).ok());
  int64_t count = 0;
  ASSERT_TRUE(session->ReadState("counter", std::as_writable_bytes(std::span(&count, 1))).ok());
  EXPECT_EQ(count, 2);  // the refused run did not count
}

TEST_F(BornTest, X2_AStateWrittenBeforeTheStopMakesTheSessionAskForAReset) {
  BornMaker m;
  ir::ValueId cache = m.State("cache", DType::kF32, {64});
  ir::ValueId ids = m.graph->AddInput("ids", {DType::kI64, {m.s}});
  m.graph->states[0].result =
      m.call.Emit(ops::kIndexPut, {cache, m.x, ids},
                  {{"axes", std::vector<int64_t>{0}}, {"accumulate", int64_t{0}}});
  m.Output("kept", m.Nonzeros(m.x, "u0", 1));
  auto session = MakeSession(m.Ordered());
  auto x = Row({1, 2});
  auto ids_in = Integers({2}, {0, 1});
  const TensorRef inputs[] = {x.ref, ids_in.ref};
  EXPECT_FALSE(session->Run(inputs).ok());
  EXPECT_TRUE(session->needs_reset());
  EXPECT_THAT(session->Run(inputs).message(), HasSubstr("ResetStates"));
}

TEST_F(BornTest, GuardsOverBornSizesAreCheckedWhenTheyAreBorn) {
  BornMaker m;
  m.Output("kept", m.Nonzeros(m.x, "u0", 64));
  m.graph->guards.push_back({sym::Ge(*m.table().FindSymbol("u0"), m.Int(2)), "u0 >= 2"});
  auto session = MakeSession(m.Ordered());
  auto one = Row({0, 7});
  EXPECT_THAT(session->Run({&one.ref, 1}).message(), HasSubstr("u0 >= 2"));
  auto two = Row({6, 7});
  EXPECT_TRUE(session->Run({&two.ref, 1}).ok());
}

// a = nonzeros(x); b = nonzeros(y) waits for nothing of a; c = nonzeros(a - 1) does.
TEST_F(BornTest, IndependentSizesAreReadAtOneStop) {
  BornMaker m;
  ir::ValueId y = m.graph->AddInput("y", {DType::kF32, {m.s}});
  ir::ValueId a = m.Nonzeros(m.x, "u0", 64);
  ir::ValueId less = m.call.Binary(ir::PwOp::kSub, m.call.Of(a), m.call.Number(1.0));
  m.Output("c", m.Nonzeros(less, "u1", 64));
  m.Output("b", m.Nonzeros(y, "u2", 64));
  m.Output("x+y", m.Add(m.x, y));
  auto artifact = m.Ordered();
  const auto& symbols = artifact->graph().table().symbols();
  EXPECT_EQ(symbols[1].stage, 2);  // u0
  EXPECT_EQ(symbols[2].stage, 3);  // u1
  EXPECT_EQ(symbols[3].stage, 2);  // u2
  auto session = MakeSession(artifact, {.strict = true, .poison = Poison::kLarge});
  auto x = Row({1, 5, 0, 3});
  auto second = Row({0, 0, 9, 0});
  const TensorRef inputs[] = {x.ref, second.ref};
  ASSERT_TRUE(session->Run(inputs).ok());
  EXPECT_THAT(ReadFloats(session->output(0)), ElementsAre(4, 2));
  EXPECT_THAT(ReadFloats(session->output(1)), ElementsAre(9));
  EXPECT_THAT(ReadFloats(session->output(2)), ElementsAre(1, 5, 9, 3));
}

TEST_F(BornTest, DataThatContradictsTheProgramFailsTheRun) {
  GraphMaker m;
  sym::Expr s = m.Symbol("s0", 1, 8);
  ir::ValueId repeats = m.graph->AddInput("repeats", {DType::kI64, {s}});
  m.Output("index",
           m.call.Emit(ops::kRepeatIndex, {repeats}, {{"count", std::vector<sym::Expr>{2 * s}}}));
  auto session = MakeSession(m.Finish());
  auto right = Integers({2}, {1, 3});
  ASSERT_TRUE(session->Run({&right.ref, 1}).ok());
  for (std::vector<int64_t> wrong : {std::vector<int64_t>{1, 2}, {5, 5}, {-1, 5}}) {
    auto in = Integers({2}, wrong);
    EXPECT_THAT(session->Run({&in.ref, 1}).message(), HasSubstr("repeats"));
  }
  ASSERT_TRUE(session->Run({&right.ref, 1}).ok());
}

TEST_F(BornTest, ABoundOutputShowsNoSizeOfAnEarlierRun) {
  BornMaker m;
  m.Output("kept", m.Nonzeros(m.x, "u0", 2));
  m.Output("twice", m.Add(m.x, m.x));
  auto session = MakeSession(m.Ordered(), {.strict = true});
  auto few = Row({1, 0, 2});
  ASSERT_TRUE(session->Run({&few.ref, 1}).ok());
  EXPECT_THAT(session->output(0).dims, ElementsAre(2));
  auto many = Row({1, 2, 3, 4});
  for (Owned<float>* next : {&many, &few, &few}) {  // another shape, and the same one twice
    ASSERT_TRUE(session->Bind({&next->ref, 1}).ok());
    EXPECT_THAT(session->output(0).dims, ElementsAre(kUnknownDim));
    EXPECT_THAT(session->output(1).dims, ElementsAre(next->ref.dims[0]));
  }
  ASSERT_TRUE(session->Run({&few.ref, 1}).ok());
  ASSERT_FALSE(session->Run({&many.ref, 1}).ok());
  EXPECT_THAT(session->output(0).dims, ElementsAre(kUnknownDim));
}

TEST_F(BornTest, NullKnowsAllDimsButThoseBornFromData) {
  BornMaker m;
  m.Output("kept", m.Nonzeros(m.x, "u0", 64));
  m.Output("twice", m.Add(m.x, m.x));
  auto session = Session::Create(m.Ordered(), MakeNullBackend(), {.strict = true});
  ASSERT_TRUE(session.ok());
  auto x = Row({1, 0, 2});
  ASSERT_TRUE((*session)->Run({&x.ref, 1}).ok());
  EXPECT_THAT((*session)->output(0).dims, ElementsAre(kUnknownDim));
  EXPECT_THAT((*session)->output(1).dims, ElementsAre(3));
}

// A file may claim anything.
TEST_F(BornTest, ASymbolWithoutAGiverOrUsedTooEarlyIsRefused) {
  BornMaker unborn;
  sym::Expr u = unborn.table().Symbol({.name = "u9", .lo = 0, .hi = 4, .stage = 2});
  unborn.Output("zeros", unborn.call.Full({u}, DType::kF32, 0));
  EXPECT_THAT(ir::Verify(*unborn.graph).message(), HasSubstr("`u9`"));

  BornMaker twice;
  ir::ValueId kept = twice.Nonzeros(twice.x, "u0", 64);
  twice.Output("kept", kept);
  for (const ir::Node& node : twice.graph->nodes)
    if (node.op == &ops::kItem) {
      twice.graph->nodes.push_back(node);
      break;
    }
  EXPECT_THAT(ir::Verify(*twice.graph).message(), HasSubstr("has one already"));

  BornMaker typed;
  typed.Output("kept", typed.Nonzeros(typed.x, "u0", 64));
  for (ir::Node& node : typed.graph->nodes)
    if (node.op == &ops::kIndex) node.Set("wrap", 1.5);
  EXPECT_THAT(ir::Verify(*typed.graph).message(), HasSubstr("attribute `wrap` has the wrong type"));

  // A symbol that claims to be known before what it is read from: no plan.
  BornMaker early;
  ir::ValueId a = early.Nonzeros(early.x, "u0", 64);
  early.Output("b", early.Nonzeros(a, "u1", 64));  // both of stage 2: u1 should be of stage 3
  auto artifact = early.Finish();
  auto session = Session::Create(artifact, MakeCpuBackend({.threads = 1}), {});
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(session.status().message(), HasSubstr("`u1` is of stage 2"));
}

}  // namespace
}  // namespace liveshape
