// Which kernel serves which op: one line each. An op that is not here is refused at load, by name (W9).
#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

extern const WebGpuKernel kAdaptiveMeanKernel;
extern const WebGpuKernel kArgmaxKernel;
extern const WebGpuKernel kAttentionKernel;
extern const WebGpuKernel kCatKernel;
extern const WebGpuKernel kConvKernel;
extern const WebGpuKernel kCopyKernel;
extern const WebGpuKernel kCumsumKernel;
extern const WebGpuKernel kEmbeddingKernel;
extern const WebGpuKernel kIndexKernel;
extern const WebGpuKernel kIndexPutKernel;
extern const WebGpuKernel kLayerNormKernel;
extern const WebGpuKernel kLinearKernel;
extern const WebGpuKernel kMatmulKernel;
extern const WebGpuKernel kPadKernel;
extern const WebGpuKernel kPointwiseKernel;
extern const WebGpuKernel kPoolKernel;
extern const WebGpuKernel kReduceKernel;
extern const WebGpuKernel kReshapeKernel;
extern const WebGpuKernel kRmsNormKernel;
extern const WebGpuKernel kRopeKernel;
extern const WebGpuKernel kSoftmaxKernel;
extern const WebGpuKernel kSortKernel;
extern const WebGpuKernel kViewWriteKernel;

std::span<const WebGpuKernel* const> AllKernels() {
  static constexpr const WebGpuKernel* kKernels[] = {
      // clang-format off: one line each
      &kAdaptiveMeanKernel,
      &kArgmaxKernel,
      &kAttentionKernel,
      &kCatKernel,
      &kConvKernel,
      &kCopyKernel,
      &kCumsumKernel,
      &kEmbeddingKernel,
      &kIndexKernel,
      &kIndexPutKernel,
      &kLayerNormKernel,
      &kLinearKernel,
      &kMatmulKernel,
      &kPadKernel,
      &kPointwiseKernel,
      &kPoolKernel,
      &kReduceKernel,
      &kReshapeKernel,
      &kRmsNormKernel,
      &kRopeKernel,
      &kSoftmaxKernel,
      &kSortKernel,
      &kViewWriteKernel,
      // clang-format on
  };
  return kKernels;
}

}  // namespace liveshape::webgpu
