// A product of few rows together with the norm before it and the pointwise program after it.
#pragma once

#include "ops/linear/webgpu_panels.h"

namespace liveshape::webgpu {

Result<std::optional<Fusion>> FuseLinear(const Lowering& l);

}  // namespace liveshape::webgpu
