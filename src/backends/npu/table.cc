// Which tile lowering serves which op: one line each. An op that is not here is refused at load, by name (N10).
#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

extern const NpuOp kAdaptiveMeanNpu;
extern const NpuOp kArgmaxNpu;
extern const NpuOp kAttentionNpu;
extern const NpuOp kCatNpu;
extern const NpuOp kConvNpu;
extern const NpuOp kCopyNpu;
extern const NpuOp kCumsumNpu;
extern const NpuOp kEmbeddingNpu;
extern const NpuOp kIndexNpu;
extern const NpuOp kIndexPutNpu;
extern const NpuOp kLayerNormNpu;
extern const NpuOp kLinearNpu;
extern const NpuOp kMatmulNpu;
extern const NpuOp kPadNpu;
extern const NpuOp kPointwiseNpu;
extern const NpuOp kPoolNpu;
extern const NpuOp kReduceNpu;
extern const NpuOp kReshapeNpu;
extern const NpuOp kRmsNormNpu;
extern const NpuOp kRopeNpu;
extern const NpuOp kSoftmaxNpu;
extern const NpuOp kSortNpu;
extern const NpuOp kViewWriteNpu;

std::span<const NpuOp* const> AllOps() {
  static constexpr const NpuOp* kOps[] = {
      // clang-format off: one line each
      &kAdaptiveMeanNpu,
      &kArgmaxNpu,
      &kAttentionNpu,
      &kCatNpu,
      &kConvNpu,
      &kCopyNpu,
      &kCumsumNpu,
      &kEmbeddingNpu,
      &kIndexNpu,
      &kIndexPutNpu,
      &kLayerNormNpu,
      &kLinearNpu,
      &kMatmulNpu,
      &kPadNpu,
      &kPointwiseNpu,
      &kPoolNpu,
      &kReduceNpu,
      &kReshapeNpu,
      &kRmsNormNpu,
      &kRopeNpu,
      &kSoftmaxNpu,
      &kSortNpu,
      &kViewWriteNpu,
      // clang-format on
  };
  return kOps;
}

const NpuOp* FindOp(const ir::OpDef& op) {
  for (const NpuOp* each : AllOps())
    if (each->op == &op) return each;
  return nullptr;
}

}  // namespace liveshape::npu
