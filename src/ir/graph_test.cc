#include "ir/graph.h"

#include <gtest/gtest.h>

#include "ir/op.h"

namespace liveshape::ir {
namespace {

using ::testing::Test;

// Stand-ins for src/ops, which ir may not depend on.
Result<std::vector<TensorType>> InferSame(const InferContext& c) {
  if (c.inputs.empty() || !c.has(0)) return InvalidArgument("needs an input");
  return std::vector<TensorType>{c.in(0)};
}
Result<std::vector<TensorType>> InferSplit(const InferContext& c) {
  if (!c.node.Has("dim")) return InvalidArgument("needs the attribute `dim`");
  TensorType half = c.in(0);
  Expr& dim = half.dims.at(static_cast<size_t>(c.node.Int("dim")));
  dim = FloorDiv(dim, c.table.Int(2));
  return std::vector<TensorType>{half, half};
}
Result<std::vector<TensorType>> InferProgram(const InferContext& c) {
  return std::vector<TensorType>{{c.node.Program().code.back().dtype, c.node.Exprs("dims")}};
}
const OpDef kSame{.name = "same", .infer = InferSame};
const OpDef kSplit{.name = "split", .infer = InferSplit};
const OpDef kProgram{.name = "program", .infer = InferProgram};

class GraphTest : public Test {
 protected:
  Expr Int(int64_t v) { return graph_.table().Int(v); }
  ValueId Same(ValueId x, std::string name) {
    return (*graph_.AddNode(kSame, {x}, {}, std::move(name)))[0];
  }
  void ExpectError(std::string_view part) {
    const Status status = Verify(graph_);
    ASSERT_FALSE(status.ok()) << "expected: " << part;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }

  Graph graph_;
  Expr s_ = graph_.table().Symbol({.name = "s0", .lo = 1, .hi = 128, .display = "S"});
  ValueId x_ = graph_.AddInput("x", {DType::kF32, {s_, Int(64)}});
};

TEST_F(GraphTest, NodeOutputsAreTypedByTheShapeRuleAndNamedAfterTheNode) {
  auto one = graph_.AddNode(kSame, {x_}, {}, "y", "model.py:31");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(graph_.value((*one)[0]).name, "y");
  EXPECT_EQ(graph_.type((*one)[0]), graph_.type(x_));

  auto two = graph_.AddNode(kSplit, {x_}, {{"dim", 1}}, "halves");
  ASSERT_TRUE(two.ok());
  EXPECT_EQ(graph_.value((*two)[1]).name, "halves.1");
  EXPECT_EQ(graph_.type((*two)[1]).dims[1], Int(32));

  auto unnamed = graph_.AddNode(kSame, {x_}, {});
  ASSERT_TRUE(unnamed.ok());
  EXPECT_EQ(graph_.nodes.back().name, "same_2");
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_).message();
}

TEST_F(GraphTest, AGuardThatIsProvenIsNoRequirement) {
  graph_.guards = {{Le(s_, Int(100)), "short"}, {Eq(Mod(s_, Int(8)), Int(0)), "even"}};
  EXPECT_EQ(Requirements(graph_)->size(), 2u);
  graph_.table().NarrowSymbol(s_.symbol(), 16, 16);
  EXPECT_TRUE(Requirements(graph_)->empty()) << Print(graph_);
}

TEST_F(GraphTest, ARefusedNodeIsNamedAndLeavesTheGraphAsItWas) {
  auto refused = graph_.AddNode(kSplit, {x_}, {}, "halves", "model.py:7");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(),
            "node `halves` (split, model.py:7): needs the attribute `dim`");
  EXPECT_EQ(graph_.nodes.size(), 0u);
  EXPECT_EQ(graph_.values.size(), 1u);
}

