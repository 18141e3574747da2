// Strided to dense: the planner's copies, and reshapes that strides cannot say.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const char* type = ValueType(l.in(0).dtype);
  if (type == nullptr) return NoSuchType(l.in(0).dtype);
  Dispatch index;
  AddStridedIndex(l, l.in(0), "in0", index);
  index.body += fmt::format("fn value(i: u32) -> {} {{ return in0(at_in0(i)); }}\n", type);
  return std::vector{MakeMap(l, std::move(index.body), std::move(index.params))};
}

}  // namespace

extern const WebGpuKernel kCopyKernel = {.op = &ops::kCopy, .lower = Lower};
extern const WebGpuKernel kReshapeKernel = {.op = &ops::kReshape, .lower = Lower};

}  // namespace liveshape::webgpu
