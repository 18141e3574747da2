// What shaders may rely on, found by running one: WebGPU tells that there are subgroups, but neither how many invocations
// they have nor that all of them are full.
//
//   const uint32_t size = ProbeSubgroupSize(*device);          // 32 on NVIDIA, 8 on lavapipe; 0: nothing to rely on
#pragma once

#include "backends/webgpu/device/device.h"

namespace liveshape::gpu {

// A power of two, if `subgroup_id * size + subgroup_invocation_id` numbers the invocations of a workgroup and a shuffle
// brings what it should.
uint32_t ProbeSubgroupSize(Device& device);

}  // namespace liveshape::gpu