TEST_F(GraphTest, AttributesOfEveryKind) {
  Node node{.op = &kSame, .name = "n"};
  node.attrs = {{"dim", 1}, {"eps", 1e-6}, {"kind", "sum"}, {"axes", std::vector<int64_t>{0, 2}}};
  node.Set("sizes", std::vector<Expr>{s_, Int(3)});
  node.Set("dim", 2);
  EXPECT_EQ(node.Int("dim"), 2);
  EXPECT_EQ(node.Float("eps"), 1e-6);
  EXPECT_EQ(node.String("kind"), "sum");
  EXPECT_EQ(node.Ints("axes"), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(node.Exprs("sizes")[0], s_);
  EXPECT_EQ(node.IntOr("absent", 7), 7);
  EXPECT_FALSE(node.Has("absent"));
  EXPECT_EQ(node.attrs.size(), 5u);
}

TEST_F(GraphTest, ReplaceUsesFollowsChainsIntoNodesOutputsAndStates) {
  static const std::byte kZeros[16] = {};
  const ValueId state = graph_.AddState({.name = "count", .dims = {4}, .initial = kZeros});
  const ValueId a = Same(x_, "a"), b = Same(a, "b"), c = Same(b, "c");
  const ValueId written = Same(state, "written"), again = Same(written, "again");
  graph_.states[0].result = again;
  graph_.outputs.push_back({.name = "c", .value = c});
  graph_.outputs.push_back({.name = "n", .scalar = s_});

  std::vector<ValueId> map(graph_.values.size(), kNoValue);
  map[b] = a;
  map[a] = x_;
  map[again] = written;
  graph_.ReplaceUses(map);
  EXPECT_EQ(graph_.nodes[2].inputs[0], x_);
  EXPECT_EQ(graph_.states[0].result, written);
  EXPECT_EQ(graph_.outputs[0].value, c);
  EXPECT_EQ(graph_.outputs[1].value, kNoValue);
  EXPECT_TRUE(Verify(graph_).ok());

  EXPECT_EQ(graph_.Producers()[c], 2u);
  EXPECT_EQ(graph_.Producers()[x_], Graph::kNoNode);
  EXPECT_EQ(graph_.Users()[x_], (std::vector<uint32_t>{0, 1, 2}));
}

TEST_F(GraphTest, VerifyFindsWhatAPassMayBreak) {
  const ValueId a = Same(x_, "a");
  const ValueId b = Same(a, "b");
  graph_.outputs.push_back({.name = "b", .value = b});
  ASSERT_TRUE(Verify(graph_).ok());

  std::swap(graph_.nodes[0], graph_.nodes[1]);
  ExpectError("node `b` (same): input 0 is value %1, which nothing before it makes");
  std::swap(graph_.nodes[0], graph_.nodes[1]);

  graph_.values[b].type.dims[1] = Int(63);
  ExpectError("node `b` (same): output 0 is stored as f32[S, 63], its op's shape rule gives");
  graph_.values[b].type.dims[1] = Int(64);

  graph_.nodes[1].outputs[0] = a;
  ExpectError("which something else makes already");
  graph_.nodes[1].outputs[0] = 99;
  ExpectError("output 0 is value %99; there are 3");
  graph_.nodes[1].outputs[0] = b;

  graph_.outputs[0].value = 99;
  ExpectError("output `b` is value %99");
  graph_.outputs[0].value = b;

  graph_.values[b].type.dims[0] = Expr();
  ExpectError("a dim of value %2 `b` has no expression");
  graph_.values[b].type.dims[0] = s_;

  graph_.inputs[0].value = b;
  ExpectError("input 0 `x` is value %2, which has another origin");
}

TEST_F(GraphTest, VerifyChecksStoredBytesAndStateResults) {
  static const std::byte kBytes[4 * 16 * 3] = {};
  Constant w{.name = "w", .dims = {5, 3}, .data = std::span(kBytes).first(60)};
  EXPECT_EQ(StoredBytes(w), 60u);
  graph_.AddConstant(w);
  EXPECT_TRUE(Verify(graph_).ok());
  graph_.constants[0].layout = ConstantLayout::kPanel16;
  ExpectError("constant `w` [5, 3] has 60 bytes, expected 192");
  graph_.constants[0].data = kBytes;
  EXPECT_TRUE(Verify(graph_).ok());
  graph_.constants[0].data = {};
  ExpectError("has 0 bytes");
  graph_.constants[0].external = "given.w";
  EXPECT_TRUE(Verify(graph_).ok());

  graph_.constants[0].encoding = Encoding::kQ4SymG32;
  EXPECT_EQ(StoredBytes(graph_.constants[0]), 288u);
  graph_.constants[0].encoding = Encoding::kQ8SymG32;
  EXPECT_EQ(StoredBytes(graph_.constants[0]), 544u);
  graph_.constants[0].dims = {17, 65};
  EXPECT_EQ(StoredBytes(graph_.constants[0]), 2 * 3 * 544u);
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{5}, {5, -3}, {INT64_MAX, 3}, {int64_t{1} << 40, int64_t{1} << 40}}) {
    graph_.constants[0].dims = dims;
    EXPECT_FALSE(StoredBytes(graph_.constants[0]));
  }
  graph_.constants[0].dims = {5, 3};
  graph_.constants[0].dtype = DType::kI32;  // no scales for integers
  EXPECT_FALSE(StoredBytes(graph_.constants[0]));
  graph_.constants[0].dtype = DType::kF32;
  graph_.constants[0].layout = ConstantLayout::kPlain;  // quantised rows have no other form
  ExpectError("cannot be stored in its layout");
  graph_.constants[0].encoding = Encoding::kPlain;

  graph_.AddState({.name = "cache", .dims = {2, 2}, .initial = std::span(kBytes).first(16)});
  EXPECT_TRUE(Verify(graph_).ok());
  graph_.states[0].result = x_;
  ExpectError("state `cache` is f32[2, 2], its result %0 is f32[S, 64]");
  graph_.states[0].initial = {};
  ExpectError("state `cache` [2, 2] has 0 initial bytes, expected 16");

  EXPECT_FALSE(DenseBytes(DType::kF32, std::vector<int64_t>{-1}));
  EXPECT_FALSE(DenseBytes(DType::kF32, std::vector<int64_t>{INT64_MAX, 2}));
}

