#include <cmath>

#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 3, 5));
  const TensorType &q = c.in(0), &k = c.in(1), &v = c.in(2);
  for (size_t i : {0, 1, 2}) {
    LS_RETURN_IF_ERROR(NeedFloat(c, i));
    if (c.in(i).dims.size() != 4) return InvalidArgument("input {} must have rank 4", i);
    if (c.in(i).dtype != q.dtype) return InvalidArgument("q, k and v must have one dtype");
  }
  LS_RETURN_IF_ERROR(NeedAttr<double>(c, "scale").status());
  LS_ASSIGN_OR_RETURN(std::string masked, NeedAttr<std::string>(c, "all_masked"));
  if (masked != "zero" && masked != "mean" && masked != "nan")
    return InvalidArgument("all_masked = `{}`", masked);
  if (c.node.Has("limit")) LS_RETURN_IF_ERROR(NeedExpr(c, "limit").status());
  if (c.node.Has("limit") && c.has(4))
    return InvalidArgument("limit and row_limits exclude each other");
  const auto misfit = [&] {
    return fmt::format("q {}, k {} and v {} do not fit", ir::ToString(q), ir::ToString(k),
                       ir::ToString(v));
  };
  LS_RETURN_IF_ERROR(c.RequireEqual(k.dims, {q.dims[0], k.dims[1], k.dims[2], q.dims[3]}, misfit));
  LS_RETURN_IF_ERROR(c.RequireEqual(v.dims, {q.dims[0], k.dims[1], k.dims[2], v.dims[3]}, misfit));
  // No heads at all are as many as no groups, though 0 divides nothing.
  if (k.dims[1] != q.dims[1] && c.table.Divides(k.dims[1], q.dims[1]) != sym::Tri::kYes)
    return InvalidArgument("{} query heads are not a multiple of {} key heads",
                           sym::ToString(q.dims[1]), sym::ToString(k.dims[1]));
  if (c.has(3)) {
    const TensorType& mask = c.in(3);
    if (mask.dtype != DType::kBool && mask.dtype != q.dtype)
      return InvalidArgument("mask must be bool or {}, is {}", Name(q.dtype), Name(mask.dtype));
    LS_RETURN_IF_ERROR(c.RequireEqual(mask.dims, {q.dims[0], q.dims[1], q.dims[2], k.dims[2]}, [&] {
      return fmt::format("mask {} does not fit", ir::ToString(mask));
    }));
  }
  if (c.has(4)) {
    const auto wrong = [] { return "row_limits must be i64 [B, H, S]"; };
    if (c.in(4).dtype != DType::kI64) return InvalidArgument("{}", wrong());
    LS_RETURN_IF_ERROR(c.RequireEqual(c.in(4).dims, {q.dims[0], q.dims[1], q.dims[2]}, wrong));
  }
  return std::vector<TensorType>{{q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}}};
}

// FLOPs as torch counts them, over all T keys. A limit hides keys: row i needs limit + i of them, and the last
// row's are all that must be read.
ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  const Dims &q = c.in(0).dims, &k = c.in(1).dims;
  const Expr heads = q[0] * q[1], rows = q[2], keys = k[2], depth = q[3] + out.dims[3];
  ir::Cost cost{.flops = 2 * heads * rows * keys * depth};
  if (!c.node.Has("limit")) return cost;
  const Expr zero = c.table.Int(0), limit = c.node.Exprs("limit")[0];
  const Expr visible = rows * limit + FloorDiv(rows * (rows - 1), c.table.Int(2));
  cost.needed = Min(cost.flops, 2 * heads * Max(zero, visible) * depth);
  const Expr read = k[0] * k[1] * Min(keys, Max(zero, limit + rows - 1));
  cost.reads = {{}, read * k[3], read * out.dims[3]};
  return cost;
}

// [S, D] or [B, S, D] -> [1, 1, S, D] or [B, 1, S, D]; leading dims beyond 4 are merged into the first.
ValueId ToRank4(AtenCall& c, ValueId x) {
  Dims d = c.DimsOf(x);
  if (!c.ok()) return x;
  if (d.size() == 3) d.insert(d.begin() + 1, c.table().Int(1));
  while (d.size() < 4) d.insert(d.begin(), c.table().Int(1));
  while (d.size() > 4) {
    d[1] = d[0] * d[1];
    d.erase(d.begin());
  }
  return c.Reshape(x, std::move(d));
}

// All dims but the last two, as those of products do.
void Broadcast(AtenCall& c, std::initializer_list<ValueId*> matrices) {
  Dims leading;
  for (const ValueId* x : matrices)
    leading = c.Broadcast(leading, Dims(c.DimsOf(*x).begin(), c.DimsOf(*x).end() - 2));
  for (ValueId* x : matrices) {
    Dims dims = leading;
    dims.insert(dims.end(), c.DimsOf(*x).end() - 2, c.DimsOf(*x).end());
    *x = c.Expand(*x, dims);
  }
}

std::vector<ValueId> Sdpa(AtenCall& c) {
  ValueId q = c.Tensor("query"), k = c.Tensor("key"), v = c.Tensor("value");
  ValueId mask = c.OptionalTensor("attn_mask");
  const bool causal = c.BoolOr("is_causal", false);
  const bool grouped = c.BoolOr("enable_gqa", false);
  if (c.NumberOr("dropout_p", 0) != 0) c.Fail(Unsupported("dropout in inference"));
  for (ValueId x : {q, k, v})
    if (c.ok() && c.Rank(x) < 2) c.Fail(InvalidArgument("attention needs rank 2 or more"));
  if (!c.ok()) return {q};
  if (!grouped) Broadcast(c, {&q, &k, &v});
  if (!c.ok()) return {q};
  Dims out = c.DimsOf(q);
  if (out.size() > 4 && mask != ir::kNoValue) c.Fail(Unsupported("a mask on rank {}", out.size()));
  if (!out.back().is_int())
    c.Fail(Unsupported("a dynamic head size `{}`", sym::ToString(out.back())));
  out.back() = c.DimsOf(v).back();
  q = ToRank4(c, q), k = ToRank4(c, k), v = ToRank4(c, v);
  if (!c.ok()) return {q};
  const double scale =
      c.NumberOr("scale", 1 / std::sqrt(static_cast<double>(c.DimsOf(q)[3].value())));
  ir::Attrs attrs = {{"scale", scale}, {"all_masked", std::string("zero")}};
  // torch aligns the triangle to the top left: row i sees the keys 0..i.
  if (causal) attrs.push_back({"limit", Dims{c.table().Int(1)}});
  std::vector<ValueId> inputs = {q, k, v};
  if (mask != ir::kNoValue) {
    if (c.Rank(mask) == 3 && out.size() == 3) mask = c.Unsqueeze(mask, 1);
    if (c.TypeOf(mask) != DType::kBool) mask = c.Cast(mask, c.TypeOf(q));
    const Dims &dq = c.DimsOf(q), &dk = c.DimsOf(k);
    inputs.push_back(c.Expand(mask, {dq[0], dq[1], dq[2], dk[2]}));
  }
  return {c.Reshape(c.Emit(kAttention, std::move(inputs), std::move(attrs)), std::move(out))};
}

const AtenForm kForms[] = {{"aten.scaled_dot_product_attention.default", Sdpa}};

}  // namespace

const ir::OpDef kAttention = {.name = "attention", .infer = Infer, .cost = CostOf};
LS_DEFINE_FORMS(Attention, kForms)

}  // namespace liveshape::ops
