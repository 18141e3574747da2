// Limits by name, so that tests and people can ask for a smaller device than the adapter is.
//
//   ParseLimits("smallest")                          what WebGPU promises everywhere: kSmallestLimits
//   ParseLimits("smallest,binding_bytes=65536")      later ones win; names are those of gpu::Limits
#pragma once

#include <string_view>

#include "backends/webgpu/device/device.h"

namespace liveshape::gpu {

Result<Limits> ParseLimits(std::string_view text);

}  // namespace liveshape::gpu
