// From the artifact's list of expression nodes to expressions of a table. Private to artifact/.
#pragma once

#include <vector>

#include "base/status.h"
#include "liveshape_generated.h"
#include "sym/expr.h"

namespace liveshape::artifact {

// Declares the file's symbols in an empty table, in order.
Status LoadSymbols(const fbs::Model& model, sym::Table& table);

// Rebuilds every expression through the table, which may simplify further than the writer's did: entry i
// is what node i has become. `max_terms` bounds the work, and so the memory, that a hostile list can cause.
Result<std::vector<sym::Expr>> LoadExpressions(const fbs::Model& model, sym::Table& table,
                                               size_t max_terms);

}  // namespace liveshape::artifact
