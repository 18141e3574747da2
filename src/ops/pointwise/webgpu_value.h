// A pointwise program as `fn value(i: u32)`, for its own kernel and for those that fold it in.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// What load k of the program reads: an input of the step, or a WGSL expression that somebody else has computed.
struct PointwiseLoad {
  size_t input = 0;
  std::string given = {};
};

struct PointwiseValue {
  std::string body;
  std::vector<Param> params;
  bool fails = false;  // it calls fail()
};

// `l.step` has the program's output, and its parameters; `i` counts the output's elements.
Result<PointwiseValue> MakePointwiseValue(const Lowering& l, const ir::PointwiseProgram& program,
                                          std::span<const PointwiseLoad> loads);

}  // namespace liveshape::webgpu
