// ATen's many names for a view.
#include "ops/aten.h"

#include "ops/forms.h"
#include "ops/ops.h"

namespace liveshape::ops {
namespace {

using Values = std::vector<ValueId>;

// torch wraps a negative index once and clamps to [0, size].
Expr ClampIndex(Expr index, Expr size) {
  sym::Table& t = size.table();
  const Expr zero = t.Int(0);
  Expr wrapped = sym::Select(sym::Lt(index, zero), index + size, index);
  return sym::Max(zero, sym::Min(wrapped, size));
}

struct SliceBounds {
  int64_t dim, step;
  Expr start, length;
};

SliceBounds ReadSlice(AtenCall& c, ValueId x) {
  SliceBounds b{c.AxisOr("dim", c.Rank(x), 0), c.IntOr("step", 1), {}, {}};
  if (c.Rank(x) == 0) c.Fail(InvalidArgument("slice of a 0-d tensor"));
  if (b.step < 1) c.Fail(Unsupported("slice step {} (torch allows positive steps only)", b.step));
  if (!c.ok()) return b;
  const Expr size = c.DimOf(x, b.dim);
  b.start = ClampIndex(c.SizeOr("start", c.table().Int(0)), size);
  Expr end = c.SizeOr("end", size);
  end = end.is_int(INT64_MAX) ? size : ClampIndex(end, size);
  b.length = sym::Max(c.table().Int(0), sym::CeilDiv(end - b.start, c.table().Int(b.step)));
  return b;
}

Values Slice(AtenCall& c) {
  ValueId x = c.Tensor("self");
  SliceBounds b = ReadSlice(c, x);
  return {c.ok() ? c.Slice(x, b.dim, b.start, b.length, b.step) : x};
}

// One element of a dim.
Expr ReadIndex(AtenCall& c, ValueId x, int64_t dim) {
  const Expr size = c.DimOf(x, dim);
  const Expr index = c.Size("index");
  return sym::Select(sym::Lt(index, c.table().Int(0)), index + size, index);
}

// narrow takes start and length as they are; outside is an error, not a clamp.
Values Narrow(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t dim = c.Axis("dim", c.Rank(x));
  const Expr length = c.Size("length"), start = c.Size("start");
  if (!c.ok() || c.Rank(x) == 0) return {x};
  sym::Table& t = c.table();
  const Expr size = c.DimOf(x, dim);
  return {c.Slice(x, dim, sym::Select(sym::Lt(start, t.Int(0)), start + size, start), length)};
}

// Each dim d repeated r times: [.., 1, d, ..] expanded to [.., r, d, ..] and merged. For repeat_interleave the
// new axis lies behind the dim instead of before it.
ValueId RepeatDims(AtenCall& c, ValueId x, const Dims& repeats, bool interleave) {
  Dims dims = c.DimsOf(x);
  while (dims.size() < repeats.size()) dims.insert(dims.begin(), c.table().Int(1));
  Dims split, expanded, merged;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Expr r = repeats[i], one = c.table().Int(1);
    for (bool axis : {!interleave, interleave}) {
      split.push_back(axis ? one : dims[i]);
      expanded.push_back(axis ? r : dims[i]);
    }
    merged.push_back(r * dims[i]);
  }
  return c.Reshape(c.Expand(c.Reshape(x, std::move(split)), expanded), std::move(merged));
}

Values Repeat(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Dims repeats = c.Sizes(c.Given("dims") ? "dims" : "repeats");
  while (repeats.size() < c.DimsOf(x).size()) repeats.insert(repeats.begin(), c.table().Int(1));
  return {c.ok() ? RepeatDims(c, x, repeats, false) : x};
}

Values RepeatInterleave(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const Expr times = c.Size("repeats");
  if (c.Given("output_size")) c.Ignore({"output_size"});
  if (c.ok() && !c.Given("dim")) x = c.Reshape(x, {sym::Product(c.table(), c.DimsOf(x))});
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  Dims repeats(c.DimsOf(x).size(), c.table().Int(1));
  if (!c.ok() || repeats.empty()) return {x};
  repeats[static_cast<size_t>(dim)] = times;
  return {RepeatDims(c, x, repeats, true)};
}

ValueId DropDim(AtenCall& c, ValueId x, int64_t dim) {
  if (!c.ok()) return x;
  Dims sizes = c.DimsOf(x);
  sizes.erase(sizes.begin() + dim);
  return c.Reshape(x, std::move(sizes));
}

Values Select(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  if (c.Rank(x) == 0) c.Fail(InvalidArgument("select of a 0-d tensor"));
  if (!c.ok()) return {x};
  return {DropDim(c, c.Slice(x, dim, ReadIndex(c, x, dim), c.table().Int(1)), dim)};
}

// -1 means "what is left". The quotient is taken where it is exact for all live shapes; where that
// cannot be proven (another size may be 0) the exporter's own size is kept.
Dims ResolveSizes(AtenCall& c, ValueId x, Dims sizes) {
  sym::Table& t = c.table();
  const Expr numel = sym::Product(t, c.DimsOf(x));
  Expr others = t.Int(1);
  int64_t open = -1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_int(-1))
      open = static_cast<int64_t>(i);
    else
      others = others * sizes[i];
  }
  if (open >= 0) {
    Expr& size = sizes[static_cast<size_t>(open)];
    const Dims* exported = c.ExportedDims(0);
    if (auto quotient = t.Quotient(numel, others))
      size = *quotient;
    else if (exported && exported->size() == sizes.size())
      size = (*exported)[static_cast<size_t>(open)];
    else
      size = sym::FloorDiv(numel, others);
  }
  return sizes;
}

