// Norms by channel (dim 1) of a call's `input`, `weight` and `bias`: what batch norm is, and instance norm in part.
#pragma once

#include "ops/aten.h"

namespace liveshape::ops {

ValueId NormByRunningStatistics(AtenCall& c);  // `running_mean`, `running_var`
ValueId NormByBatchStatistics(AtenCall& c);    // of x over all dims but 1

}  // namespace liveshape::ops
