// Which kernel serves which op: one line each.
#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

extern const CpuKernel kArgmaxKernel;
extern const CpuKernel kAttentionKernel;
extern const CpuKernel kCatKernel;
extern const CpuKernel kCopyKernel;
extern const CpuKernel kCumsumKernel;
extern const CpuKernel kEmbeddingKernel;
extern const CpuKernel kIndexKernel;
extern const CpuKernel kIndexPutKernel;
extern const CpuKernel kLayerNormKernel;
extern const CpuKernel kLinearKernel;
extern const CpuKernel kMatmulKernel;
extern const CpuKernel kPointwiseKernel;
extern const CpuKernel kReduceKernel;
extern const CpuKernel kReshapeKernel;
extern const CpuKernel kRmsNormKernel;
extern const CpuKernel kRopeKernel;
extern const CpuKernel kSoftmaxKernel;
extern const CpuKernel kSortKernel;
extern const CpuKernel kViewWriteKernel;

std::span<const CpuKernel* const> AllKernels() {
  static constexpr const CpuKernel* kKernels[] = {
      &kArgmaxKernel,    &kAttentionKernel, &kCatKernel,      &kCopyKernel,      &kCumsumKernel,
      &kEmbeddingKernel, &kIndexKernel,     &kIndexPutKernel, &kLayerNormKernel, &kLinearKernel,
      &kMatmulKernel,    &kPointwiseKernel, &kReduceKernel,   &kReshapeKernel,   &kRmsNormKernel,
      &kRopeKernel,      &kSoftmaxKernel,   &kSortKernel,     &kViewWriteKernel,
  };
  return kKernels;
}

}  // namespace liveshape::cpu
