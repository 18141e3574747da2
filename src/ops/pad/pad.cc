#include <array>
#include <cmath>

#include "ops/forms.h"
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  LS_ASSIGN_OR_RETURN(const std::string mode, NeedAttr<std::string>(c, "mode"));
  LS_ASSIGN_OR_RETURN(const double value, NeedAttr<double>(c, "value"));
  // Kernels convert it to the dtype: beyond 2^53, a double is no exact integer.
  if (!IsFloat(c.in(0).dtype) && (std::trunc(value) != value || std::fabs(value) > 0x1p53))
    return InvalidArgument("{} is padded with {}", Name(c.in(0).dtype), value);
  LS_ASSIGN_OR_RETURN(const Dims before, NeedAttr<std::vector<Expr>>(c, "before"));
  LS_ASSIGN_OR_RETURN(const Dims after, NeedAttr<std::vector<Expr>>(c, "after"));
  if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular")
    return InvalidArgument("unknown mode `{}`", mode);
  Dims dims = c.in(0).dims;
  if (before.size() != dims.size() || after.size() != dims.size())
    return InvalidArgument("{} and {} pads for rank {}", before.size(), after.size(), dims.size());
  const Expr zero = c.table.Int(0);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (before[i] == zero && after[i] == zero) continue;
    const Expr size = std::exchange(dims[i], dims[i] + before[i] + after[i]);
    const auto misfit = [&] {
      return fmt::format("a {} pad of {} and {} does not fit a size of {}", mode,
                         sym::ToString(before[i]), sym::ToString(after[i]), sym::ToString(size));
    };
    LS_RETURN_IF_ERROR(c.Require(sym::Ge(dims[i], zero), misfit));
    if (mode == "constant") continue;
    LS_RETURN_IF_ERROR(c.Require(sym::Ge(size, c.table.Int(1)), misfit));
    if (mode == "replicate") continue;
    for (Expr pad : {before[i], after[i]})  // what repeats is there
      LS_RETURN_IF_ERROR(c.Require(sym::Le(pad, mode == "reflect" ? size - 1 : size), misfit));
  }
  return std::vector<TensorType>{{c.in(0).dtype, std::move(dims)}};
}

// `pad` begins at the last dim: (left, right, top, bottom, ...). A negative one cuts off, which torch does first where
// the mode is constant or circular: what is cut off does not come back on the other side.
std::vector<ValueId> Pad(AtenCall& c) {
  ValueId x = c.Tensor("self");
  const std::string mode = c.StringOr("mode", "constant");
  const double value = c.NumberOr("value", 0);
  const std::vector<Expr> pad = c.Sizes("pad");
  const size_t rank = c.DimsOf(x).size();
  if (pad.size() % 2 != 0 || pad.size() > 2 * rank)
    c.Fail(InvalidArgument("{} pads for rank {}", pad.size(), rank));
  if (!c.ok()) return {ir::kNoValue};
  const Expr zero = c.table().Int(0);
  Dims before(rank, zero), after = before;
  for (size_t i = 0; i < pad.size() / 2; ++i) {
    const size_t d = rank - 1 - i;
    before[d] = pad[2 * i];
    after[d] = pad[2 * i + 1];
    if (mode != "constant" && mode != "circular") continue;
    const Expr cut = sym::Max(zero, -before[d]), cut_after = sym::Max(zero, -after[d]);
    x = c.Slice(x, static_cast<int64_t>(d), cut, c.DimsOf(x)[d] - cut - cut_after);
    if (!c.ok()) return {ir::kNoValue};
    before[d] = sym::Max(zero, before[d]);
    after[d] = sym::Max(zero, after[d]);
  }
  return {c.Emit(kPad, {x},
                 {{"before", std::move(before)},
                  {"after", std::move(after)},
                  {"mode", mode},
                  {"value", value}})};
}

const AtenForm kForms[] = {
    {"aten.pad.default", Pad},
    {"aten.constant_pad_nd.default", Pad},
};

}  // namespace

const ir::OpDef kPad = {.name = "pad", .infer = Infer};
LS_DEFINE_FORMS(Pad, kForms)

}  // namespace liveshape::ops
