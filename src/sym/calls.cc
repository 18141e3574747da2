#include "sym/calls.h"

#include <algorithm>

#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

using Args = std::span<const Expr>;

enum class Operands : uint8_t { kInts, kAny };

struct Function {
  std::string_view name;
  size_t min_args, max_args;
  Operands operands;
  Expr (*build)(Table& table, Args a);
};

constexpr size_t kMany = SIZE_MAX;

template <Kind kind>
Expr Build(Table& table, Args a) {
  return table.Make(kind, a);
}

template <Kind kind>
Expr BuildSwapped(Table& table, Args a) {
  const Expr swapped[] = {a[1], a[0]};
  return table.Make(kind, swapped);
}

Expr BuildTrueDiv(Table& table, Args a) {
  const bool ints = !a[0].is_float_valued() && !a[1].is_float_valued();
  return table.Make(ints ? Kind::kIntTrueDiv : Kind::kFloatDiv, a);
}

// a ^ b = (a | b) - (a & b): no kind of its own.
Expr BuildXor(Table& table, Args a) {
  return table.Make(Kind::kBitOr, a) - table.Make(Kind::kBitAnd, a);
}

Expr BuildAbs(Table&, Args a) { return Max(a[0], -a[0]); }
Expr BuildSelect(Table&, Args a) { return Select(Truth(a[0]), a[1], a[2]); }
Expr BuildModularIndexing(Table&, Args a) { return Mod(FloorDiv(a[0], a[1]), a[2]); }
Expr BuildIdentity(Table&, Args a) { return a[0]; }
Expr BuildInvert(Table&, Args a) { return -a[0] - 1; }
Expr BuildTruncToFloat(Table& table, Args a) { return ToFloat(table.Make(Kind::kTruncToInt, a)); }
Expr BuildDifference(Table&, Args a) { return a[0] - a[1]; }

constexpr Operands kInts = Operands::kInts, kAny = Operands::kAny;

constexpr Function kFunctions[] = {
    {"FloorDiv", 2, 2, kInts, Build<Kind::kFloorDiv>},
    {"CleanDiv", 2, 2, kInts, Build<Kind::kFloorDiv>},
    {"CeilDiv", 2, 2, kInts, Build<Kind::kCeilDiv>},
    {"Mod", 2, 2, kInts, Build<Kind::kMod>},
    {"PythonMod", 2, 2, kInts, Build<Kind::kMod>},
    {"ModularIndexing", 3, 3, kInts, BuildModularIndexing},
    {"PowByNatural", 2, 2, kInts, Build<Kind::kPow>},
    {"Max", 1, kMany, kAny, Build<Kind::kMax>},
    {"max", 1, kMany, kAny, Build<Kind::kMax>},
    {"torch.sym_max", 2, 2, kAny, Build<Kind::kMax>},
    {"Min", 1, kMany, kAny, Build<Kind::kMin>},
    {"min", 1, kMany, kAny, Build<Kind::kMin>},
    {"torch.sym_min", 2, 2, kAny, Build<Kind::kMin>},
    {"Abs", 1, 1, kAny, BuildAbs},
    {"abs", 1, 1, kAny, BuildAbs},
    {"Identity", 1, 1, kAny, BuildIdentity},
    {"Where", 3, 3, kAny, BuildSelect},
    {"ITE", 3, 3, kAny, BuildSelect},
    {"torch.sym_ite", 3, 3, kAny, BuildSelect},
    {"LShift", 2, 2, kInts, Build<Kind::kShiftLeft>},
    {"RShift", 2, 2, kInts, Build<Kind::kShiftRight>},
    {"BitwiseFn_bitwise_and", 2, 2, kInts, Build<Kind::kBitAnd>},
    {"BitwiseFn_bitwise_or", 2, 2, kInts, Build<Kind::kBitOr>},
    {"BitwiseFn_bitwise_xor", 2, 2, kInts, BuildXor},
    {"Equality", 2, 2, kAny, Build<Kind::kEq>},
    {"Eq", 2, 2, kAny, Build<Kind::kEq>},
    {"Unequality", 2, 2, kAny, Build<Kind::kNe>},
    {"Ne", 2, 2, kAny, Build<Kind::kNe>},
    {"StrictLessThan", 2, 2, kAny, Build<Kind::kLt>},
    {"Lt", 2, 2, kAny, Build<Kind::kLt>},
    {"LessThan", 2, 2, kAny, Build<Kind::kLe>},
    {"Le", 2, 2, kAny, Build<Kind::kLe>},
    {"StrictGreaterThan", 2, 2, kAny, BuildSwapped<Kind::kLt>},
    {"Gt", 2, 2, kAny, BuildSwapped<Kind::kLt>},
    {"GreaterThan", 2, 2, kAny, BuildSwapped<Kind::kLe>},
    {"Ge", 2, 2, kAny, BuildSwapped<Kind::kLe>},
    {"And", 0, kMany, kInts, Build<Kind::kAnd>},
    {"Or", 0, kMany, kInts, Build<Kind::kOr>},
    {"Not", 1, 1, kInts, Build<Kind::kNot>},
    {"torch.sym_not", 1, 1, kInts, Build<Kind::kNot>},
    {"ToFloat", 1, 1, kAny, Build<Kind::kToFloat>},
    {"float", 1, 1, kAny, Build<Kind::kToFloat>},
    {"torch.sym_float", 1, 1, kAny, Build<Kind::kToFloat>},
    {"IntTrueDiv", 2, 2, kAny, BuildTrueDiv},
    {"FloatTrueDiv", 2, 2, kAny, Build<Kind::kFloatDiv>},
    {"FloatPow", 2, 2, kAny, Build<Kind::kFloatPow>},
    {"OpaqueUnaryFn_sqrt", 1, 1, kAny, Build<Kind::kFloatSqrt>},
    {"sqrt", 1, 1, kAny, Build<Kind::kFloatSqrt>},
    {"math.sqrt", 1, 1, kAny, Build<Kind::kFloatSqrt>},
    {"torch.sym_sqrt", 1, 1, kAny, Build<Kind::kFloatSqrt>},
    {"torch._sym_sqrt", 1, 1, kAny, Build<Kind::kFloatSqrt>},
    {"TruncToInt", 1, 1, kAny, Build<Kind::kTruncToInt>},
    {"math.trunc", 1, 1, kAny, Build<Kind::kTruncToInt>},
    {"int", 1, 1, kAny, Build<Kind::kTruncToInt>},
    {"torch.sym_int", 1, 1, kAny, Build<Kind::kTruncToInt>},
    {"TruncToFloat", 1, 1, kAny, BuildTruncToFloat},
    {"FloorToInt", 1, 1, kAny, Build<Kind::kFloorToInt>},
    {"floor", 1, 1, kAny, Build<Kind::kFloorToInt>},
    {"math.floor", 1, 1, kAny, Build<Kind::kFloorToInt>},
    {"CeilToInt", 1, 1, kAny, Build<Kind::kCeilToInt>},
    {"ceil", 1, 1, kAny, Build<Kind::kCeilToInt>},
    {"ceiling", 1, 1, kAny, Build<Kind::kCeilToInt>},
    {"math.ceil", 1, 1, kAny, Build<Kind::kCeilToInt>},
    {"RoundToInt", 1, 1, kAny, Build<Kind::kRoundToInt>},
    {"round", 1, 1, kAny, Build<Kind::kRoundToInt>},
};

