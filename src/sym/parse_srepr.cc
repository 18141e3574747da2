// sympy's srepr, as `.pt2` stores sizes.
#include <vector>

#include "sym/calls.h"
#include "sym/lexer.h"
#include "sym/parse.h"
#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

// sympy writes a/b as Mul(a, Pow(b, Integer(-1))) and halves as Rational(1, 2): a quotient stays
// one until something needs its value, so that floor(s0/2) and FloorDiv(s0/2, 3) are exact.
struct Fraction {
  Expr numerator;
  Expr denominator = {};  // none: 1
};

class SreprParser {
 public:
  SreprParser(Table& table, std::string_view text) : table_(table), lexer_(text) {}

  Result<Expr> Parse() {
    LS_ASSIGN_OR_RETURN(Fraction value, Node());
    if (lexer_.peek().type != Token::Type::kEnd)
      return ParseError(lexer_.peek(), "expected the end");
    return Whole(value);
  }

 private:
  Expr Whole(const Fraction& f) {
    if (!f.denominator) return f.numerator;
    const bool floats = f.numerator.is_float_valued() || f.denominator.is_float_valued();
    const Expr args[] = {f.numerator, f.denominator};
    return table_.Make(floats ? Kind::kFloatDiv : Kind::kIntTrueDiv, args);
  }

  Result<Fraction> Node() {
    const Token name = lexer_.Take();
    if (name.type != Token::Type::kName) return ParseError(name, "expected a sympy expression");
    if (name.text == "true") return Fraction{table_.Int(1)};
    if (name.text == "false") return Fraction{table_.Int(0)};
    if (!lexer_.peek().Is("("))
      return ParseError(name, "not a finite expression", Code::kUnsupported);
    if (depth_ >= kMaxParseDepth)
      return ParseError(name, fmt::format("nested deeper than {}", kMaxParseDepth));
    ++depth_;
    Result<Fraction> result = Call(name);
    --depth_;
    return result;
  }

  Result<Fraction> Call(const Token& name) {
    LS_RETURN_IF_ERROR(lexer_.Expect("("));
    if (name.text == "Symbol") return Symbol(name);
    if (name.text == "Integer") return Integer();
    if (name.text == "Float") return Float();
    if (name.text == "Rational") return Rational(name);
    if (name.text == "Piecewise") return Piecewise(name);
    std::vector<Fraction> args;
    while (!lexer_.Accept(")")) {
      if (!args.empty()) LS_RETURN_IF_ERROR(lexer_.Expect(","));
      if (lexer_.Accept(")")) break;  // a trailing comma
      LS_ASSIGN_OR_RETURN(Fraction arg, Node());
      args.push_back(arg);
    }
    return Build(name, args);
  }

  Result<Fraction> Build(const Token& name, const std::vector<Fraction>& args) {
    if (name.text == "Mul") return Multiply(args);
    if (name.text == "Pow" && args.size() == 2) return Power(name, args[0], args[1]);
    // Exact where a float would round: floor(a/b), ceiling(a/b), FloorDiv(a/b, c/d) = a*d // (b*c).
    const bool fraction = !args.empty() && args[0].denominator && AllInts(args);
    if (fraction && args.size() == 1 && name.text == "floor") {
      return Fraction{FloorDiv(args[0].numerator, args[0].denominator)};
    }
    if (fraction && args.size() == 1 && name.text == "ceiling") {
      return Fraction{CeilDiv(args[0].numerator, args[0].denominator)};
    }
    if (args.size() == 2 && AllInts(args) && (args[0].denominator || args[1].denominator) &&
        (name.text == "FloorDiv" || name.text == "CleanDiv")) {
      return Fraction{FloorDiv(Times(args[0].numerator, args[1].denominator),
                               Times(args[1].numerator, args[0].denominator))};
    }
    std::vector<Expr> whole;
    for (const Fraction& arg : args) whole.push_back(Whole(arg));
    if (name.text == "Add") return Fraction{table_.Make(Kind::kAdd, whole)};
    LS_ASSIGN_OR_RETURN(Expr result, MakeCall(table_, name, name.text, whole));
    return Fraction{result};
  }

  static bool AllInts(const std::vector<Fraction>& args) {
    for (const Fraction& a : args) {
      if (a.numerator.is_float_valued() || (a.denominator && a.denominator.is_float_valued()))
        return false;
    }
    return true;
  }

  static Expr Times(Expr a, Expr b_or_none) { return b_or_none ? a * b_or_none : a; }

  Result<Fraction> Multiply(const std::vector<Fraction>& args) {
    std::vector<Expr> above, below;
    for (const Fraction& arg : args) {
      above.push_back(arg.numerator);
      if (arg.denominator) below.push_back(arg.denominator);
    }
    Fraction product = {table_.Make(Kind::kMul, above)};
    if (!below.empty()) product.denominator = table_.Make(Kind::kMul, below);
    return product;
  }

