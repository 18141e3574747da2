// Functions by name, as torch, sympy and Python spell them, with their operands' types checked.
// Private to sym/.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "sym/expr.h"
#include "sym/lexer.h"

namespace liveshape::sym {

bool IsFunction(std::string_view name);

// `at` is where the error points.
Result<Expr> MakeCall(Table& table, const Token& at, std::string_view function,
                      std::span<const Expr> args);

// Operators are calls too: "+", "*", "//", "<=" ...
Result<Expr> MakeOperator(Table& table, const Token& at, Expr a, Expr b);

}  // namespace liveshape::sym