// Binary operators as the tokens spell them.
constexpr Function kOperators[] = {
    {"+", 2, 2, kAny, Build<Kind::kAdd>},
    {"-", 2, 2, kAny, BuildDifference},
    {"*", 2, 2, kAny, Build<Kind::kMul>},
    {"/", 2, 2, kAny, BuildTrueDiv},
    {"//", 2, 2, kInts, Build<Kind::kFloorDiv>},
    {"%", 2, 2, kInts, Build<Kind::kMod>},
    {"**", 2, 2, kAny, Build<Kind::kPow>},
    {"<<", 2, 2, kInts, Build<Kind::kShiftLeft>},
    {">>", 2, 2, kInts, Build<Kind::kShiftRight>},
    {"&", 2, 2, kInts, Build<Kind::kBitAnd>},
    {"^", 2, 2, kInts, BuildXor},
    {"|", 2, 2, kInts, Build<Kind::kBitOr>},
    {"~", 1, 1, kInts, BuildInvert},
    {"==", 2, 2, kAny, Build<Kind::kEq>},
    {"!=", 2, 2, kAny, Build<Kind::kNe>},
    {"<", 2, 2, kAny, Build<Kind::kLt>},
    {"<=", 2, 2, kAny, Build<Kind::kLe>},
    {">", 2, 2, kAny, BuildSwapped<Kind::kLt>},
    {">=", 2, 2, kAny, BuildSwapped<Kind::kLe>},
};

const Function* Find(std::span<const Function> functions, std::string_view name) {
  const auto it = std::ranges::find(functions, name, &Function::name);
  return it == functions.end() ? nullptr : &*it;
}

Result<Expr> Invoke(Table& table, const Token& at, const Function& function, Args args) {
  if (args.size() < function.min_args || args.size() > function.max_args) {
    return ParseError(at,
                      fmt::format("`{}` does not take {} arguments", function.name, args.size()));
  }
  const bool floats = std::ranges::any_of(args, &Expr::is_float_valued);
  if (floats && function.operands == kInts) {
    return ParseError(at, fmt::format("`{}` of a float; it takes integers", function.name),
                      Code::kUnsupported);
  }
  if (function.build == BuildSelect && args[0].is_float_valued()) {
    return ParseError(at, "a float as a condition", Code::kUnsupported);
  }
  return function.build(table, args);
}

}  // namespace

bool IsFunction(std::string_view name) { return Find(kFunctions, name) != nullptr; }

Result<Expr> MakeCall(Table& table, const Token& at, std::string_view name, Args args) {
  const Function* function = Find(kFunctions, name);
  if (!function)
    return ParseError(at, fmt::format("the function `{}` is not known", name), Code::kUnsupported);
  return Invoke(table, at, *function, args);
}

Result<Expr> MakeOperator(Table& table, const Token& at, Expr a, Expr b) {
  const Function* function = Find(kOperators, at.text);
  if (!function) return ParseError(at, "not an operator");
  const Expr args[] = {a, b};
  const bool integer_power = at.text == "**" && !a.is_float_valued() && b.is_int() && b.value() < 0;
  if (integer_power)
    return ParseError(at, "a negative power of an integer is no integer", Code::kUnsupported);
  return Invoke(table, at, *function, Args(args, function->max_args));
}

}  // namespace liveshape::sym
