// Reshape, permute, slice, expand: the same elements seen through other dims and strides.
#include <algorithm>

#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

using ir::Layout;

Types InferReshape(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(Dims sizes, NeedAttr<Dims>(c, "sizes"));
  Expr before = sym::Product(c.table, c.in(0).dims), after = sym::Product(c.table, sizes);
  LS_RETURN_IF_ERROR(c.RequireEqual(before, after, [&] {
    return fmt::format("cannot view {} elements as {}", sym::ToString(before),
                       sym::ToString(after));
  }));
  return std::vector<TensorType>{{c.in(0).dtype, std::move(sizes)}};
}

// A run of input dims that lie densely behind each other is one axis of `extent` elements `stride` apart.
struct Run { Expr extent, stride; };

std::vector<Run> DenseRuns(sym::Table& table, const Dims& dims, const Dims& strides) {
  std::vector<Run> runs;  // innermost first
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].is_int(1)) continue;  // its stride says nothing
    if (!runs.empty() && strides[i] == runs.back().extent * runs.back().stride)
      runs.back().extent = runs.back().extent * dims[i];
    else
      runs.push_back({dims[i], strides[i]});
  }
  return runs;
}

// Output dims are cut from the dense runs, innermost first. A run must be used up exactly; whether it
// is, is a question of polynomial identity, so the answer holds at every live shape.
std::optional<Layout> ViewReshape(const InferContext& c, const TensorType& out, const Layout& in) {
  if (ir::IsContiguous(in, c.in(0).dims)) {
    Layout dense = ir::ContiguousLayout(c.table, out.dims);
    dense.offset = in.offset;
    return dense;
  }
  const std::vector<Run> runs = DenseRuns(c.table, c.in(0).dims, in.strides);
  Layout layout{Dims(out.dims.size(), c.table.Int(0)), in.offset};
  size_t run = 0;
  Expr used = c.table.Int(1);
  for (size_t i = out.dims.size(); i-- > 0;) {
    if (out.dims[i].is_int(1)) continue;
    if (run == runs.size()) return std::nullopt;
    layout.strides[i] = used * runs[run].stride;
    used = used * out.dims[i];
    if (used == runs[run].extent) {
      ++run;
      used = c.table.Int(1);
    }
  }
  if (run != runs.size()) return std::nullopt;
  return layout;
}

Types InferPermute(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(std::vector<int64_t> perm, NeedAttr<std::vector<int64_t>>(c, "perm"));
  std::vector<int64_t> sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() != c.in(0).dims.size())
    return InvalidArgument("perm has {} dims, the input {}", perm.size(), c.in(0).dims.size());
  for (size_t i = 0; i < sorted.size(); ++i)
    if (sorted[i] != static_cast<int64_t>(i)) return InvalidArgument("perm is not a permutation");
  Dims dims;
  for (int64_t axis : perm) dims.push_back(c.in(0).dims[static_cast<size_t>(axis)]);
  return std::vector<TensorType>{{c.in(0).dtype, std::move(dims)}};
}

std::optional<Layout> ViewPermute(const InferContext& c, const TensorType&, const Layout& in) {
  Layout layout{{}, in.offset};
  for (int64_t axis : c.node.Ints("perm"))
    layout.strides.push_back(in.strides[static_cast<size_t>(axis)]);
  return layout;
}

Types InferSlice(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(int64_t dim, NeedAxis(c, "dim", c.in(0).dims.size()));
  LS_ASSIGN_OR_RETURN(int64_t step, NeedAttr<int64_t>(c, "step"));
  LS_ASSIGN_OR_RETURN(Expr start, NeedExpr(c, "start"));
  LS_ASSIGN_OR_RETURN(Expr length, NeedExpr(c, "length"));
  if (step < 1) return InvalidArgument("step {} must be positive", step);
  Dims dims = c.in(0).dims;
  Expr& size = dims[static_cast<size_t>(dim)];
  const Expr end = start + (length - 1) * step + 1;  // behind the last element
  const auto outside = [&] {
    return fmt::format("{} elements from {}, {} apart, do not lie inside size {}",
                       sym::ToString(length), sym::ToString(start), step, sym::ToString(size));
  };
  LS_RETURN_IF_ERROR(c.Require(sym::Ge(start, c.table.Int(0)), outside));
  LS_RETURN_IF_ERROR(c.Require(sym::Le(end, size), outside));
  size = length;
  return std::vector<TensorType>{{c.in(0).dtype, std::move(dims)}};
}

std::optional<Layout> ViewSlice(const InferContext& c, const TensorType&, const Layout& in) {
  Layout layout = in;
  Expr& stride = layout.strides[static_cast<size_t>(c.node.Int("dim"))];
  layout.offset = layout.offset + c.node.Exprs("start")[0] * stride;
  stride = stride * c.node.Int("step");
  return layout;
}

Types InferExpand(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(Dims sizes, NeedAttr<Dims>(c, "sizes"));
  const Dims& in = c.in(0).dims;
  if (sizes.size() < in.size()) return InvalidArgument("expand cannot drop dims");
  const size_t lead = sizes.size() - in.size();
  for (size_t i = 0; i < in.size(); ++i)
    LS_RETURN_IF_ERROR(c.Require(ir::CanExpand(in[i], sizes[lead + i]), [&] {
      return fmt::format("size {} cannot expand to {}", sym::ToString(in[i]),
                         sym::ToString(sizes[lead + i]));
    }));
  return std::vector<TensorType>{{c.in(0).dtype, std::move(sizes)}};
}

std::optional<Layout> ViewExpand(const InferContext& c, const TensorType& out, const Layout& in) {
  const Dims& dims = c.in(0).dims;
  const size_t lead = out.dims.size() - dims.size();
  Layout layout{Dims(out.dims.size(), c.table.Int(0)), in.offset};
  for (size_t i = 0; i < dims.size(); ++i)
    if (!ir::Broadcasts(dims[i]) || dims[i] == out.dims[lead + i])
      layout.strides[lead + i] = in.strides[i];
  return layout;
}

}  // namespace

const ir::OpDef kReshape = {.name = "reshape", .infer = InferReshape, .view = ViewReshape};
const ir::OpDef kPermute = {.name = "permute", .infer = InferPermute, .view = ViewPermute};
const ir::OpDef kSlice = {.name = "slice", .infer = InferSlice, .view = ViewSlice};
const ir::OpDef kExpand = {.name = "expand", .infer = InferExpand, .view = ViewExpand};

}  // namespace liveshape::ops
