#include "backends/cpu/strided_copy.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

// Also a reshape: the same elements in row-major order, whatever the output's dims.
Status Run(const KernelArgs& args) {
  StridedCopy(args.in(0), args.out(0).data, args.pool);
  return {};
}

}  // namespace

extern const CpuKernel kCopyKernel = {.op = &ops::kCopy, .run = Run};
extern const CpuKernel kReshapeKernel = {.op = &ops::kReshape, .run = Run};

}  // namespace liveshape::cpu
