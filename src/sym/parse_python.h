// The grammar that infix flags and Python guards share. Private to sym/.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sym/lexer.h"

namespace liveshape::sym {

// Maps the text of a leaf (canonical quoting, no spaces) to its expression.
using LeafReader = std::function<Result<Expr>(const Token& at, const std::string& leaf)>;

// With `postfix`, a leaf may go on with `['x']`, `[0]`, `.size` and `()`.
Result<Expr> ParsePython(Table& table, std::string_view text, bool postfix,
                         const LeafReader& read_leaf);

}  // namespace liveshape::sym
