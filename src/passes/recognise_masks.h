// The two halves of RecogniseMasks that stand alone.
#pragma once

#include "passes/element.h"

namespace liveshape::passes {

// A mask added to the scores that is 0 or one very low number becomes the bool mask that it was made from,
// with all_masked saying what such a number makes of a row that sees nothing.
Status MasksToBool(ir::Graph& graph);

// How many keys each row sees, as an i64 [B, H, S] tensor: `count` over the indices of a batch, a head and a
// row, sizes, host values and leaves of these indices. kNoValue where it cannot be written with views and
// integer arithmetic.
struct RowIndices { Expr batch, head, row; };
Result<ValueId> EmitRowLimits(Elements& elements, Rewriter& rewrite, ir::Graph& graph, Expr count,
                              const RowIndices& indices, const Dims& dims);

}  // namespace liveshape::passes
