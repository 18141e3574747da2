// x @ w.T + bias: every product whose right side is a matrix.
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 2, 3));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  const TensorType &x = c.in(0), &w = c.in(1);
  if (w.dims.size() != 2)
    return InvalidArgument("weight must be a matrix, has rank {}", w.dims.size());
  LS_RETURN_IF_ERROR(c.RequireEqual(x.dims.back(), w.dims[1], [&] {
    return fmt::format("x has {} columns, the weight {}", sym::ToString(x.dims.back()),
                       sym::ToString(w.dims[1]));
  }));
  if (x.dtype != w.dtype)
    return InvalidArgument("x is {}, the weight {}", Name(x.dtype), Name(w.dtype));
  if (c.has(2)) {
    const auto misfit = [&] {
      return fmt::format("bias must be [{}] of {}", sym::ToString(w.dims[0]), Name(x.dtype));
    };
    if (c.in(2).dtype != x.dtype) return InvalidArgument("{}", misfit());
    LS_RETURN_IF_ERROR(c.RequireEqual(c.in(2).dims, {w.dims[0]}, misfit));
  }
  Dims dims = x.dims;
  dims.back() = w.dims[0];
  return std::vector<TensorType>{{x.dtype, std::move(dims)}};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  return {.flops = 2 * sym::Product(c.table, out.dims) * c.in(1).dims[1]};
}

std::vector<ValueId> Linear(AtenCall& c) {
  ValueId x = c.Tensor("input"), w = c.Tensor("weight"), bias = c.OptionalTensor("bias");
  if (c.Rank(w) == 1) {  // a vector: the result loses its last dim
    ValueId y = c.Emit(kLinear, {x, c.Unsqueeze(w, 0)});
    if (!c.ok()) return {y};
    Dims dims = c.DimsOf(y);
    dims.pop_back();
    y = c.Reshape(y, std::move(dims));
    return {bias == ir::kNoValue ? y : c.Binary(PwOp::kAdd, c.Of(y), c.Of(bias))};
  }
  if (bias == ir::kNoValue) return {c.Emit(kLinear, {x, w})};
  return {c.Emit(kLinear, {x, w, bias})};
}

std::vector<ValueId> Mm(AtenCall& c) {
  ValueId a = c.Tensor("self"), b = c.Tensor("mat2");
  return {c.Emit(kLinear, {a, c.Transpose(b, 0, 1)})};
}

// beta * self + alpha * (mat1 @ mat2)
std::vector<ValueId> Addmm(AtenCall& c) {
  ValueId bias = c.Tensor("self"), a = c.Tensor("mat1"), b = c.Tensor("mat2");
  AtenCall::Operand beta = c.Given("beta") ? c.Arg("beta") : c.Number(1.0);
  AtenCall::Operand alpha = c.Given("alpha") ? c.Arg("alpha") : c.Number(1.0);
  auto is_one = [](const AtenCall::Operand& o) {
    return o.integer ? o.integer.is_int(1) : o.number == 1;
  };
  ValueId w = c.Transpose(b, 0, 1);
  if (!c.ok()) return {a};
  if (is_one(beta) && is_one(alpha) && c.Rank(bias) == 1 && c.DimOf(bias, 0) == c.DimOf(w, 0))
    return {c.Emit(kLinear, {a, w, bias})};
  ValueId y = c.Emit(kLinear, {a, w});
  if (!is_one(alpha)) y = c.Binary(PwOp::kMul, c.Of(y), alpha);
  if (!is_one(beta)) bias = c.Binary(PwOp::kMul, c.Of(bias), beta);
  return {c.Binary(PwOp::kAdd, c.Of(bias), c.Of(y))};
}

const AtenForm kForms[] = {
    {"aten.linear.default", Linear},
    {"aten.mm.default", Mm},
    {"aten.addmm.default", Addmm},
};

}  // namespace

const ir::OpDef kLinear = {
    .name = "linear", .infer = Infer, .packed_input = 1, .reads_quantised = true, .cost = CostOf};
LS_DEFINE_FORMS(Linear, kForms)

}  // namespace liveshape::ops
