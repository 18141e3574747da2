// x[..., i, ..., j, ...] for shaders, as ops/index/cpu_indexed.h is for the CPU: the side that has the indices' dims
// is walked in row-major order as [outer..., entries, inner...].
#pragma once

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// `fn place(outer: u32, entry: u32, inner: u32) -> u32`: an element of `x` (the storage behind it begins at
// p.x_offset); out of range calls fail(). Params p.outer, p.entries, p.inner count them. Indices are the inputs from
// `first` on.
void AddIndexed(const Lowering& l, const plan::Operand& x, size_t first, Dispatch& d);

}  // namespace liveshape::webgpu
