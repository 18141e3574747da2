// Small graphs for the tests of recognition, written as a model would be.
#pragma once

#include <gtest/gtest.h>

#include "ops/aten.h"
#include "ops/ops.h"
#include "passes/passes.h"

namespace liveshape::passes {

using ir::Dims;
using ir::PwOp;
using ir::ValueId;
using sym::Expr;

class RecogniseTest : public ::testing::Test {
 protected:
  Expr Int(int64_t v) { return graph_.table().Int(v); }
  Expr Symbol(const char* name, int64_t lo, int64_t hi) {
    return graph_.table().Symbol({.name = name, .lo = lo, .hi = hi});
  }
  ValueId Input(const char* name, Dims dims, DType dtype = DType::kF32) {
    return graph_.AddInput(name, {dtype, std::move(dims)});
  }
  ValueId IntState(const char* name, std::vector<int64_t> dims) {
    static const std::vector<std::byte> kZeros(1 << 12);
    return graph_.AddState(
        {.name = name,
         .dtype = DType::kI64,
         .dims = dims,
         .initial = std::span(kZeros).first(*ir::DenseBytes(DType::kI64, dims))});
  }
  template <typename T>
  ValueId Constant(const char* name, DType dtype, std::vector<int64_t> dims, std::vector<T> data) {
    auto owner = std::make_shared<std::vector<T>>(std::move(data));
    return graph_.AddConstant({.name = name,
                               .dtype = dtype,
                               .dims = std::move(dims),
                               .data = std::as_bytes(std::span<const T>(*owner)),
                               .owner = owner});
  }

  // Arithmetic, broadcast and promoted as torch does.
  ValueId Op(PwOp op, ValueId a, ValueId b) { return c_.Binary(op, c_.Of(a), c_.Of(b)); }
  ValueId Op(PwOp op, ValueId a, double b) { return c_.Binary(op, c_.Of(a), c_.Number(b)); }
  ValueId Op(PwOp op, double a, ValueId b) { return c_.Binary(op, c_.Number(a), c_.Of(b)); }
  ValueId Op(PwOp op, ValueId a, Expr b) { return c_.Binary(op, c_.Of(a), c_.Number(b)); }
  ValueId Op(PwOp op, ValueId x) { return c_.Unary(op, x); }
  ValueId Not(ValueId x) {
    return c_.Pointwise(PwOp::kNot, {c_.Of(x)}, DType::kBool, DType::kBool);
  }
  ValueId And(ValueId a, ValueId b) {
    return c_.Pointwise(PwOp::kAnd, {c_.Of(a), c_.Of(b)}, DType::kBool, DType::kBool);
  }
  ValueId Where(ValueId mask, ValueId a, double b) {
    return c_.Pointwise(PwOp::kWhere, {c_.Of(mask), c_.Of(a), c_.Number(b)}, TypeOf(a), TypeOf(a));
  }
  ValueId Where(ValueId mask, double a, ValueId b) {
    return c_.Pointwise(PwOp::kWhere, {c_.Of(mask), c_.Number(a), c_.Of(b)}, TypeOf(b), TypeOf(b));
  }
  ValueId Where(ValueId mask, double a, double b) {
    return c_.Pointwise(PwOp::kWhere, {c_.Of(mask), c_.Number(a), c_.Number(b)}, DType::kF32,
                        DType::kF32);
  }
  ValueId Arange(Expr n) {
    ir::PointwiseProgram p;
    p.code = {{.op = PwOp::kIota, .dtype = DType::kI64, .imm = 0}};
    return c_.Emit(ops::kPointwise, {}, {{"program", std::move(p)}, {"dims", Dims{n}}});
  }
  ValueId Column(ValueId x) { return c_.Unsqueeze(x, 1); }  // [n] -> [n, 1]
  ValueId Row(ValueId x) { return c_.Unsqueeze(x, 0); }     // [n] -> [1, n]
  ValueId Reduce(const char* kind, ValueId x, int64_t dim, bool keepdim = true) {
    return c_.Emit(ops::kReduce, {x},
                   {{"kind", std::string(kind)},
                    {"dims", std::vector<int64_t>{dim}},
                    {"keepdim", int64_t{keepdim}}});
  }
  ValueId Softmax(ValueId x, int64_t dim, const char* all_masked = "nan") {
    return c_.Emit(ops::kSoftmax, {x}, {{"dim", dim}, {"all_masked", std::string(all_masked)}});
  }
  ValueId Matmul(ValueId a, ValueId b) { return c_.Emit(ops::kMatmul, {a, b}); }
  ValueId Cat(ValueId a, ValueId b, int64_t dim) {
    return c_.Emit(ops::kCat, {a, b}, {{"dim", dim}});
  }
  DType TypeOf(ValueId v) { return c_.TypeOf(v); }

  void Return(ValueId v) {
    graph_.outputs.push_back({.name = "y" + std::to_string(graph_.outputs.size()), .value = v});
  }

  // The pass, then what a pipeline does behind it.
  template <typename... Passes>
  void Run(Passes... passes) {
    ASSERT_TRUE(c_.ok()) << c_.status().message();
    for (auto pass :
         {&Canonicalise, &EliminateCommonSubexpressions, passes..., &EliminateDeadCode}) {
      const Status status = pass(graph_, {});
      ASSERT_TRUE(status.ok()) << status.message();
      const Status verified = ir::Verify(graph_);
      ASSERT_TRUE(verified.ok()) << verified.message() << "\n" << ir::Print(graph_);
    }
  }

  int Count(const ir::OpDef& op) {
    int count = 0;
    for (const ir::Node& node : graph_.nodes) count += node.op == &op;
    return count;
  }
  int Count(PwOp op) {
    int count = 0;
    for (const ir::Node& node : graph_.nodes)
      if (node.op == &ops::kPointwise)
        for (const ir::PwInstr& instr : node.Program().code) count += instr.op == op;
    return count;
  }
  const ir::Node& Only(const ir::OpDef& op) {
    for (const ir::Node& node : graph_.nodes)
      if (node.op == &op) return node;
    static const ir::Node kNone;
    ADD_FAILURE() << "no " << op.name << " in\n" << ir::Print(graph_);
    return kNone;
  }

  ir::Graph graph_;
  ops::AtenCall c_{graph_, "test", "n", "", {}};
};

}  // namespace liveshape::passes
