// Which kernel serves which op: one line each. An op that is not here is refused at load, by name (W9).
#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

extern const WebGpuKernel kCopyKernel;
extern const WebGpuKernel kPointwiseKernel;
extern const WebGpuKernel kReshapeKernel;

std::span<const WebGpuKernel* const> AllKernels() {
  static constexpr const WebGpuKernel* kKernels[] = {
      // clang-format off: one line each
      &kCopyKernel,
      &kPointwiseKernel,
      &kReshapeKernel,
      // clang-format on
  };
  return kKernels;
}

}  // namespace liveshape::webgpu