Values View(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Dims sizes = c.Sizes(c.Given("size") ? "size" : "shape");
  return {c.ok() ? c.Reshape(x, ResolveSizes(c, x, std::move(sizes))) : x};
}

Values ViewAs(AtenCall& c) {
  ValueId x = c.Tensor("self"), other = c.Tensor("other");
  return {c.ok() ? c.Reshape(x, ResolveSizes(c, x, c.DimsOf(other))) : x};
}

Values Flatten(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  const int64_t start = c.AxisOr("start_dim", rank, 0), end = c.AxisOr("end_dim", rank, -1);
  if (!c.ok()) return {x};
  if (rank == 0) return {c.Reshape(x, {c.table().Int(1)})};
  Dims sizes;
  for (int64_t i = 0; i < rank; ++i) {
    Expr d = c.DimOf(x, i);
    if (i > start && i <= end)
      sizes.back() = sizes.back() * d;
    else
      sizes.push_back(d);
  }
  return {c.Reshape(x, std::move(sizes))};
}

Values Unflatten(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t dim = c.Axis("dim", c.Rank(x));
  Dims parts = c.Sizes("sizes");
  if (!c.ok()) return {x};
  Dims sizes = c.DimsOf(x);
  sizes.erase(sizes.begin() + dim);
  sizes.insert(sizes.begin() + dim, parts.begin(), parts.end());
  return {c.Reshape(x, ResolveSizes(c, x, std::move(sizes)))};
}

Values Unsqueeze(AtenCall& c) {
  ValueId x = c.Tensor("self");
  return {c.Unsqueeze(x, c.Axis("dim", c.Rank(x) + 1))};
}

// Rank is fixed: a dim that is 1 or 0 (Min(S, 1) of x[:1]) is dropped, as torch does at 1, and 0 is refused at bind. Any
// other would be dropped at the live value 1 and nowhere else, so that value is refused. What is always 0 stays.
Values Squeeze(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  std::vector<int64_t> dims;
  if (c.Given("dim")) {
    for (int64_t d : c.IntsOr("dim", {})) dims.push_back(c.WrapAxis(d, rank));
  } else {
    for (int64_t i = 0; i < rank; ++i) dims.push_back(i);
  }
  if (!c.ok() || rank == 0) return {x};
  Dims sizes;
  for (int64_t i = 0; i < rank; ++i) {
    const Expr d = c.DimOf(x, i);
    const bool named = std::find(dims.begin(), dims.end(), i) != dims.end();
    if (!named) {
      sizes.push_back(d);
      continue;
    }
    const Expr is_one = sym::Eq(d, c.table().Int(1));
    const bool drops = ir::Broadcasts(d) && !d.is_int(0);
    c.Require(drops ? is_one : sym::Not(is_one),
              fmt::format("squeeze would change the rank where {} is {}", sym::ToString(d),
                          drops ? 0 : 1));
    if (!drops) sizes.push_back(d);
  }
  return {c.Reshape(x, std::move(sizes))};
}

