// The point of a run where a number leaves the data and becomes a size. It has no kernel: the session
// reads the element and evaluates the next stage of the shape program.
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  const TensorType& x = c.in(0);
  if (!x.dims.empty()) return InvalidArgument("takes a 0-d tensor, has rank {}", x.dims.size());
  if (IsFloat(x.dtype)) return InvalidArgument("a size cannot be born from {}", Name(x.dtype));
  LS_RETURN_IF_ERROR(NeedAttr<int64_t>(c, "symbol").status());
  return std::vector<TensorType>{};
}

}  // namespace

const ir::OpDef kItem = {.name = "item", .infer = Infer, .gives_symbol = true};

}  // namespace liveshape::ops
