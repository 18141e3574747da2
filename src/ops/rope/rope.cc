// Rotary embedding, half-split form. No ATen target has it: passes/recognise_rope.cc finds it.
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 3, 3));
  LS_RETURN_IF_ERROR(NeedRank(c, 0, 1));
  LS_RETURN_IF_ERROR(NeedFloat(c, 0));
  for (size_t i : {1, 2}) {
    const auto misfit = [&] {
      return fmt::format("cos and sin must have the type of x, {}", ir::ToString(c.in(0)));
    };
    if (c.in(i).dtype != c.in(0).dtype) return InvalidArgument("{}", misfit());
    LS_RETURN_IF_ERROR(c.RequireEqual(c.in(i).dims, c.in(0).dims, misfit));
  }
  if (c.table.Divides(c.table.Int(2), c.in(0).dims.back()) != sym::Tri::kYes)
    return InvalidArgument("the last dim {} must be even", sym::ToString(c.in(0).dims.back()));
  return std::vector<TensorType>{c.in(0)};
}

}  // namespace

const ir::OpDef kRope = {.name = "rope", .infer = Infer};

}  // namespace liveshape::ops
