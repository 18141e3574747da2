#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, SIZE_MAX));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  const size_t rank = c.in(0).dims.size();
  LS_ASSIGN_OR_RETURN(int64_t dim, NeedAxis(c, "dim", rank));
  Dims dims = c.in(0).dims;
  for (size_t i = 1; i < c.inputs.size(); ++i) {
    if (!c.has(i) || c.in(i).dims.size() != rank || c.in(i).dtype != c.in(0).dtype)
      return InvalidArgument("input {} differs from input 0 in rank or dtype", i);
    for (size_t d = 0; d < rank; ++d)
      if (static_cast<int64_t>(d) == dim)
        dims[d] = dims[d] + c.in(i).dims[d];
      else
        LS_RETURN_IF_ERROR(c.RequireEqual(dims[d], c.in(i).dims[d], [&] {
          return fmt::format("input {} is {}, does not fit input 0, {}", i, ir::ToString(c.in(i)),
                             ir::ToString(c.in(0)));
        }));
  }
  return std::vector<TensorType>{{c.in(0).dtype, std::move(dims)}};
}

ValueId EmitCat(AtenCall& c, std::vector<ValueId> tensors, int64_t dim) {
  std::vector<AtenCall::Operand> operands;
  for (ValueId t : tensors) operands.push_back(c.Of(t));
  const DType dtype = c.Promote(operands);
  for (ValueId& t : tensors) t = c.Cast(t, dtype);
  return tensors.size() == 1 ? tensors[0] : c.Emit(kCat, std::move(tensors), {{"dim", dim}});
}

std::vector<ValueId> Cat(AtenCall& c) {
  std::vector<ValueId> tensors = c.Tensors("tensors");
  // torch ignores empty 1-d tensors among others of any rank.
  size_t rank = 0;
  for (ValueId t : tensors) rank = std::max(rank, c.DimsOf(t).size());
  std::erase_if(tensors, [&](ValueId t) {
    return c.DimsOf(t).size() == 1 && rank != 1 && c.DimOf(t, 0).is_int(0);
  });
  if (tensors.empty()) c.Fail(InvalidArgument("cat of nothing"));
  return {c.ok() ? EmitCat(c, tensors, c.AxisOr("dim", static_cast<int64_t>(rank), 0))
                 : ir::kNoValue};
}

std::vector<ValueId> Stack(AtenCall& c) {
  std::vector<ValueId> tensors = c.Tensors("tensors");
  if (tensors.empty()) c.Fail(InvalidArgument("stack of nothing"));
  if (!c.ok()) return {ir::kNoValue};
  const int64_t dim = c.AxisOr("dim", c.Rank(tensors[0]) + 1, 0);
  for (ValueId& t : tensors) t = c.Unsqueeze(t, dim);
  return {EmitCat(c, std::move(tensors), dim)};
}

// Each dim is cut once and its parts change places; without dims the flattened tensor is rolled.
std::vector<ValueId> Roll(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const Dims shifts = c.Sizes("shifts"), dims = c.DimsOf(x);
  std::vector<int64_t> axes = c.IntsOr("dims", {});
  const bool flat = axes.empty();
  if (flat) axes = {0};
  if (shifts.size() != axes.size())
    c.Fail(InvalidArgument("{} shifts for {} dims", shifts.size(), axes.size()));
  if (!c.ok() || dims.empty()) return {x};
  sym::Table& t = c.table();
  if (flat) x = c.Reshape(x, {sym::Product(t, dims)});
  for (size_t i = 0; c.ok() && i < axes.size(); ++i) {
    const int64_t axis = c.WrapAxis(axes[i], c.Rank(x));
    const Expr size = c.DimOf(x, axis);
    const Expr cut = sym::Mod(-shifts[i], sym::Max(size, t.Int(1)));
    ValueId tail = c.Slice(x, axis, cut, size - cut), head = c.Slice(x, axis, t.Int(0), cut);
    x = c.Emit(kCat, {tail, head}, {{"dim", axis}});
  }
  return {flat ? c.Reshape(x, dims) : x};
}

const AtenForm kForms[] = {
    {"aten.roll.default", Roll},
    {"aten.cat.default", Cat},
    {"aten.concat.default", Cat},
    {"aten.stack.default", Stack},
};

}  // namespace

const ir::OpDef kCat = {.name = "cat", .infer = Infer};
LS_DEFINE_FORMS(Cat, kForms)

}  // namespace liveshape::ops
