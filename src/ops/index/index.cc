#include "ops/index/index.h"

#include <set>

#include "ops/forms.h"
#include "ops/nonzero/nonzero.h"
#include "ops/ops.h"

namespace liveshape::ops {

Result<Dims> IndexedDims(const InferContext& c, const Dims& x, size_t first_index) {
  LS_ASSIGN_OR_RETURN(std::vector<int64_t> axes, NeedAttr<std::vector<int64_t>>(c, "axes"));
  if (c.node.Has("wrap")) LS_RETURN_IF_ERROR(NeedAttr<int64_t>(c, "wrap").status());
  if (axes.empty() || c.inputs.size() != first_index + axes.size())
    return InvalidArgument("{} axes for {} inputs", axes.size(), c.inputs.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < 0 || axes[i] >= static_cast<int64_t>(x.size()) || (i && axes[i] <= axes[i - 1]))
      return InvalidArgument("axes must ascend inside rank {}", x.size());
    if (!c.has(first_index + i)) return InvalidArgument("index {} is missing", i);
    const TensorType& index = c.in(first_index + i);
    if (index.dtype != DType::kI64 && index.dtype != DType::kI32)
      return InvalidArgument("index {} must be i64 or i32, is {}", i, Name(index.dtype));
    LS_RETURN_IF_ERROR(c.RequireEqual(index.dims, c.in(first_index).dims,
                                      [] { return "indices must have equal dims"; }));
  }
  Dims dims;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end()) dims.push_back(x[i]);
  const Dims& index = c.in(first_index).dims;
  dims.insert(dims.end() - static_cast<std::ptrdiff_t>(DimsBehindIndices(axes, x.size())),
              index.begin(), index.end());
  return dims;
}

size_t DimsBehindIndices(const std::vector<int64_t>& axes, size_t rank) {
  const auto span = static_cast<size_t>(axes.back() - axes.front() + 1);
  return span == axes.size() ? rank - 1 - static_cast<size_t>(axes.back()) : rank - axes.size();
}

IndexArgs ReadIndices(AtenCall& c, ValueId x, const std::vector<ValueId>& indices,
                      const Dims& exported) {
  IndexArgs args;
  int64_t axis = 0;
  bool masked = false;
  for (ValueId index : indices) {
    const bool mask = index != ir::kNoValue && IsMask(c, index);
    if (mask && std::exchange(masked, true)) c.Fail(Unsupported("two masks in one index"));
    if (mask && c.Rank(index) == 0) c.Fail(Unsupported("an index by a 0-d mask"));
    for (int64_t left = mask ? c.Rank(index) : 1; left > 0; --left, ++axis)
      if (index != ir::kNoValue) args.axes.push_back(axis);
  }
  if (args.axes.empty()) c.Fail(InvalidArgument("no index tensor given"));
  if (axis > c.Rank(x)) c.Fail(InvalidArgument("more indices than dims"));
  if (!c.ok()) return args;
  // The positions of true elements are one dim, the last of those that the indices give.
  const size_t behind = DimsBehindIndices(args.axes, c.DimsOf(x).size());
  const Expr mask_size = behind < exported.size() ? exported[exported.size() - 1 - behind] : Expr();
  if (masked && !mask_size)
    c.Fail(
        Unsupported("the export has no name for the number of true elements of the mask: "
                    "index by mask.nonzero() instead, whose size has one"));
  Dims dims;
  const auto take = [&](ValueId index) {
    args.tensors.push_back(index);
    if (c.ok()) dims = c.Broadcast(dims, c.DimsOf(index));
  };
  for (ValueId index : indices) {
    if (index == ir::kNoValue) continue;
    if (IsMask(c, index))
      for (ValueId column : PositionsByDim(c, index, mask_size)) take(column);
    else
      take(c.TypeOf(index) == DType::kI32 ? index : c.Cast(index, DType::kI64));
  }
  for (ValueId& t : args.tensors) t = c.Expand(t, dims);
  return args;
}

bool IsMask(const AtenCall& c, ValueId index) {
  return c.TypeOf(index) == DType::kBool || c.TypeOf(index) == DType::kU8;
}

