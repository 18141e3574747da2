// The rotary embedding of a normalised row (Qwen3's q and k) in one dispatch, written into a cache at once where it goes
// there: at every live shape, since a row is normalised by the workgroup that turns it.
#pragma once

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

Result<std::optional<Fusion>> FuseRope(const Lowering& l);

}  // namespace liveshape::webgpu
