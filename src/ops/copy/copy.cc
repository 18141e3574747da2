// The same values, row-major and dense: what the planner inserts where strides cannot say it.
#include "ops/ops.h"
#include "ops/rules.h"

namespace liveshape::ops {
namespace {

Types Infer(const InferContext& c) {
  LS_RETURN_IF_ERROR(NeedInputs(c, 1, 1));
  return std::vector<TensorType>{c.in(0)};
}

}  // namespace

const ir::OpDef kCopy = {.name = "copy", .infer = Infer};

}  // namespace liveshape::ops
