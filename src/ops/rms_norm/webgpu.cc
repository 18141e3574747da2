#include "backends/webgpu/wgsl.h"
#include "ops/ops.h"
#include "ops/rms_norm/webgpu_norm.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) { return LowerNorm(l, wgsl::kRmsNorm); }

}  // namespace

extern const WebGpuKernel kRmsNormKernel = {
    .op = &ops::kRmsNorm, .lower = Lower, .need = NormNeeds};

}  // namespace liveshape::webgpu