Values Expand(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Dims sizes = c.Sizes("size");
  c.Ignore({"implicit"});
  if (!c.ok()) return {x};
  const size_t lead = sizes.size() - c.DimsOf(x).size();
  for (size_t i = lead; i < sizes.size(); ++i)
    if (sizes[i].is_int(-1)) sizes[i] = c.DimsOf(x)[i - lead];
  return {c.Expand(x, sizes)};
}

Values ExpandAs(AtenCall& c) {
  ValueId x = c.Tensor("self");
  ValueId other = c.Tensor("other");
  return {c.ok() ? c.Expand(x, c.DimsOf(other)) : x};
}

Values Permute(AtenCall& c) {
  ValueId x = c.Tensor("self");
  std::vector<int64_t> perm;
  for (int64_t d : c.IntsOr("dims", {})) perm.push_back(c.WrapAxis(d, c.Rank(x)));
  return {c.ok() ? c.Permute(x, std::move(perm)) : x};
}

Values MoveDim(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  const std::vector<int64_t> from = c.IntsOr("source", {}), to = c.IntsOr("destination", {});
  if (from.size() != to.size()) c.Fail(InvalidArgument("as many sources as destinations"));
  std::vector<int64_t> perm(static_cast<size_t>(rank), -1);
  std::vector<bool> moved(static_cast<size_t>(rank), false);
  for (size_t i = 0; c.ok() && rank > 0 && i < from.size(); ++i) {
    const auto source = static_cast<size_t>(c.WrapAxis(from[i], rank));
    int64_t& place = perm[static_cast<size_t>(c.WrapAxis(to[i], rank))];
    if (place >= 0 || moved[source])
      c.Fail(InvalidArgument("dim {} or destination {} is named twice", from[i], to[i]));
    place = static_cast<int64_t>(source);
    moved[source] = true;
  }
  if (!c.ok()) return {x};
  int64_t next = 0;  // the others keep their order
  for (int64_t& p : perm) {
    if (p >= 0) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    p = next++;
  }
  return {c.Permute(x, std::move(perm))};
}

Values Transpose(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const bool axes = c.Given("axis0");  // as swapaxes names them
  const int64_t a = c.Axis(axes ? "axis0" : "dim0", c.Rank(x));
  return {c.Transpose(x, a, c.Axis(axes ? "axis1" : "dim1", c.Rank(x)))};
}

Values TransposeLast(AtenCall& c) {  // t, mT, numpy_T of a matrix
  ValueId x = c.Tensor("self");
  const int64_t rank = c.Rank(x);
  if (c.target() == "aten.numpy_T.default") {
    std::vector<int64_t> perm;
    for (int64_t i = rank; i-- > 0;) perm.push_back(i);
    return {c.Permute(x, std::move(perm))};
  }
  return {rank < 2 ? x : c.Transpose(x, rank - 2, rank - 1)};
}

Values Unbind(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  if (!c.ok()) return {};
  const Expr size = c.DimOf(x, dim);
  if (!size.is_int()) c.Fail(Unsupported("unbind of a dynamic size `{}`", sym::ToString(size)));
  if (!c.ok() || !c.Repeats(size.value(), "pieces")) return {};
  Values parts;
  for (int64_t i = 0; c.ok() && i < size.value(); ++i)
    parts.push_back(DropDim(c, c.Slice(x, dim, c.table().Int(i), c.table().Int(1)), dim));
  return parts;
}

Values SplitInto(AtenCall& c, ValueId x, int64_t dim, const Dims& lengths) {
  Values parts;
  Expr start = c.table().Int(0);
  for (Expr length : lengths) {
    parts.push_back(c.Slice(x, dim, start, length));
    start = start + length;
  }
  return parts;
}

Values SplitWithSizes(AtenCall& c) {
  ValueId x = c.Tensor("self");
  Dims lengths = c.Sizes("split_sizes");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  if (!c.ok() || c.Rank(x) == 0) return {};
  const Expr size = c.DimOf(x, dim);
  Expr total = c.table().Int(0);
  for (Expr length : lengths) total = total + length;
  c.Require(sym::Eq(total, size), fmt::format("the pieces have {} elements, not {}",
                                              sym::ToString(total), sym::ToString(size)));
  return SplitInto(c, x, dim, lengths);
}

