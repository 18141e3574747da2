// The three spellings of an expression, read into a Table.
//
//   ParseSrepr(table, "Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), Integer(1))")
//   ParseInfix(table, "2*S + 1")               // a person's flag; S may be a Dim name or torch's name
//   ParsePythonGuard(table, "L['x'].size()[0] % 4 == 0", resolve)   // guards_code of a .pt2
//
// All are total: any text gives an expression or an error that names the column; depth and length
// are limited, so hostile text can neither overflow the stack nor allocate without bound.
#pragma once

#include <functional>
#include <string_view>

#include "base/status.h"
#include "sym/expr.h"

namespace liveshape::sym {

// A symbol not yet in the table is added without bounds (the importer declares ranges first).
Result<Expr> ParseSrepr(Table& table, std::string_view text);

// An unknown name is an error that lists the names there are.
Result<Expr> ParseInfix(Table& table, std::string_view text);

// `resolve` maps the source text of a leaf such as `L['x'].size()[0]`,
// `L['flat_args'][1].size()[0]` or `L['d']['n']` (canonical quoting and spacing) to its expression;
// returning none makes the parse fail with kNotFound, which importers treat as "this guard is about
// something the graph does not read".
using LeafResolver = std::function<std::optional<Expr>(std::string_view leaf)>;
Result<Expr> ParsePythonGuard(Table& table, std::string_view text, const LeafResolver& resolve);

}  // namespace liveshape::sym
