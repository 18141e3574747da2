// Expressions as people write them in flags.
#include "sym/parse.h"
#include "sym/parse_python.h"

namespace liveshape::sym {
namespace {

std::string KnownNames(const Table& table) {
  constexpr size_t kListed = 32;
  std::string names;
  for (const SymbolInfo& info : table.symbols()) {
    if (!names.empty()) names += ", ";
    if (&info == &table.symbols()[0] + kListed) return names + "...";
    names += info.display.empty() ? info.name : fmt::format("{} ({})", info.display, info.name);
  }
  return names.empty() ? "there are none" : "there are " + names;
}

}  // namespace

Result<Expr> ParseInfix(Table& table, std::string_view text) {
  return ParsePython(table, text, /*postfix=*/false,
                     [&](const Token& at, const std::string& leaf) -> Result<Expr> {
                       if (auto symbol = table.FindSymbol(leaf)) return *symbol;
                       return ParseError(
                           at, fmt::format("no symbol has this name: {}", KnownNames(table)),
                           Code::kNotFound);
                     });
}

}  // namespace liveshape::sym
