// Any bytes as an expression in each of the three spellings: an error, or an expression that every
// question of sym can be asked of, and whose text reads back to the same pointer.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sym/parse.h"
#include "sym/program.h"

namespace {

using namespace liveshape::sym;
using liveshape::Result;

void Ask(Table& table, const Result<Expr>& parsed) {
  if (!parsed.ok()) return;
  const Expr e = *parsed;
  const std::string text = ToString(e);
  const auto again = ParseInfix(table, text);
  // A text that was cut or that nests too deeply to be read is not read back.
  if (again.ok() && *again != e) std::abort();
  if (e.is_float_valued()) return;
  const Interval bounds = table.Bounds(e);
  (void)table.Divides(table.Int(4), e);
  ProgramBuilder builder(table);
  const uint32_t slot = builder.Slot(e);
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block(program.block_size());
  for (const int64_t value : {0, 1, 2, 7, 64}) {
    std::vector<int64_t> values(table.symbols().size(), value);
    values[0] = 1 + value % 4;
    const auto direct = table.Evaluate(e, values);
    program.SetSymbols(values, block);
    const bool ran = program.Run(0, block).ok();
    if (ran != direct.ok() || (ran && block[slot] != *direct)) std::abort();
    if (ran && !bounds.Contains(*direct)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Table table;
  const Expr s = table.Symbol({.name = "s", .lo = 1, .hi = 4});
  table.Symbol({.name = "u", .lo = 0, .hi = 100});
  Ask(table, ParseInfix(table, text));
  Ask(table, ParsePythonGuard(table, text, [&](std::string_view) { return std::optional(s); }));
  Ask(table, ParseSrepr(table, text));
  return 0;
}
