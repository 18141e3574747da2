// The Python of guards_code.
#include "sym/parse.h"
#include "sym/parse_python.h"

namespace liveshape::sym {

Result<Expr> ParsePythonGuard(Table& table, std::string_view text, const LeafResolver& resolve) {
  return ParsePython(
      table, text, /*postfix=*/true, [&](const Token& at, const std::string& leaf) -> Result<Expr> {
        if (auto resolved = resolve(leaf)) return *resolved;
        if (auto symbol = table.FindSymbol(leaf)) return *symbol;
        return ParseError(at, fmt::format("nothing in the graph is called `{}`", leaf),
                          Code::kNotFound);
      });
}

}  // namespace liveshape::sym
