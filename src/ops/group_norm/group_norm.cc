// Group norm and instance norm: a layer norm of each group's channels and pixels, then scale and shift by channel.
#include "ops/batch_norm/batch_norm.h"
#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

// x as rows of `length` elements, each to mean 0 and variance 1; weight and bias by channel.
ValueId Normalise(AtenCall& c, ValueId x, Expr rows, Expr length) {
  ValueId weight = c.OptionalTensor("weight"), bias = c.OptionalTensor("bias");
  const double eps = c.NumberOr("eps", 1e-5);
  c.Ignore({"momentum", "cudnn_enabled"});  // of training, and of a library
  if (!c.ok()) return ir::kNoValue;
  const Dims dims = c.DimsOf(x);
  const DType dtype = c.TypeOf(x);
  // Halves are computed in f32 and rounded once.
  const DType compute = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  ValueId y = c.Reshape(c.Cast(x, compute), {rows, length});
  y = c.Reshape(c.Emit(kLayerNorm, {y, ir::kNoValue, ir::kNoValue}, {{"eps", eps}}), dims);
  // [C] to [C, 1, ...]: along dim 1.
  Dims channel(dims.size() - 1, c.table().Int(1));
  channel[0] = dims[1];
  const auto by_channel = [&](ValueId v) { return c.Of(c.Reshape(c.Cast(v, compute), channel)); };
  if (weight != ir::kNoValue) y = c.Binary(PwOp::kMul, c.Of(y), by_channel(weight));
  if (bias != ir::kNoValue) y = c.Binary(PwOp::kAdd, c.Of(y), by_channel(bias));
  return c.Cast(y, dtype);
}

ValueId InGroups(AtenCall& c, ValueId x, int64_t groups) {
  if (c.ok() && c.Rank(x) < 2)
    c.Fail(InvalidArgument("group norm of a tensor of rank {}", c.Rank(x)));
  if (!c.ok()) return ir::kNoValue;
  const Dims& dims = c.DimsOf(x);
  if (groups < 1 || !dims[1].is_int() || dims[1].value() % groups != 0) {
    c.Fail(
        InvalidArgument("group norm of {} channels in {} groups", sym::ToString(dims[1]), groups));
    return ir::kNoValue;
  }
  const Expr pixels = sym::Product(c.table(), std::span(dims).subspan(2));
  return Normalise(c, x, dims[0] * groups, pixels * (dims[1].value() / groups));
}

std::vector<ValueId> GroupNorm(AtenCall& c) {
  ValueId x = c.Tensor("input");
  return {InGroups(c, x, c.Int("num_groups"))};
}

// Mean and reciprocal deviation are for the backward pass: given only if nobody reads them. The sizes repeat the input's.
std::vector<ValueId> NativeGroupNorm(AtenCall& c) {
  ValueId x = c.Tensor("input");
  c.Ignore({"N", "C", "HxW"});
  return {InGroups(c, x, c.Int("group")), ir::kNoValue, ir::kNoValue};
}

ValueId ByChannel(AtenCall& c, ValueId x) {
  if (c.ok() && c.Rank(x) < 2)
    c.Fail(InvalidArgument("instance norm of a tensor of rank {}", c.Rank(x)));
  if (!c.ok()) return ir::kNoValue;
  const Dims& dims = c.DimsOf(x);
  return Normalise(c, x, dims[0] * dims[1], sym::Product(c.table(), std::span(dims).subspan(2)));
}

std::vector<ValueId> InstanceNorm(AtenCall& c) {
  if (!c.BoolOr("use_input_stats", true)) return {NormByRunningStatistics(c)};
  if (c.Given("running_mean") || c.Given("running_var"))
    c.Fail(Unsupported("a norm that updates its running statistics: export model.eval()"));
  return {ByChannel(c, c.Tensor("input"))};
}

// A batch norm of a batch's own statistics; instance norm decomposes to one of a single image that has the channels
// of all, whose rows are a layer norm's.
std::vector<ValueId> NoStatistics(AtenCall& c) {
  ValueId x = c.Tensor("input");
  c.Ignore({"training"});
  const bool one_image = c.ok() && c.Rank(x) > 1 && c.DimOf(x, 0).is_int(1);
  return {one_image ? ByChannel(c, x) : NormByBatchStatistics(c), ir::kNoValue, ir::kNoValue};
}

const AtenForm kForms[] = {
    {"aten.group_norm.default", GroupNorm},
    {"aten.native_group_norm.default", NativeGroupNorm},
    {"aten.instance_norm.default", InstanceNorm},
    {"aten._native_batch_norm_legit.no_stats", NoStatistics},
};

}  // namespace

LS_DEFINE_FORMS(GroupNorm, kForms)

}  // namespace liveshape::ops
