// Any view to dense memory, in row-major order of its dims. What copy, and a reshape that strides cannot
// express, run.
#pragma once

#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

// `to` must not overlap the view; from.rank <= kMaxRank. Extents of 0 and strides of 0 are legal.
void StridedCopy(const View& from, std::byte* to, ThreadPool& pool);

}  // namespace liveshape::cpu
