// The graphs that the artifact's tests write and read.
#include "artifact/testing.h"
#include "ops/ops.h"

namespace liveshape::artifact {
namespace {

using ir::Dims;
using ir::PwOp;
using ir::ValueId;
using sym::Expr;

// Bytes 0, 1, 2, ... that differ from place to place, so that a wrong offset shows.
struct Store {
  std::shared_ptr<std::vector<std::byte>> bytes = std::make_shared<std::vector<std::byte>>(4096);
  size_t used = 0;
  Store() {
    for (size_t i = 0; i < bytes->size(); ++i)
      (*bytes)[i] = static_cast<std::byte>(i * 7 + i / 256);
  }
  std::span<const std::byte> Take(size_t size) {
    used += size;
    LS_CHECK(used <= bytes->size());
    return std::span<const std::byte>(*bytes).subspan(used - size, size);
  }
};

}  // namespace

std::unique_ptr<ir::Graph> TinyGraph() {
  auto graph = std::make_unique<ir::Graph>();
  sym::Table& table = graph->table();
  graph->name = "tiny";
  const Expr s = table.Symbol({.name = "s0", .lo = 1, .hi = 8, .display = "S"});
  const ValueId x = graph->AddInput("x", {DType::kF32, {s, table.Int(4)}});
  const auto y = graph->AddNode(ops::kSoftmax, {x}, {{"dim", 1}, {"all_masked", "nan"}}, "y");
  graph->outputs.push_back({.name = "y", .value = (*y)[0]});
  return graph;
}

std::unique_ptr<ir::Graph> SampleGraph() {
  auto graph = std::make_unique<ir::Graph>();
  sym::Table& table = graph->table();
  Store store;
  auto node = [&](const ir::OpDef& op, std::vector<ValueId> inputs, ir::Attrs attrs,
                  std::string name, std::string source = {}) {
    return (*graph->AddNode(op, std::move(inputs), std::move(attrs), std::move(name),
                            std::move(source)))[0];
  };
  graph->name = "sample";
  const Expr s = table.Symbol({.name = "s43", .lo = 1, .hi = 64, .display = "S"});
  const Expr b = table.Symbol({.name = "s2", .lo = 2, .hi = 16});
  const Expr pos = table.Symbol({.name = "u0", .lo = 0, .hi = 63, .stage = 1});
  const Expr born = table.Symbol({.name = "u1", .lo = 0, .hi = 99, .stage = 2});
  auto i = [&](int64_t v) { return table.Int(v); };

  const ValueId x = graph->AddInput("x", {DType::kF32, {b, s, i(8)}});
  const ValueId ids = graph->AddInput("past.0.ids", {DType::kI64, {i(1)}});
  graph->AddScalarInput("n", b);
  graph->AddScalarInput("fixed", i(7));
  graph->AddInput("ignored", {DType::kBool, {2 * s + 1, FloorDiv(s, i(2)), Min(s, b)}});
  graph->inputs.back().used = false;

  const auto tied = store.Take(4 * 16 * 8);
  const ValueId w = graph->AddConstant({.name = "head.weight",
                                        .dims = {5, 8},
                                        .layout = ir::ConstantLayout::kPanel16,
                                        .data = tied,
                                        .owner = store.bytes});
  graph->AddConstant({.name = "embed.weight", .dims = {16, 8}, .data = tied, .owner = store.bytes});
  const ValueId scale =
      graph->AddConstant({.name = "scale", .dims = {8}, .external = "given.scale"});
  graph->AddConstant({.name = "empty", .dtype = DType::kBF16, .dims = {0, 3}});

  const ValueId rows = graph->AddConstant({.name = "rows.weight",
                                           .dims = {3, 40},
                                           .encoding = ir::Encoding::kQ4SymG32,
                                           .layout = ir::ConstantLayout::kPanel16,
                                           .data = store.Take(2 * 288),
                                           .owner = store.bytes});

  const ValueId cache = graph->AddState(
      {.name = "cache", .dims = {4, 8}, .initial = store.Take(4 * 4 * 8), .owner = store.bytes});
  graph->AddState({.name = "count",
                   .dtype = DType::kI64,
                   .dims = {},
                   .initial = store.Take(8),
                   .owner = store.bytes});

  const ValueId normed = node(ops::kRmsNorm, {x, scale}, {{"eps", 1e-6}}, "norm", "model.py:12");
  const ValueId plain = node(ops::kRmsNorm, {normed, ir::kNoValue}, {{"eps", -0.0}}, "plain");
  const ValueId y = node(ops::kLinear, {plain, w}, {}, "head", "model.py:13");
  const ValueId turned =
      node(ops::kPermute, {y}, {{"perm", std::vector<int64_t>{2, 0, 1}}}, "turned");
  const ValueId six =
      node(ops::kReshape, {turned}, {{"sizes", Dims{i(5), i(1), b, i(1), s, i(1)}}}, "six");
  const ValueId soft = node(ops::kSoftmax, {six}, {{"dim", 4}, {"all_masked", "zero"}}, "soft");

  const Dims dims{s, i(8)};
  ir::PointwiseProgram ramp{.code = {{.op = PwOp::kIota, .dtype = DType::kI64, .imm = 1},
                                     {.op = PwOp::kScalar, .dtype = DType::kI64, .imm = 1},
                                     {.op = PwOp::kAdd, .dtype = DType::kI64, .a = 0, .b = 1},
                                     {.op = PwOp::kConst, .dtype = DType::kI64, .imm = -3},
                                     {.op = PwOp::kLt, .dtype = DType::kBool, .a = 2, .b = 3},
                                     {.op = PwOp::kConst, .imm = 0x3ff8000000000000},  // 1.5
                                     {.op = PwOp::kCast, .a = 2},
                                     {.op = PwOp::kWhere, .a = 4, .b = 5, .c = 6}},
                            .scalars = {s * b, pos + 1}};
  const ValueId ramped =
      node(ops::kPointwise, {}, {{"program", std::move(ramp)}, {"dims", dims}}, "ramp");
  const ValueId row = node(
      ops::kSlice, {ramped},
      {{"dim", 0}, {"start", Dims{Max(s - 4, i(0))}}, {"length", Dims{i(1)}}, {"step", 1}}, "row");
  graph->states[0].result =
      node(ops::kIndexPut, {cache, row, ids},
           {{"axes", std::vector<int64_t>{0}}, {"accumulate", 0}}, "put", "cache.py:7");

  LS_CHECK(graph
               ->AddNode(ops::kItem, {graph->states[1].value},
                         {{"symbol", static_cast<int64_t>(born.symbol())}}, "born")
               .ok());
  const ValueId embedded = node(ops::kEmbedding, {rows, ids}, {}, "embedded");

  graph->outputs = {{.name = "soft", .value = soft},
                    {.name = "x_again", .value = x},
                    {.name = "twice", .scalar = 2 * s},
                    {.name = "soft_again", .value = soft},
                    {.name = "embedded", .value = embedded}};
  graph->host_values = {
      {.symbol = pos.symbol(), .index = 1, .element = i(0)},
      {.symbol = pos.symbol(), .source = ir::Origin::kState, .index = 1, .element = Mod(s, i(1))}};
  auto make = [&](sym::Kind kind, std::vector<Expr> args) { return table.Make(kind, args); };
  const Expr half = make(sym::Kind::kIntTrueDiv, {s, b});
  graph->guards = {
      {Le(s * b, i(512)), "s43*s2 <= 512"},
      {Or(Eq(Mod(s, i(4)), i(0)), Not(Lt(b, s))), "either"},
      {Le(make(sym::Kind::kCeilToInt, {make(sym::Kind::kFloatMul, {half, table.Float(0.3)})}),
          Select(Lt(s, b), CeilDiv(s, i(3)), Pow(b, 3) + born)),
       {}}};
  return graph;
}

}  // namespace liveshape::artifact