// Pieces of `each`, the last one short; the count is fixed at export, so the size must be a constant or
// the piece must divide it symbolically.
Values SplitEvenly(AtenCall& c, ValueId x, int64_t dim, Expr each, int64_t count) {
  if (!c.Repeats(count, "pieces")) return {};
  const Expr size = c.DimOf(x, dim);
  Dims lengths;
  Expr rest = size;
  for (int64_t i = 0; i < count; ++i) {
    lengths.push_back(i + 1 == count ? rest : sym::Min(each, rest));
    rest = rest - lengths.back();
  }
  return SplitInto(c, x, dim, lengths);
}

Values Split(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  const Expr each = c.Size("split_size");
  if (!c.ok()) return {};
  // Of nothing there is one piece, of nothing.
  const Expr count = sym::Max(c.table().Int(1), sym::CeilDiv(c.DimOf(x, dim), each));
  if (!count.is_int())
    c.Fail(Unsupported("split into `{}` pieces: not a constant", sym::ToString(count)));
  if (!c.ok()) return {};
  return SplitEvenly(c, x, dim, each, count.value());
}

Values Chunk(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t chunks = c.Int("chunks"), dim = c.AxisOr("dim", c.Rank(x), 0);
  if (!c.ok() || chunks < 1) return {};
  const Expr size = c.DimOf(x, dim);
  const Expr each = sym::CeilDiv(size, c.table().Int(chunks));
  // torch makes fewer chunks where the size is small: legal only if the count is the same at every size.
  const Expr count = size.is_int() ? sym::CeilDiv(size, each) : c.table().Int(chunks);
  return SplitEvenly(c, x, dim, each, count.is_int() ? count.value() : chunks);
}

// As numpy: the first size % count parts are one longer.
Values TensorSplitSections(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const int64_t count = c.Int("sections"), dim = c.AxisOr("dim", c.Rank(x), 0);
  if (count < 1 || c.Rank(x) == 0)
    c.Fail(InvalidArgument("tensor_split of rank {} into {} parts", c.Rank(x), count));
  if (!c.Repeats(count, "pieces")) return {};
  sym::Table& t = c.table();
  const Expr size = c.DimOf(x, dim), parts = t.Int(count);
  const Expr each = sym::FloorDiv(size, parts), longer = sym::Mod(size, parts);
  Dims lengths;
  for (int64_t i = 0; i < count; ++i)
    lengths.push_back(each + sym::Min(t.Int(1), sym::Max(t.Int(0), longer - i)));
  return SplitInto(c, x, dim, lengths);
}

// Before, between and after the indices, each clamped as a slice's end is.
Values TensorSplitIndices(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const Dims indices = c.Sizes("indices");
  const int64_t dim = c.AxisOr("dim", c.Rank(x), 0);
  if (c.Rank(x) == 0) c.Fail(InvalidArgument("tensor_split of a 0-d tensor"));
  if (!c.ok()) return {};
  sym::Table& t = c.table();
  const Expr size = c.DimOf(x, dim), zero = t.Int(0);
  Values parts;
  Expr begin = zero;
  for (size_t i = 0; i <= indices.size(); ++i) {
    Expr end = size;
    if (i < indices.size()) {
      const bool from_end = t.Bounds(indices[i]).hi < 0;
      if (!from_end && t.Bounds(indices[i]).lo < 0)
        c.Fail(Unsupported("tensor_split at `{}`, which may be of either sign",
                           sym::ToString(indices[i])));
      end = sym::Min(size, sym::Max(zero, from_end ? size + indices[i] : indices[i]));
    }
    parts.push_back(c.Slice(x, dim, begin, sym::Max(zero, end - begin)));
    begin = end;
  }
  return parts;
}

