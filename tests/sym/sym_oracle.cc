// What sym says of an expression, for a judge in another language:
// tests/sym/test_sym_against_sympy.py.
//
//   T <tab> s0=1:64 <tab> s1=0:7                     a new table; no answer
//   E <tab> srepr <tab> infix <tab> guard <tab> 3,0;64,7    one answer line, see Expression()
//   D <tab> e <tab> d <tab> 3,0;64,7                 does d divide e? see Divisibility()
//
// A guard's leaves are L['x'].size()[i], symbol i. A value that failed is written `!`.
#include <charconv>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sym/parse.h"
#include "sym/program.h"

namespace liveshape::sym {
namespace {

std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == by)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

int64_t ToInt(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

using Points = std::vector<std::vector<int64_t>>;

Points ReadPoints(const std::string& text) {
  Points points;
  for (const std::string& point : Split(text, ';')) {
    points.emplace_back();
    for (const std::string& value : Split(point, ',')) points.back().push_back(ToInt(value));
  }
  return points;
}

// The table's answer at each point; `a/b` where the shape program answers otherwise.
std::string Values(Table& table, Expr e, const Points& points) {
  ProgramBuilder builder(table);
  const uint32_t slot = builder.Slot(e);
  const uint32_t tuple = builder.Tuple({e, e});
  const ShapeProgram program = builder.Finish();
  std::vector<int64_t> block(program.block_size());
  std::string out;
  for (const std::vector<int64_t>& point : points) {
    const auto direct = table.Evaluate(e, point);
    program.SetSymbols(point, block);
    const Status status = program.Run(0, block);
    const std::string a = direct.ok() ? std::to_string(*direct) : "!";
    const bool same_slots = block[slot] == block[tuple] && block[slot] == block[tuple + 1];
    const std::string b = !status.ok() ? "!"
                          : same_slots ? std::to_string(block[slot])
                                       : "slots differ";
    if (!out.empty()) out += ',';
    out += a == b ? a : a + "/" + b;
  }
  return out;
}

char Letter(Tri t) { return t == Tri::kYes ? 'y' : t == Tri::kNo ? 'n' : '?'; }

// error, or: values, lo, hi, is-true, whether the text reads back to the same pointer, the text
std::string Report(Table& table, const Result<Expr>& parsed, const Points& points) {
  if (!parsed.ok()) return "error: " + parsed.status().message();
  const Expr e = *parsed;
  const Interval bounds = table.Bounds(e);
  const std::string text = ToString(e);
  const auto again = ParseInfix(table, text);
  const bool same = again.ok() && *again == e;
  return fmt::format("{}|{}|{}|{}|{}|{}", Values(table, e, points), bounds.lo, bounds.hi,
                     Letter(table.IsTrue(e)), same ? 1 : 0, text);
}

// A report for each spelling.
std::string Expression(Table& table, const std::vector<std::string>& fields) {
  const Points points = ReadPoints(fields[4]);
  const auto leaf = [&](std::string_view text) -> std::optional<Expr> {
    constexpr std::string_view kHead = "L['x'].size()[";
    if (!text.starts_with(kHead)) return std::nullopt;
    return table.SymbolAt(static_cast<uint32_t>(ToInt(text.substr(kHead.size()))));
  };
  const std::string srepr = Report(table, ParseSrepr(table, fields[1]), points);
  const auto infix = ParseInfix(table, fields[2]);
  const auto guard = ParsePythonGuard(table, fields[3], leaf);
  const bool same = infix.ok() && guard.ok() && *infix == *guard;
  return srepr + '\t' + Report(table, infix, points) + '\t' +
         (same ? "same" : Report(table, guard, points));
}

// answer, values of e, values of d, values of the quotient (empty where there is none)
std::string Divisibility(Table& table, const std::vector<std::string>& fields) {
  const auto e = ParseInfix(table, fields[1]), d = ParseInfix(table, fields[2]);
  if (!e.ok() || !d.ok()) return "error";
  const Points points = ReadPoints(fields[3]);
  const Tri answer = table.Divides(*d, *e);
  const auto quotient = table.Quotient(*e, *d);
  return fmt::format("{}\t{}\t{}\t{}", Letter(answer), Values(table, *e, points),
                     Values(table, *d, points), quotient ? Values(table, *quotient, points) : "");
}

int Main() {
  auto table = std::make_unique<Table>();
  std::string line;
  while (std::getline(std::cin, line)) {
    const std::vector<std::string> fields = Split(line, '\t');
    if (fields[0] == "T") {
      table = std::make_unique<Table>();
      for (size_t i = 1; i < fields.size(); ++i) {
        const std::string name = Split(fields[i], '=')[0], range = Split(fields[i], '=')[1];
        table->Symbol(
            {.name = name, .lo = ToInt(Split(range, ':')[0]), .hi = ToInt(Split(range, ':')[1])});
      }
    } else if (fields[0] == "E" && fields.size() == 5) {
      std::cout << Expression(*table, fields) << '\n';
    } else if (fields[0] == "D" && fields.size() == 4) {
      std::cout << Divisibility(*table, fields) << '\n';
    } else {
      std::cout << "error: not a request\n";
    }
  }
  return 0;
}

}  // namespace
}  // namespace liveshape::sym

int main() { return liveshape::sym::Main(); }