IndexArgs AlongDim(AtenCall& c, ValueId index, int64_t dim) {
  IndexArgs args;
  args.wrap = false;
  for (int64_t d = 0; d < c.Rank(index); ++d) {
    args.axes.push_back(d);
    ir::PointwiseProgram iota;
    iota.code.push_back({.op = PwOp::kIota, .dtype = DType::kI64, .imm = d});
    args.tensors.push_back(
        d == dim
            ? index
            : c.Emit(kPointwise, {}, {{"program", std::move(iota)}, {"dims", c.DimsOf(index)}}));
  }
  return args;
}

namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 2, SIZE_MAX));
  LS_ASSIGN_OR_RETURN(Dims dims, IndexedDims(c, c.in(0).dims, 1));
  return std::vector<TensorType>{{c.in(0).dtype, std::move(dims)}};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  return {.reads = {sym::Product(c.table, out.dims)}};
}

ValueId EmitIndex(AtenCall& c, ValueId x, IndexArgs args) {
  std::vector<ValueId> inputs = {x};
  inputs.insert(inputs.end(), args.tensors.begin(), args.tensors.end());
  ir::Attrs attrs = {{"axes", std::move(args.axes)}};
  if (!args.wrap) attrs.emplace_back("wrap", int64_t{0});
  return c.Emit(kIndex, std::move(inputs), std::move(attrs));
}

std::vector<ValueId> Index(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const Dims* exported = c.ExportedDims(0);
  return {EmitIndex(c, x, ReadIndices(c, x, c.Tensors("indices"), exported ? *exported : Dims()))};
}

std::vector<ValueId> IndexSelect(AtenCall& c) {
  ValueId x = c.Tensor("self"), index = c.Tensor("index");
  const int64_t rank = c.Rank(x), dim = c.Axis("dim", rank);
  if (rank == 0) c.Fail(Unsupported("index_select of a 0-d tensor"));
  if (c.ok() && c.Rank(index) == 0) index = c.Unsqueeze(index, 0);
  return {EmitIndex(c, x, {{dim}, {index}, /*wrap=*/false})};
}

std::vector<ValueId> Gather(AtenCall& c) {
  ValueId x = c.Tensor("self"), index = c.Tensor("index");
  c.Ignore({"sparse_grad"});
  const int64_t rank = c.Rank(x), dim = c.Axis("dim", rank);
  if (rank == 0 || c.Rank(index) != rank)
    c.Fail(Unsupported("gather needs two tensors of one rank >= 1"));
  if (!c.ok()) return {x};
  return {EmitIndex(c, x, AlongDim(c, index, dim))};
}

std::vector<ValueId> Flip(AtenCall& c) {
  ValueId x = c.Tensor("self");
  std::set<int64_t> seen;
  for (int64_t d : c.IntsOr("dims", {})) {
    const int64_t dim = c.WrapAxis(d, c.Rank(x));
    if (!seen.insert(dim).second) c.Fail(InvalidArgument("dim {} is named twice", d));
    if (!c.ok() || c.Rank(x) == 0) break;
    x = Backwards(c, x, dim);
  }
  return {x};
}

const AtenForm kForms[] = {
    {"aten.flip.default", Flip},
    {"aten.gather.default", Gather},
    {"aten.index.Tensor", Index},
    {"aten.index_select.default", IndexSelect},
};

}  // namespace

ValueId Backwards(AtenCall& c, ValueId x, int64_t dim) {
  const Expr size = c.DimOf(x, dim);
  ir::PointwiseProgram backwards;
  backwards.scalars = {size - 1};
  backwards.code = {{.op = PwOp::kScalar, .dtype = DType::kI64, .imm = 0},
                    {.op = PwOp::kIota, .dtype = DType::kI64, .imm = 0},
                    {.op = PwOp::kSub, .dtype = DType::kI64, .a = 0, .b = 1}};
  ValueId index = c.Emit(kPointwise, {}, {{"program", std::move(backwards)}, {"dims", Dims{size}}});
  return EmitIndex(c, x, {{dim}, {index}});
}

const ir::OpDef kIndex = {.name = "index", .infer = Infer, .cost = CostOf};
LS_DEFINE_FORMS(Index, kForms)

}  // namespace liveshape::ops
