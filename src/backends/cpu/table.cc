// Which kernel serves which op: one line each.
#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

extern const CpuKernel kAdaptiveMeanKernel;
extern const CpuKernel kArgmaxKernel;
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
extern const CpuKernel kNonzeroKernel;
extern const CpuKernel kPadKernel;
extern const CpuKernel kPointwiseKernel;
extern const CpuKernel kPoolKernel;
extern const CpuKernel kReduceKernel;
extern const CpuKernel kRepeatIndexKernel;
extern const CpuKernel kReshapeKernel;
extern const CpuKernel kRmsNormKernel;
extern const CpuKernel kRopeKernel;
extern const CpuKernel kSoftmaxKernel;
extern const CpuKernel kSortKernel;
extern const CpuKernel kViewWriteKernel;

std::span<const CpuKernel* const> AllKernels() {
  static constexpr const CpuKernel* kKernels[] = {
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
      &kNonzeroKernel,
      &kPadKernel,
      &kPointwiseKernel,
      &kPoolKernel,
      &kReduceKernel,
      &kRepeatIndexKernel,
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

}  // namespace liveshape::cpu
