// From dispatches to WGSL: declarations, accessors of operands by dtype, params, helpers.
//
//   LS_ASSIGN_OR_RETURN(Shader shader, MakeShader({{{lowering, dispatch}}}, memory));
//   device.CreateShader(shader.wgsl, label);
//   for (const gpu::BoundRange& range : shader.ranges) ...      // binding 1, 2, ...; binding 0 is the params
//
// Several dispatches that need nothing of each other can be one: each has some of its workgroups. A dispatch that waits
// for the one before costs 2 us on a large GPU, whatever it does.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/webgpu/kernel.h"
#include "backends/webgpu/memory.h"

namespace liveshape::webgpu {

struct Part {
  Lowering lowering;
  Dispatch dispatch;
};

struct Shader {
  std::string wgsl;
  std::vector<gpu::BoundRange> ranges;
  std::vector<Param> params;
  Expr groups;
  bool fails = false;  // the last of the ranges is the error word
};

// Refuses what the device cannot bind: too many buffers at once, a dtype without a WGSL form.
Result<Shader> MakeShader(std::span<const Part> parts, const DeviceMemory& memory);

// Neither reads nor writes what the other writes, and both are kernels of the kind that may share a shader.
bool CanLieBeside(const Part& a, const Part& b, const DeviceMemory& memory);

// Words that a param takes in the uniform buffer, and whether it must begin at an even one.
inline uint32_t WordsOf(const Param& p) { return p.kind == Param::Kind::kWide ? 2 : 1; }

}  // namespace liveshape::webgpu
