// Which tile lowering serves which op: one line each. An op that is not here is refused at load, by name (N10).
#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

extern const NpuOp kCopyNpu;
extern const NpuOp kLinearNpu;
extern const NpuOp kMatmulNpu;
extern const NpuOp kPointwiseNpu;
extern const NpuOp kReshapeNpu;

std::span<const NpuOp* const> AllOps() {
  static constexpr const NpuOp* kOps[] = {
      // clang-format off: one line each
      &kCopyNpu,
      &kLinearNpu,
      &kMatmulNpu,
      &kPointwiseNpu,
      &kReshapeNpu,
      // clang-format on
  };
  return kOps;
}

}  // namespace liveshape::npu
