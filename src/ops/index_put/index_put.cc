#include "ops/forms.h"
#include "ops/index/index.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 3, SIZE_MAX));
  LS_RETURN_IF_ERROR(NeedAttr<int64_t>(c, "accumulate").status());
  LS_ASSIGN_OR_RETURN(Dims dims, IndexedDims(c, c.in(0).dims, 2));
  const auto misfit = [&] {
    return fmt::format("values are {}, should be {}", ir::ToString(c.in(1)),
                       ir::ToString(TensorType{c.in(0).dtype, dims}));
  };
  if (c.in(1).dtype != c.in(0).dtype) return InvalidArgument("{}", misfit());
  LS_RETURN_IF_ERROR(c.RequireEqual(c.in(1).dims, dims, misfit));
  return std::vector<TensorType>{c.in(0)};
}

ir::Cost CostOf(const InferContext& c, const TensorType& out) {
  const Expr changed = sym::Product(c.table, c.in(1).dims);
  const bool adds = c.node.Int("accumulate") != 0;
  return {.reads = {adds ? changed : c.table.Int(0)}, .written_in_place = changed};
}

ValueId EmitPut(AtenCall& c, ValueId base, ValueId values, IndexArgs args, bool accumulate) {
  if (!c.ok()) return base;
  // The dims that values must have are those of the read x[indices]: ask the one rule for them.
  ir::Node probe{.op = &kIndexPut, .attrs = {{"axes", args.axes}}};
  std::vector<const ir::TensorType*> types = {&c.Type(base), &c.Type(values)};
  for (ValueId t : args.tensors) types.push_back(&c.Type(t));
  auto dims = IndexedDims({c.table(), probe, types}, c.DimsOf(base), 2);
  if (!dims.ok()) {
    c.Fail(std::move(dims).status());
    return base;
  }
  std::vector<ValueId> inputs = {base, c.Expand(c.Cast(values, c.TypeOf(base)), *dims)};
  inputs.insert(inputs.end(), args.tensors.begin(), args.tensors.end());
  ir::Attrs attrs = {{"axes", std::move(args.axes)}, {"accumulate", int64_t{accumulate}}};
  if (!args.wrap) attrs.emplace_back("wrap", int64_t{0});
  return c.Emit(kIndexPut, std::move(inputs), std::move(attrs));
}

// base[:, mask] = values, with `behind` dims of base behind those of the mask. Values that are the same for every
// true element need no positions: the write is a choice.
std::vector<ValueId> MaskedPut(AtenCall& c, ValueId base, ValueId mask, ValueId values,
                               int64_t behind) {
  if (const int64_t at = c.Rank(values) - 1 - behind; at >= 0) {  // one dim for all of the mask's
    Dims dims = c.DimsOf(values);
    if (c.Rank(mask) == 0) dims.erase(dims.begin() + at);
    for (int64_t d = 1; d < c.Rank(mask); ++d) dims.insert(dims.begin() + at, c.table().Int(1));
    values = c.Reshape(values, std::move(dims));
  }
  for (int64_t d = 0; d < behind; ++d) mask = c.Unsqueeze(mask, c.Rank(mask));
  const DType dtype = c.TypeOf(base);
  mask = c.Cast(mask, DType::kBool);
  return {c.Pointwise(PwOp::kWhere, {c.Of(mask), c.Of(c.Cast(values, dtype)), c.Of(base)}, dtype,
                      dtype)};
}

std::vector<ValueId> IndexPut(AtenCall& c) {
  ValueId base = c.Tensor("self"), values = c.Tensor("values");
  const std::vector<ValueId> indices = c.Tensors("indices");
  const bool accumulate = c.BoolOr("accumulate", false);
  c.Ignore({"unsafe"});
  if (!c.ok()) return {base};
  const auto given = [](ValueId index) { return index != ir::kNoValue; };
  const auto only = std::ranges::find_if(indices, given);
  if (!accumulate && std::ranges::count_if(indices, given) == 1 && IsMask(c, *only)) {
    const int64_t behind = c.Rank(base) - (only - indices.begin()) - c.Rank(*only);
    const int64_t at = c.Rank(values) - 1 - behind;
    if (behind >= 0 && (at < 0 || ir::Broadcasts(c.DimOf(values, at))))
      return MaskedPut(c, base, *only, values, behind);
  }
  // One value for each true element of a mask: there are as many as the values say.
  IndexArgs args = ReadIndices(c, base, indices, c.DimsOf(values));
  return {EmitPut(c, base, values, std::move(args), accumulate)};
}

