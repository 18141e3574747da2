// Two steps as one: a kernel that tells which parts of its output are complete (CpuKernel::tells_parts) and one that takes
// them (takes_parts), so that what lies between them is read while it is in cache.
//
//   if (CanJoin(norm_args, scale_args, scale_scratch)) {
//     norm_args.passing = nobody else reads what it writes && CanPass(norm_args, scale_args);
//     const EarlierStep earlier{norm, norm_args};
//     scale_args.earlier = &earlier;
//     return scale.run(scale_args);   // runs both
//   }
#pragma once

#include <span>

#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

// Whether the second reads what the first writes at the same positions only, and writes nothing that the first has still
// to read. By addresses: the planner gives memory away after a value's last step.
bool CanJoin(const KernelArgs& first, const KernelArgs& second,
             std::span<const std::byte> second_scratch);

// Whether nothing else that they read or write lies where the first writes.
bool CanPass(const KernelArgs& first, const KernelArgs& second);

}  // namespace liveshape::cpu
