// Batched products of two activations.
#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 2, 2));
  const TensorType &a = c.in(0), &b = c.in(1);
  const size_t rank = a.dims.size();
  if (rank < 2 || b.dims.size() != rank) return InvalidArgument("operands must have one rank >= 2");
  if (a.dtype != b.dtype)
    return InvalidArgument("operands are {} and {}", Name(a.dtype), Name(b.dtype));
  for (size_t i = 0; i + 2 < rank; ++i)
    LS_RETURN_IF_ERROR(c.RequireEqual(a.dims[i], b.dims[i], [&] {
      return fmt::format("batch dims {} and {} differ", sym::ToString(a.dims[i]),
                         sym::ToString(b.dims[i]));
    }));
  LS_RETURN_IF_ERROR(c.RequireEqual(a.dims[rank - 1], b.dims[rank - 2], [&] {
    return fmt::format("{} columns times {} rows", sym::ToString(a.dims[rank - 1]),
                       sym::ToString(b.dims[rank - 2]));
  }));
  Dims dims = a.dims;
  dims[rank - 1] = b.dims[rank - 1];
  return std::vector<TensorType>{{a.dtype, std::move(dims)}};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  return {.flops = 2 * sym::Product(c.table, out.dims) * c.in(0).dims.back()};
}

std::vector<ValueId> Matmul(AtenCall& c) {
  ValueId a = c.Tensor("self"), b = c.Tensor(c.Given("other") ? "other" : "mat2");
  if (!c.ok()) return {a};
  const int64_t rank_a = c.Rank(a), rank_b = c.Rank(b);
  if (rank_a == 0 || rank_b == 0) c.Fail(InvalidArgument("matmul of a 0-d tensor"));
  if (!c.ok()) return {a};
  if (rank_a == 1) a = c.Unsqueeze(a, 0);
  if (rank_b == 1) b = c.Unsqueeze(b, 1);
  ValueId y;
  if (c.Rank(b) == 2) {
    y = c.Emit(kLinear, {a, c.Transpose(b, 0, 1)});
  } else {
    Dims da = c.DimsOf(a), db = c.DimsOf(b);
    Dims batch = c.Broadcast(Dims(da.begin(), da.end() - 2), Dims(db.begin(), db.end() - 2));
    Dims ea = batch, eb = batch;
    ea.insert(ea.end(), da.end() - 2, da.end());
    eb.insert(eb.end(), db.end() - 2, db.end());
    y = c.Emit(kMatmul, {c.Expand(a, ea), c.Expand(b, eb)});
  }
  if (!c.ok() || (rank_a > 1 && rank_b > 1)) return {y};
  Dims dims = c.DimsOf(y);
  if (rank_b == 1) dims.erase(dims.end() - 1);
  if (rank_a == 1) dims.erase(dims.end() - (rank_b == 1 ? 1 : 2));
  return {c.Reshape(y, std::move(dims))};
}

std::vector<ValueId> Baddbmm(AtenCall& c) {
  ValueId self = c.Tensor("self"), a = c.Tensor("batch1"), b = c.Tensor("batch2");
  const double beta = c.NumberOr("beta", 1), alpha = c.NumberOr("alpha", 1);
  ValueId y = c.Emit(kMatmul, {a, b});
  if (alpha != 1) y = c.Binary(PwOp::kMul, c.Of(y), c.Number(alpha));
  if (beta == 0) return {y};
  if (beta != 1) self = c.Binary(PwOp::kMul, c.Of(self), c.Number(beta));
  return {c.Binary(PwOp::kAdd, c.Of(self), c.Of(y))};
}

const AtenForm kForms[] = {
    {"aten.matmul.default", Matmul},
    {"aten.bmm.default", Matmul},
    {"aten.baddbmm.default", Baddbmm},
};

}  // namespace

const ir::OpDef kMatmul = {.name = "matmul", .infer = Infer, .cost = CostOf};
LS_DEFINE_FORMS(Matmul, kForms)

}  // namespace liveshape::ops