std::vector<ValueId> IndexCopy(AtenCall& c) {
  ValueId base = c.Tensor("self"), index = c.Tensor("index"), source = c.Tensor("source");
  const int64_t rank = c.Rank(base), dim = c.Axis("dim", rank);
  if (rank == 0) c.Fail(Unsupported("index_copy into a 0-d tensor"));
  if (c.ok() && c.Rank(index) == 0) index = c.Unsqueeze(index, 0);
  return {EmitPut(c, base, source, {{dim}, {index}, /*wrap=*/false}, false)};
}

std::vector<ValueId> IndexAdd(AtenCall& c) {
  ValueId base = c.Tensor("self"), index = c.Tensor("index");
  AtenCall::Operand source = c.Of(c.Tensor("source"));
  const int64_t rank = c.Rank(base), dim = c.Axis("dim", rank);
  if (rank == 0) c.Fail(Unsupported("index_add into a 0-d tensor"));
  if (c.ok() && c.Rank(index) == 0) index = c.Unsqueeze(index, 0);
  if (c.Given("alpha")) source = c.Of(c.Binary(PwOp::kMul, source, c.Arg("alpha")));
  return {EmitPut(c, base, source.tensor, {{dim}, {index}, /*wrap=*/false}, true)};
}

// `src` is read where `index` is: its further elements are not used.
std::vector<ValueId> Scatter(AtenCall& c, bool accumulate) {
  ValueId base = c.Tensor("self"), index = c.Tensor("index");
  const int64_t rank = c.Rank(base), dim = c.Axis("dim", rank);
  if (rank == 0 || c.Rank(index) != rank)
    c.Fail(Unsupported("scatter needs tensors of one rank >= 1"));
  if (!c.ok()) return {base};
  ValueId values;
  if (c.Given("value")) {
    values = c.Filled({}, c.TypeOf(base), c.Arg("value"));
  } else {
    values = c.Tensor("src");
    for (int64_t d = 0; c.ok() && d < rank; ++d)
      values = c.Slice(values, d, c.table().Int(0), c.DimOf(index, d));
  }
  return {EmitPut(c, base, values, AlongDim(c, index, dim), accumulate)};
}

// Ones at the classes: as a write, so that a class outside the range fails the run, as torch does.
std::vector<ValueId> OneHot(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t classes = c.Int("num_classes");
  if (classes < 1)
    c.Fail(Unsupported("one_hot without num_classes: its size would be born from data"));
  if (!c.ok()) return {x};
  sym::Table& t = c.table();
  const Expr rows = sym::Product(t, c.DimsOf(x));
  Dims dims = c.DimsOf(x);
  dims.push_back(t.Int(classes));
  ValueId hot = EmitPut(c, c.FullInt({rows, t.Int(classes)}, DType::kI64, t.Int(0)),
                        c.FullInt({}, DType::kI64, t.Int(1)),
                        AlongDim(c, c.Reshape(x, {rows, t.Int(1)}), 1), /*accumulate=*/false);
  return {c.Reshape(hot, std::move(dims))};
}

// Only what is scatter_add: other reductions keep no order that kernels could keep.
std::vector<ValueId> ScatterReduce(AtenCall& c) {
  const std::string reduce = c.StringOr("reduce", "");
  if (reduce != "sum" || !c.BoolOr("include_self", true))
    c.Fail(Unsupported(
        "scatter_reduce with reduce=\"{}\"{}: only \"sum\" that includes self is served", reduce,
        c.BoolOr("include_self", true) ? "" : " and include_self=False"));
  return Scatter(c, /*accumulate=*/true);
}

std::vector<ValueId> ScatterWrite(AtenCall& c) { return Scatter(c, /*accumulate=*/false); }
std::vector<ValueId> ScatterAdd(AtenCall& c) { return Scatter(c, /*accumulate=*/true); }

const AtenForm kForms[] = {
    {"aten.scatter.src", ScatterWrite},           {"aten.scatter.value", ScatterWrite},
    {"aten.scatter_add.default", ScatterAdd},     {"aten.index_put.default", IndexPut},
    {"aten._unsafe_index_put.default", IndexPut}, {"aten.index_copy.default", IndexCopy},
    {"aten.index_add.default", IndexAdd},         {"aten.one_hot.default", OneHot},
    {"aten.scatter_reduce.two", ScatterReduce},
};

}  // namespace

const ir::OpDef kIndexPut = {
    .name = "index_put", .infer = Infer, .in_place_input = 0, .cost = CostOf};
LS_DEFINE_FORMS(IndexPut, kForms)

}  // namespace liveshape::ops