TEST_F(GraphTest, VerifyChecksPointwisePrograms) {
  PointwiseProgram program{.code = {{.op = PwOp::kLoad, .imm = 0},
                                    {.op = PwOp::kSilu, .a = 0},
                                    {.op = PwOp::kScalar, .dtype = DType::kI64, .imm = 0},
                                    {.op = PwOp::kCast, .a = 2},
                                    {.op = PwOp::kMul, .a = 1, .b = 3}},
                           .scalars = {2 * s_}};
  ASSERT_TRUE(
      graph_.AddNode(kProgram, {x_}, {{"program", program}, {"dims", Dims{s_, Int(64)}}}, "p")
          .ok());
  ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_).message();
  EXPECT_NE(Print(graph_).find("program={t0:f32 = load 0; t1:f32 = silu t0; t2:i64 = scalar 2*S; "
                               "t3:f32 = cast t2; t4:f32 = mul t1 t3} dims=[S, 64]"),
            std::string::npos)
      << Print(graph_);

  auto expect = [&](size_t index, PwInstr instr, std::string_view part) {
    PointwiseProgram broken = program;
    broken.code[index] = instr;
    graph_.nodes[0].Set("program", broken);
    ExpectError(part);
  };
  expect(0, {.op = PwOp::kLoad, .imm = 1},
         "node `p` (program): attribute `program`: instruction 0");
  expect(0, {.op = PwOp::kLoad, .imm = -1}, "loads input -1 of 1");
  expect(0, {.op = PwOp::kLoad, .dtype = DType::kF16, .imm = 0}, "loads input 0 as f16, it is f32");
  expect(2, {.op = PwOp::kScalar, .dtype = DType::kI64, .imm = 1}, "reads scalar 1 of 1");
  expect(2, {.op = PwOp::kIota, .dtype = DType::kI64, .imm = 2}, "iota along dim 2 of f32[S, 64]");
  expect(2, {.op = PwOp::kConst, .dtype = DType::kI8, .imm = 200}, "200 does not fit i8");
  expect(4, {.op = PwOp::kMul, .a = 1, .b = 4}, "mul reads t4, which is not before it");
  expect(4, {.op = PwOp::kCount}, "no such operation");
  graph_.nodes[0].Set("program", program);
  graph_.values[1].type.dtype = DType::kI64;
  ExpectError("output 0 is stored as i64");
}

TEST_F(GraphTest, VerifyChecksHostValues) {
  sym::Table& table = graph_.table();
  const Expr pos = table.Symbol({.name = "u0", .lo = 0, .hi = 64, .stage = 1});
  const ValueId ids = graph_.AddInput("ids", {DType::kI64, {s_}});
  graph_.AddScalarInput("n", s_);
  graph_.host_values.push_back({.symbol = pos.symbol(), .index = 1, .element = s_ - 1});
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_).message();
  graph_.values[ids].type.dtype = DType::kF32;
  ExpectError("host value `u0` is read from `ids`, which is f32[S]: not integers");
  graph_.values[ids].type.dtype = DType::kI64;
  graph_.host_values[0].element = pos;
  ExpectError("whose place is known at bind");
  graph_.host_values[0].element = Int(0);
  graph_.host_values[0].index = 2;
  ExpectError("no tensor input");
  graph_.host_values[0].symbol = 9;
  ExpectError("symbol 9 of 2");
}

