// A mask as an index: what nonzero, masked_select and x[mask] share.
#pragma once

#include "ops/aten.h"

namespace liveshape::ops {

// [n, rank of x]: where x is not zero. `exported` is the size that the exporter gave n.
ValueId Positions(AtenCall& c, ValueId x, Expr exported);
// The same as one [n] tensor for each dim of x.
std::vector<ValueId> PositionsByDim(AtenCall& c, ValueId x, Expr exported);

}  // namespace liveshape::ops
