// From a Dispatch to WGSL: declarations, accessors of operands by dtype, params, helpers.
//
//   LS_ASSIGN_OR_RETURN(Shader shader, MakeShader(lowering, dispatch, memory));
//   device.CreateShader(shader.wgsl, label);
//   for (const gpu::BoundRange& range : shader.ranges) ...      // binding 1, 2, ...; binding 0 is the params
#pragma once

#include <string>
#include <vector>

#include "backends/webgpu/kernel.h"
#include "backends/webgpu/memory.h"

namespace liveshape::webgpu {

struct Shader {
  std::string wgsl;
  std::vector<gpu::BoundRange> ranges;
  bool fails = false;  // the last of them is the error word
};

// Refuses what the device cannot bind: too many buffers at once, a dtype without a WGSL form.
Result<Shader> MakeShader(const Lowering& lowering, const Dispatch& dispatch,
                          const DeviceMemory& memory);

// Words that a param takes in the uniform buffer, and whether it must begin at an even one.
inline uint32_t WordsOf(const Param& p) { return p.kind == Param::Kind::kWide ? 2 : 1; }

}  // namespace liveshape::webgpu