// Kernels rely on inputs being as large as their types say; bind can compare only what it knows.
TEST_F(GraphTest, VerifyWantsSizesOfInputsKnownAtBind) {
  const Expr n = graph_.table().Symbol({.name = "u0", .lo = 0, .hi = 64, .stage = 1});
  const ValueId ids = graph_.AddInput("ids", {DType::kI64, {}});
  const uint32_t place = graph_.value(ids).index;
  graph_.host_values.push_back({.symbol = n.symbol(), .index = place, .element = Int(0)});
  const ValueId rows = graph_.AddInput("rows", {DType::kF32, {s_, s_}});
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_).message();
  graph_.values[rows].type.dims[1] = n + 1;
  ExpectError("input `rows` has the size u0 + 1, which only data tells");
  graph_.values[rows].type.dims[1] = s_;
  graph_.host_values.clear();
  graph_.outputs = {{.name = "n", .scalar = n}};
  ExpectError("`u0`, which nothing before it gives a value");
}

TEST_F(GraphTest, PrintShowsTheWholeGraph) {
  static const std::byte kBytes[256] = {};
  sym::Table& table = graph_.table();
  graph_.name = "demo";
  const Expr pos = table.Symbol({.name = "u0", .stage = 1});
  graph_.AddScalarInput("n", s_);
  graph_.inputs.back().used = false;
  const ValueId ids = graph_.AddInput("ids", {DType::kI64, {}});
  const ValueId w =
      graph_.AddConstant({.name = "w", .dims = {4, 4}, .data = std::span(kBytes).first(64)});
  graph_.AddConstant({.name = "e", .dims = {2}, .external = "given.e"});
  graph_.AddState({.name = "cache", .dims = {64}, .initial = kBytes});
  ASSERT_TRUE(
      graph_.AddNode(kSplit, {x_}, {{"dim", 1}, {"eps", 1.0}, {"kind", "a"}}, "h", "m.py:3").ok());
  const ValueId y = Same(w, "y");
  graph_.outputs = {{.name = "y", .value = y}, {.name = "twice", .scalar = 2 * s_}};
  graph_.host_values.push_back(
      {.symbol = pos.symbol(), .index = graph_.value(ids).index, .element = Int(0)});
  graph_.guards.push_back({Le(s_, Int(64)), "the cache holds 64"});
  EXPECT_EQ(Print(graph_), R"(graph demo
symbols
  s0 `S` in [1, 128]
  u0 in [0, inf] stage 1
inputs
  %0 x: f32[S, 64]
  n: int = S unused
  %1 ids: i64[]
states
  %4 cache: f32[64] read only
constants
  %2 w: f32[4, 4] 64 bytes
  %3 e: f32[2] external `given.e`
host values
  u0 = ids[0]
nodes
  %5 h.0: f32[S, 32], %6 h.1: f32[S, 32] = split(%0) dim=1 eps=1.0 kind="a"   # h m.py:3
  %7 y: f32[4, 4] = same(%2)
outputs
  y = %7
  twice: int = 2*S
guards
  )" + sym::ToString(graph_.guards[0].condition) +
                               R"(   # the cache holds 64
)");
}

TEST_F(GraphTest, ContiguousLayouts) {
  sym::Table& table = graph_.table();
  const Dims dims{s_, Int(1), Int(64)};
  Layout layout = ContiguousLayout(table, dims);
  EXPECT_EQ(layout.strides, (Dims{Int(64), Int(64), Int(1)}));
  EXPECT_TRUE(IsContiguous(layout, dims));
  layout.offset = Int(128);
  layout.strides[1] = Int(7);  // a dim of one element has no stride to speak of
  EXPECT_TRUE(IsContiguous(layout, dims));
  layout.strides[0] = Int(128);
  EXPECT_FALSE(IsContiguous(layout, dims));
  EXPECT_TRUE(IsContiguous(ContiguousLayout(table, {}), {}));
}

}  // namespace
}  // namespace liveshape::ir
