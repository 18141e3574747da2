// What shape rules cannot prove of sizes is checked when they are known, and names the node (X2). No graph here stores a
// guard: it may come from anyone's artifact.
#include <gmock/gmock.h>

#include <functional>

#include "runtime/testing.h"

namespace liveshape {
namespace {

using ir::Dims;
using ::testing::AllOf;
using ::testing::HasSubstr;

// x: f32[S], y: f32[T], both up to 8 elements.
struct TwoVectors : GraphMaker {
  sym::Expr s = Symbol("S", 0, 8), t = Symbol("T", 0, 8);
  ir::ValueId x = graph->AddInput("x", {DType::kF32, {s}});
  ir::ValueId y = graph->AddInput("y", {DType::kF32, {t}});

  ir::ValueId Add(const ir::OpDef& op, std::vector<ir::ValueId> inputs, ir::Attrs attrs) {
    auto made = graph->AddNode(op, std::move(inputs), std::move(attrs), "culprit");
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? made->at(0) : ir::kNoValue;
  }
  ir::ValueId Matrix(ir::ValueId v, sym::Expr rows, sym::Expr columns) {
    return call.Reshape(v, {rows, columns});
  }
  ir::ValueId Weight(int64_t rows, int64_t columns) {
    auto data = std::make_shared<std::vector<float>>(static_cast<size_t>(rows * columns), 1.0f);
    return graph->AddConstant({.name = "w",
                               .dims = {rows, columns},
                               .data = std::as_bytes(std::span(*data)),
                               .owner = data});
  }
};

struct Requirement {
  const char* name;
  std::function<ir::ValueId(TwoVectors&)> build;
  std::array<int64_t, 2> good, bad;  // values of S and T
  const char* text;
};
void PrintTo(const Requirement& r, std::ostream* out) { *out << r.name; }

class RequirementsTest : public ::testing::TestWithParam<Requirement> {};

TEST_P(RequirementsTest, IsCheckedAtBindAndNamesTheNode) {
  TwoVectors m;
  m.Output("out", GetParam().build(m));
  ASSERT_TRUE(m.graph->guards.empty());
  auto session = MakeSession(m.Finish(), {.strict = true, .poison = Poison::kLarge}, 1);
  const auto run = [&](std::array<int64_t, 2> sizes) {
    auto x = Floats({sizes[0]}), y = Floats({sizes[1]});
    const TensorRef inputs[] = {x.ref, y.ref};
    return session->Run(inputs);
  };
  ASSERT_TRUE(run(GetParam().good).ok()) << run(GetParam().good).message();
  EXPECT_THAT(run(GetParam().bad).message(),
              AllOf(HasSubstr("bind: node `culprit` ("), HasSubstr(GetParam().text)));
  EXPECT_TRUE(run(GetParam().good).ok());
}

INSTANTIATE_TEST_SUITE_P(
    All, RequirementsTest,
    ::testing::ValuesIn(std::vector<Requirement>{
        {"slice_end",
         [](TwoVectors& m) {
           return m.Add(ops::kSlice, {m.x},
                        {{"dim", int64_t{0}},
                         {"step", int64_t{2}},
                         {"start", Dims{m.t}},
                         {"length", Dims{m.Int(2)}}});
         },
         {4, 1},
         {4, 2},
         "2 elements from DT, 2 apart, do not lie inside size DS at DS=4, DT=2"},
        {"slice_start",
         [](TwoVectors& m) {
           return m.Add(ops::kSlice, {m.x},
                        {{"dim", int64_t{0}},
                         {"step", int64_t{1}},
                         {"start", Dims{m.t - 3}},
                         {"length", Dims{m.Int(1)}}});
         },
         {4, 3},
         {4, 2},
         "do not lie inside size DS"},
        {"slice_length",
         [](TwoVectors& m) {
           return m.Add(ops::kSlice, {m.x},
                        {{"dim", int64_t{0}},
                         {"step", int64_t{1}},
                         {"start", Dims{m.Int(0)}},
                         {"length", Dims{m.t - 3}}});
         },
         {4, 3},
         {4, 2},
         "output 0 would have the size DT - 3"},
        {"reshape",
         [](TwoVectors& m) {
           return m.Add(ops::kReshape, {m.x}, {{"sizes", Dims{m.t, m.Int(2)}}});
         },
         {6, 3},
         {6, 4},
         "cannot view DS elements as 2*DT"},
        {"expand",
         [](TwoVectors& m) { return m.Add(ops::kExpand, {m.x}, {{"sizes", Dims{m.Int(2), m.t}}}); },
         {3, 3},
         {3, 4},
         "size DS cannot expand to DT"},
        {"expand_at_most_one",
         [](TwoVectors& m) {
           const auto first = m.Add(ops::kSlice, {m.y},
                                    {{"dim", int64_t{0}},
                                     {"step", int64_t{1}},
                                     {"start", Dims{m.Int(0)}},
                                     {"length", Dims{sym::Min(m.t, m.Int(1))}}});
           return m.Add(ops::kExpand, {first}, {{"sizes", Dims{m.s}}});
         },
         {4, 2},
         {4, 0},
         "size Min(DT, 1) cannot expand to DS at DS=4, DT=0"},
        {"pointwise",
         [](TwoVectors& m) {
           ir::PointwiseProgram sum;
           sum.code = {{.op = ir::PwOp::kLoad, .dtype = DType::kF32, .imm = 0},
                       {.op = ir::PwOp::kLoad, .dtype = DType::kF32, .imm = 1},
                       {.op = ir::PwOp::kAdd, .dtype = DType::kF32, .a = 0, .b = 1}};
           return m.Add(ops::kPointwise, {m.x, m.y}, {{"program", sum}, {"dims", Dims{m.s}}});
         },
         {5, 5},
         {5, 4},
         "input 1 is f32[DT], the output [DS]"},
        {"cat",
         [](TwoVectors& m) {
           return m.Add(ops::kCat, {m.Matrix(m.x, m.Int(1), m.s), m.Matrix(m.y, m.Int(1), m.t)},
                        {{"dim", int64_t{0}}});
         },
         {5, 5},
         {5, 4},
         "input 1 is f32[1, DT], does not fit input 0"},
        {"matmul",
         [](TwoVectors& m) {
           return m.Add(ops::kMatmul, {m.Matrix(m.x, m.Int(1), m.s), m.Matrix(m.y, m.t, m.Int(1))},
                        {});
         },
         {5, 5},
         {5, 6},
         "DS columns times DT rows"},
        {"linear",
         [](TwoVectors& m) { return m.Add(ops::kLinear, {m.x, m.Weight(2, 3)}, {}); },
         {3, 0},
         {4, 0},
         "x has DS columns, the weight 3"},
        {"layer_norm",
         [](TwoVectors& m) { return m.Add(ops::kLayerNorm, {m.x, m.y}, {{"eps", 1e-5}}); },
         {3, 3},
         {4, 3},
         "input 1 must be [DS] of f32, is f32[DT]"},
        {"rms_norm",
         [](TwoVectors& m) { return m.Add(ops::kRmsNorm, {m.x, m.y}, {{"eps", 1e-5}}); },
         {3, 3},
         {4, 3},
         "input 1 must be [DS] of f32, is f32[DT]"},
        {"attention",
         [](TwoVectors& m) {
           const auto heads = [&](ir::ValueId v, sym::Expr rows) {
             return m.call.Reshape(v, {m.Int(1), m.Int(1), rows, m.Int(1)});
           };
           return m.Add(ops::kAttention, {heads(m.x, m.s), heads(m.x, m.s), heads(m.y, m.t)},
                        {{"scale", 1.0}, {"all_masked", std::string("nan")}});
         },
         {3, 3},
         {4, 3},
         "do not fit at DS=4, DT=3"},
        {"argmax",
         [](TwoVectors& m) {
           return m.Add(
               ops::kArgmax, {m.x},
               {{"kind", std::string("max")}, {"dim", int64_t{0}}, {"keepdim", int64_t{0}}});
         },
         {1, 0},
         {0, 0},
         "max or min over dim 0 of size DS has no value"},
        {"reduce",
         [](TwoVectors& m) {
           return m.Add(ops::kReduce, {m.x},
                        {{"kind", std::string("min")},
                         {"dims", std::vector<int64_t>{0}},
                         {"keepdim", int64_t{0}}});
         },
         {1, 0},
         {0, 0},
         "max or min over dim 0 of size DS has no value"},
        {"sort",
         [](TwoVectors& m) {
           return m.Add(ops::kSort, {m.x},
                        {{"dim", int64_t{0}}, {"descending", int64_t{0}}, {"count", Dims{m.t}}});
         },
         {4, 4},
         {4, 5},
         "takes DT of DS elements"},
        {"pad",
         [](TwoVectors& m) {
           return m.Add(ops::kPad, {m.x},
                        {{"mode", std::string("reflect")},
                         {"value", 0.0},
                         {"before", Dims{m.t}},
                         {"after", Dims{m.Int(0)}}});
         },
         {4, 3},
         {4, 4},
         "a reflect pad of DT and 0 does not fit a size of DS"},
        {"pad_cut",
         [](TwoVectors& m) {
           ops::AtenCall call(*m.graph, "aten.pad.default", "culprit", "",
                              {{"self", m.x}, {"pad", Dims{m.Int(-5), m.Int(4)}}});
           return ops::FindForm(call.target())->build(call)[0];
         },
         {5, 0},
         {4, 0},
         "output 0 would have the size DS - 5"},
        {"pool",
         [](TwoVectors& m) {
           const auto image = m.call.Reshape(m.x, {m.Int(1), m.Int(1), m.Int(1), m.s});
           return m.Add(ops::kPool, {image},
                        {{"kernel", std::vector<int64_t>{1, 3}},
                         {"stride", std::vector<int64_t>{1, 1}},
                         {"dilation", std::vector<int64_t>{1, 1}},
                         {"padding", std::vector<int64_t>{0, 0, 0, 0}},
                         {"kind", std::string("max")},
                         {"ceil", int64_t{0}},
                         {"count_padding", int64_t{0}},
                         {"divisor", int64_t{0}}});
         },
         {3, 0},
         {2, 0},
         "a window of 3 does not fit an input of DS"},
        {"view_write",
         [](TwoVectors& m) {
           return m.Add(
               ops::kViewWrite, {m.x, m.y},
               {{"sizes", Dims{m.t}}, {"strides", Dims{m.Int(2)}}, {"offset", Dims{m.Int(1)}}});
         },
         {6, 3},
         {5, 3},
         "the place written to does not lie inside f32[DS]"},
        {"view_write_source",
         [](TwoVectors& m) {
           return m.Add(
               ops::kViewWrite, {m.x, m.y},
               {{"sizes", Dims{m.s}}, {"strides", Dims{m.Int(1)}}, {"offset", Dims{m.Int(0)}}});
         },
         {3, 3},
         {3, 2},
         "source f32[DT] does not fit the place written to"},
    }),
    [](const auto& info) { return std::string(info.param.name); });

// Dims as they are stored and as the rule gives them may be spelled differently; both are believed, so they must agree.
TEST(StoredDimsTest, MustBeWhatTheRuleGives) {
  TwoVectors m;
  const ir::ValueId same = m.Add(ops::kReshape, {m.x}, {{"sizes", Dims{m.s, m.Int(1)}}});
  m.graph->values[same].type.dims[0] = m.t;
  m.Output("out", same);
  auto session = MakeSession(m.Finish(), {}, 1);
  auto x = Floats({4}), y = Floats({5});
  const TensorRef inputs[] = {x.ref, y.ref};
  EXPECT_THAT(session->Run(inputs).message(),
              HasSubstr("output 0 is stored as f32[DT, 1], its shape rule gives f32[DS, 1]"));
}

}  // namespace
}  // namespace liveshape
