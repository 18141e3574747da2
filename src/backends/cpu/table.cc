// Which kernel serves which op: one line each.
#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

extern const CpuKernel kAdaptiveMeanKernel;
extern const CpuKernel kAttentionKernel;
extern const CpuKernel kCatKernel;
extern const CpuKernel kConvKernel;
extern const CpuKernel kCopyKernel;
extern const CpuKernel kCumsumKernel;
extern const CpuKernel kEmbeddingKernel;
extern const CpuKernel kIndexKernel;
extern const CpuKernel kIndexPutKernel;
extern const CpuKernel kLayerNormKernel;
extern const CpuKernel kLinearKernel;
extern const CpuKernel kMatmulKernel;
extern const CpuKernel kPadKernel;
extern const CpuKernel kPointwiseKernel;
extern const CpuKernel kPoolKernel;
extern const CpuKernel kReduceKernel;
extern const CpuKernel kReshapeKernel;
extern const CpuKernel kRmsNormKernel;
extern const CpuKernel kRopeKernel;
extern const CpuKernel kSoftmaxKernel;
extern const CpuKernel kViewWriteKernel;

std::span<const CpuKernel* const> AllKernels() {
  static constexpr const CpuKernel* kKernels[] = {
      &kAdaptiveMeanKernel, &kAttentionKernel, &kCatKernel,       &kConvKernel,
      &kCopyKernel,         &kCumsumKernel,    &kEmbeddingKernel, &kIndexKernel,
      &kIndexPutKernel,     &kLayerNormKernel, &kLinearKernel,    &kMatmulKernel,
      &kPadKernel,          &kPointwiseKernel, &kPoolKernel,      &kReduceKernel,
      &kReshapeKernel,      &kRmsNormKernel,   &kRopeKernel,      &kSoftmaxKernel,
      &kViewWriteKernel,
  };
  return kKernels;
}

}  // namespace liveshape::cpu