// Tensor i varies along dim i and is repeated along the others; "xy" has the first two dims swapped.
Values Meshgrid(AtenCall& c) {
  const Values tensors = c.Tensors("tensors");
  const bool swapped = c.StringOr("indexing", "ij") == "xy" && tensors.size() > 1;
  const auto place = [&](size_t i) { return swapped && i < 2 ? 1 - i : i; };
  Dims sizes(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (c.Rank(tensors[i]) > 1)
      c.Fail(InvalidArgument("tensor {} has rank {}", i, c.Rank(tensors[i])));
    if (!c.ok()) return {};
    sizes[place(i)] = sym::Product(c.table(), c.DimsOf(tensors[i]));
  }
  Values grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims own(tensors.size(), c.table().Int(1));
    own[place(i)] = sizes[place(i)];
    grids.push_back(c.Expand(c.Reshape(tensors[i], std::move(own)), sizes));
  }
  return grids;
}

Values Same(AtenCall& c) {
  ValueId x = c.Tensor("self");
  c.Ignore({"memory_format"});
  return {x};
}

constexpr bool kAliases = true;

const AtenForm kForms[] = {
    {"aten.slice.Tensor", Slice, kAliases},
    {"aten.slice_copy.Tensor", Slice},
    {"aten.narrow.default", Narrow, kAliases},
    {"aten.repeat.default", Repeat},
    {"aten.tile.default", Repeat},
    {"aten.repeat_interleave.self_int", RepeatInterleave},
    {"aten.select.int", Select, kAliases},
    {"aten.select_copy.int", Select},
    {"aten.view.default", View, kAliases},
    {"aten.view_copy.default", View},
    {"aten.reshape.default", View, kAliases},
    {"aten._unsafe_view.default", View, kAliases},
    {"aten._reshape_alias.default", View, kAliases},
    {"aten.flatten.using_ints", Flatten, kAliases},
    {"aten.ravel.default", Flatten, kAliases},
    {"aten.view_as.default", ViewAs, kAliases},
    {"aten.reshape_as.default", ViewAs, kAliases},
    {"aten.unflatten.int", Unflatten, kAliases},
    {"aten.unsqueeze.default", Unsqueeze, kAliases},
    {"aten.unsqueeze_copy.default", Unsqueeze},
    {"aten.squeeze.default", Squeeze, kAliases},
    {"aten.squeeze.dim", Squeeze, kAliases},
    {"aten.squeeze.dims", Squeeze, kAliases},
    {"aten.squeeze_copy.dims", Squeeze},
    {"aten.expand.default", Expand, kAliases},
    {"aten.expand_copy.default", Expand},
    {"aten.broadcast_to.default", Expand, kAliases},
    {"aten.expand_as.default", ExpandAs, kAliases},
    {"aten.permute.default", Permute, kAliases},
    {"aten.permute_copy.default", Permute},
    {"aten.movedim.int", MoveDim, kAliases},
    {"aten.movedim.intlist", MoveDim, kAliases},
    {"aten.transpose.int", Transpose, kAliases},
    {"aten.transpose_copy.int", Transpose},
    {"aten.swapaxes.default", Transpose, kAliases},
    {"aten.swapdims.default", Transpose, kAliases},
    {"aten.t.default", TransposeLast, kAliases},
    {"aten.t_copy.default", TransposeLast},
    {"aten.mT.default", TransposeLast, kAliases},
    {"aten.numpy_T.default", TransposeLast, kAliases},
    {"aten.unbind.int", Unbind, kAliases},
    {"aten.split.Tensor", Split, kAliases},
    {"aten.split.sizes", SplitWithSizes, kAliases},
    {"aten.split_with_sizes.default", SplitWithSizes, kAliases},
    {"aten.split_with_sizes_copy.default", SplitWithSizes},
    {"aten.chunk.default", Chunk, kAliases},
    {"aten.tensor_split.sections", TensorSplitSections, kAliases},
    {"aten.tensor_split.indices", TensorSplitIndices, kAliases},
    {"aten.meshgrid.default", Meshgrid},
    {"aten.meshgrid.indexing", Meshgrid},
    {"aten.clone.default", Same},
    {"aten.contiguous.default", Same, kAliases},
    {"aten.alias.default", Same, kAliases},
    {"aten.alias_copy.default", Same},
    {"aten.detach.default", Same, kAliases},
    {"aten.detach_.default", Same, kAliases},
    {"aten.lift_fresh_copy.default", Same},
    {"aten.lift_fresh.default", Same, kAliases},
};

}  // namespace

LS_DEFINE_FORMS(View, kForms)

}  // namespace liveshape::ops