  Result<Fraction> Power(const Token& at, const Fraction& base, const Fraction& exponent) {
    const Expr e = exponent.numerator;
    if (exponent.denominator) {
      if (e.is_int(1) && exponent.denominator.is_int(2)) {
        return Fraction{table_.Make(Kind::kFloatSqrt, {{ToFloat(Whole(base))}})};
      }
      const Expr args[] = {ToFloat(Whole(base)), Whole(exponent)};
      return Fraction{table_.Make(Kind::kFloatPow, args)};
    }
    const bool integer_power = e.is_int() && !base.numerator.is_float_valued();
    if (integer_power && e.value() < 0) {
      if (e.value() == INT64_MIN || base.denominator)
        return ParseError(at, "a power that is not read", Code::kUnsupported);
      return Fraction{table_.Int(1), Pow(base.numerator, -e.value())};
    }
    const Expr args[] = {Whole(base), e};
    return Fraction{table_.Make(Kind::kPow, args)};
  }

  // name, then assumptions such as positive=True. A size is never negative, whatever torch assumed
  // of it while tracing (positive: at least 2), so that much is taken as its range.
  Result<Fraction> Symbol(const Token& at) {
    const Token name = lexer_.Take();
    if (name.type != Token::Type::kString || !IsSymbolName(name.text))
      return ParseError(name, "expected the symbol's name: letters, digits and _");
    SymbolInfo info = {
        .name = std::string(name.text), .lo = Interval::kNegInf, .hi = Interval::kPosInf};
    while (!lexer_.Accept(")")) {
      LS_RETURN_IF_ERROR(lexer_.Expect(","));
      const Token key = lexer_.Take();
      LS_RETURN_IF_ERROR(lexer_.Expect("="));
      const Token value = lexer_.Take();
      const bool not_negative = key.Is("positive") || key.Is("nonnegative");
      if (not_negative && value.Is("True")) info.lo = 0;
    }
    if (auto known = table_.FindSymbol(info.name)) return Fraction{*known};
    if (info.name.starts_with("zuf") || info.name.starts_with("zf")) {
      return ParseError(
          at, fmt::format("the float symbol `{}`: sizes depend on integers only", info.name),
          Code::kUnsupported);
    }
    return Fraction{table_.Symbol(std::move(info))};
  }

  Result<Expr> SignedInteger() {
    const bool negative = lexer_.Accept("-");
    const Token digits = lexer_.Take();
    if (digits.type != Token::Type::kInt) return ParseError(digits, "expected an integer");
    return IntegerFrom(table_, digits, negative);
  }

  Result<Fraction> Integer() {
    LS_ASSIGN_OR_RETURN(Expr value, SignedInteger());
    LS_RETURN_IF_ERROR(lexer_.Expect(")"));
    return Fraction{value};
  }

  Result<Fraction> Rational(const Token& at) {
    LS_ASSIGN_OR_RETURN(Expr numerator, SignedInteger());
    LS_RETURN_IF_ERROR(lexer_.Expect(","));
    LS_ASSIGN_OR_RETURN(Expr denominator, SignedInteger());
    LS_RETURN_IF_ERROR(lexer_.Expect(")"));
    if (denominator.value() <= 0) return ParseError(at, "a denominator that is not positive");
    return Fraction{numerator, denominator};
  }

  Result<Fraction> Float() {
    const Token number = lexer_.Take();
    if (number.type != Token::Type::kString)
      return ParseError(number, "expected the digits of a float in quotes");
    LS_ASSIGN_OR_RETURN(Expr value, FloatFrom(table_, number));
    while (!lexer_.Accept(")")) {  // precision=53
      if (lexer_.peek().type == Token::Type::kEnd) return ParseError(lexer_.peek(), "expected `)`");
      lexer_.Take();
    }
    return Fraction{value};
  }

  // Piecewise(ExprCondPair(e, c), ...): the first whose condition holds.
  Result<Fraction> Piecewise(const Token& at) {
    struct Case { Expr value, condition; };
    std::vector<Case> cases;
    while (!lexer_.Accept(")")) {
      if (!cases.empty()) LS_RETURN_IF_ERROR(lexer_.Expect(","));
      LS_RETURN_IF_ERROR(lexer_.Expect("ExprCondPair"));
      LS_RETURN_IF_ERROR(lexer_.Expect("("));
      LS_ASSIGN_OR_RETURN(Fraction value, Node());
      LS_RETURN_IF_ERROR(lexer_.Expect(","));
      LS_ASSIGN_OR_RETURN(Fraction condition, Node());
      LS_RETURN_IF_ERROR(lexer_.Expect(")"));
      const Expr truth = Whole(condition);
      if (truth.is_float_valued())
        return ParseError(at, "a float as a condition", Code::kUnsupported);
      cases.push_back({Whole(value), truth});
    }
    if (cases.empty()) return ParseError(at, "a Piecewise without cases");
    // Where no condition holds there is no value: 1//0 is an error when evaluated, and only then.
    Expr result = FloorDiv(table_.Int(1), table_.Int(0));
    for (size_t i = cases.size(); i-- > 0;)
      result = Select(Truth(cases[i].condition), cases[i].value, result);
    return Fraction{result};
  }

  Table& table_;
  Lexer lexer_;
  int depth_ = 0;
};

}  // namespace

Result<Expr> ParseSrepr(Table& table, std::string_view text) {
  if (text.size() > kMaxTextLength) {
    return InvalidArgument("an expression of {} characters; at most {} are read", text.size(),
                           kMaxTextLength);
  }
  return SreprParser(table, text).Parse();
}

}  // namespace liveshape::sym
