// Strided to dense: the planner's copies, and reshapes that strides cannot say.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  if (ValueType(l.in(0).dtype) == nullptr) return NoSuchType(l.in(0).dtype);
  return std::vector{MakeCopy(l)};
}

}  // namespace

extern const WebGpuKernel kCopyKernel = {.op = &ops::kCopy, .lower = Lower};
extern const WebGpuKernel kReshapeKernel = {.op = &ops::kReshape, .lower = Lower};

}  // namespace liveshape::webgpu
