// A weight matrix as shaders read it: plain with strides, in panels of 16 rows, or quantised in panels.
#pragma once

#include <string>

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// `fn weight(row: u32, col: u32) -> f32` of input `input`; its numbers become params of `d`.
void AddWeight(const Lowering& l, size_t input, Dispatch& d);

}  // namespace liveshape::webgpu
