// Which kernel serves which op: one line each. An op that is not here is refused at load, by name (W9).
#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

extern const WebGpuKernel kAttentionKernel;
extern const WebGpuKernel kCatKernel;
extern const WebGpuKernel kCopyKernel;
extern const WebGpuKernel kCumsumKernel;
extern const WebGpuKernel kEmbeddingKernel;
extern const WebGpuKernel kIndexKernel;
extern const WebGpuKernel kIndexPutKernel;
extern const WebGpuKernel kLayerNormKernel;
extern const WebGpuKernel kLinearKernel;
extern const WebGpuKernel kMatmulKernel;
extern const WebGpuKernel kPointwiseKernel;
extern const WebGpuKernel kReduceKernel;
extern const WebGpuKernel kReshapeKernel;
extern const WebGpuKernel kRmsNormKernel;
extern const WebGpuKernel kRopeKernel;
extern const WebGpuKernel kSoftmaxKernel;
extern const WebGpuKernel kViewWriteKernel;

std::span<const WebGpuKernel* const> AllKernels() {
  static constexpr const WebGpuKernel* kKernels[] = {
      // clang-format off: one line each
      &kAttentionKernel,
      &kCatKernel,
      &kCopyKernel,
      &kCumsumKernel,
      &kEmbeddingKernel,
      &kIndexKernel,
      &kIndexPutKernel,
      &kLayerNormKernel,
      &kLinearKernel,
      &kMatmulKernel,
      &kPointwiseKernel,
      &kReduceKernel,
      &kReshapeKernel,
      &kRmsNormKernel,
      &kRopeKernel,
      &kSoftmaxKernel,
      &kViewWriteKernel,
      // clang-format on
  };
  return kKernels;
}

}  // namespace liveshape::webgpu
