// The three spellings (G9, X2); the judges of meaning are in tests/sym.
#include "sym/parse.h"

#include <gtest/gtest.h>

namespace liveshape::sym {
namespace {

class ParseTest : public ::testing::Test {
 protected:
  Table t;
  Expr s = t.Symbol({.name = "s0", .lo = 1, .hi = 4096, .display = "S"});
  Expr r = t.Symbol({.name = "s1", .lo = 0, .hi = 64});

  Expr Infix(std::string_view text) {
    auto e = ParseInfix(t, text);
    EXPECT_TRUE(e.ok()) << text << ": " << e.status().message();
    return e.ok() ? *e : Expr();
  }
  Expr Srepr(std::string_view text) {
    auto e = ParseSrepr(t, text);
    EXPECT_TRUE(e.ok()) << text << ": " << e.status().message();
    return e.ok() ? *e : Expr();
  }
  std::string InfixError(std::string_view text) {
    auto e = ParseInfix(t, text);
    return e.ok() ? "read as " + ToString(*e) : e.status().message();
  }
  std::string SreprError(std::string_view text) {
    auto e = ParseSrepr(t, text);
    return e.ok() ? "read as " + ToString(*e) : e.status().message();
  }
};

TEST_F(ParseTest, G9_OneExpressionInThreeSpellings) {
  const Expr want = FloorDiv(2 * s + 1, t.Int(4));
  EXPECT_EQ(Infix("(2*S + 1)//4"), want);
  EXPECT_EQ(Infix("(2*s0 + 1) // 4"), want);
  EXPECT_EQ(Srepr("FloorDiv(Add(Mul(Integer(2), Symbol('s0', positive=True, integer=True)), "
                  "Integer(1)), Integer(4))"),
            want);
  const auto resolve = [&](std::string_view leaf) -> std::optional<Expr> {
    if (leaf == "L['x'].size()[0]") return s;
    if (leaf == "L['flat_args'][1].size()[-1]") return r;
    if (leaf == "L['d']['n']") return t.Int(3);
    return std::nullopt;
  };
  EXPECT_EQ(*ParsePythonGuard(t, "(2*L[\"x\"].size()[ 0 ] + 1) // 4", resolve), want);
  EXPECT_EQ(*ParsePythonGuard(t, "L['x'].size()[0] % 4 == 0", resolve),
            Eq(Mod(s, t.Int(4)), t.Int(0)));
  EXPECT_EQ(*ParsePythonGuard(t, "2 <= L['flat_args'][1].size()[-1] <= L['d']['n'] + 7", resolve),
            And(Le(t.Int(2), r), Le(r, t.Int(10))));
  EXPECT_EQ(*ParsePythonGuard(t, "torch.sym_max(L['x'].size()[0], s1) > 5", resolve),
            Lt(t.Int(5), Max(s, r)));
  const auto missing = ParsePythonGuard(t, "L['y'].size()[0] == 1", resolve);
  EXPECT_EQ(missing.status().code(), Code::kNotFound);
}

TEST_F(ParseTest, PythonPrecedence) {
  EXPECT_EQ(Infix("2 + 3*4"), t.Int(14));
  EXPECT_EQ(Infix("-2**2"), t.Int(-4));
  EXPECT_EQ(Infix("2**3**2"), t.Int(512));
  EXPECT_EQ(Infix("-7//2"), t.Int(-4));
  EXPECT_EQ(Infix("7 % -3"), t.Int(-2));
  EXPECT_EQ(Infix("100//7*3"), t.Int(42));
  EXPECT_EQ(Infix("1 | 6 & 3 ^ 1 << 2"), t.Int(7));
  EXPECT_EQ(Infix("not 1 == 2 and 3 < 4 < 5"), t.Int(1));
  EXPECT_EQ(Infix("1 if 0 else 2 if 1 else 3"), t.Int(2));
  EXPECT_EQ(Infix("7 - 2 - 1"), t.Int(4));
  EXPECT_EQ(Infix("~5"), t.Int(-6));
  EXPECT_EQ(Infix("-9223372036854775808"), t.Int(INT64_MIN));
  EXPECT_EQ(Infix("floor(7 / 2) + math.ceil(7 / 2) + round(2.5) + int(-3.7)"),
            t.Int(3 + 4 + 2 - 3));
  EXPECT_EQ(Infix("True + true - False"), t.Int(2));
}

TEST_F(ParseTest, FloatsByOperandTypes) {
  EXPECT_TRUE(Infix("S / 2").is_float_valued());
  EXPECT_EQ(Infix("S / 2").kind(), Kind::kIntTrueDiv);
  EXPECT_EQ(Infix("ToFloat(S) / 2").kind(), Kind::kFloatDiv);
  EXPECT_EQ(Infix("S + 0.5").kind(), Kind::kFloatAdd);
  EXPECT_EQ(Infix("Min(S, 0.5)").kind(), Kind::kFloatMin);
  EXPECT_EQ(Infix("CeilToInt(S / 4)"), CeilDiv(s, t.Int(4)));
  EXPECT_EQ(Infix("TruncToInt(S / 4)"), FloorDiv(s, t.Int(4)));
}

TEST_F(ParseTest, SympyFractionsStayExact) {
  EXPECT_EQ(Srepr("floor(Mul(Rational(1, 3), Symbol('s0')))"), FloorDiv(s, t.Int(3)));
  EXPECT_EQ(Srepr("FloorDiv(Mul(Rational(1, 2), Symbol('s0')), Integer(3))"),
            FloorDiv(s, t.Int(6)));
  EXPECT_EQ(Srepr("Mul(Symbol('s1'), Pow(Symbol('s0'), Integer(-1)))").kind(), Kind::kIntTrueDiv);
  EXPECT_EQ(Srepr("Rational(1, 2)"), t.Float(0.5));
  EXPECT_EQ(Srepr("Pow(Symbol('s0'), Rational(1, 2))").kind(), Kind::kFloatSqrt);
  EXPECT_EQ(Srepr("ModularIndexing(Symbol('s0'), Integer(4), Integer(3))"),
            Mod(FloorDiv(s, t.Int(4)), t.Int(3)));
}

TEST_F(ParseTest, NewSymbolsOfSreprAreUnbounded) {
  const Expr u = Srepr("Symbol('u7', integer=True)"),
             size = Srepr("Symbol('s77', positive=True, integer=True)");
  EXPECT_EQ(t.Bounds(u), Interval{});
  EXPECT_EQ(t.Bounds(size).lo, 0);  // torch assumes at least 2 while tracing; a size may be 0
  EXPECT_FALSE(t.Bounds(size).bounded_above());
}

TEST_F(ParseTest, PiecewiseWithoutDefaultFailsOnlyThere) {
  const Expr e =
      Srepr("Piecewise(ExprCondPair(Integer(5), StrictGreaterThan(Symbol('s0'), Integer(3))))");
  EXPECT_EQ(*t.Evaluate(e, {{4, 0}}), 5);
  EXPECT_FALSE(t.Evaluate(e, {{3, 0}}).ok());
}

TEST_F(ParseTest, X2_ErrorsNameTheColumn) {
  EXPECT_EQ(InfixError("2*T + 1"),
            "column 3: found `T`, no symbol has this name: there are S (s0), s1");
  EXPECT_EQ(InfixError("2*(S + 1"), "column 9: found the end, expected `)`");
  EXPECT_EQ(InfixError("S +"), "column 4: found the end, expected a number, a name or `(`");
  EXPECT_EQ(InfixError("S $ 2"), "column 3: found `$`, expected an operator or the end");
  EXPECT_EQ(InfixError("99999999999999999999"),
            "column 1: found `99999999999999999999`, an integer that does not fit in 64 bits");
  EXPECT_EQ(InfixError("FloorDiv(S)"),
            "column 1: found `FloorDiv`, `FloorDiv` does not take 1 arguments");
  EXPECT_EQ(InfixError("2.5 // S"), "column 5: found `//`, `//` of a float; it takes integers");
  EXPECT_EQ(InfixError("cosh(S)"), "column 5: found `(`, the function `cosh` is not known");
  EXPECT_EQ(InfixError("S ** -1"),
            "column 3: found `**`, a negative power of an integer is no integer");
  EXPECT_EQ(SreprError("Foo(Integer(1))"),
            "column 1: found `Foo`, the function `Foo` is not known");
  EXPECT_EQ(SreprError("oo"), "column 1: found `oo`, not a finite expression");
  EXPECT_EQ(SreprError("Symbol('zuf0')"),
            "column 1: found `Symbol`, the float symbol `zuf0`: sizes depend on integers only");
}

TEST_F(ParseTest, X3_AnyTextIsAnExpressionOrAnError) {
  const std::string deep = std::string(100000, '(') + "1" + std::string(100000, ')');
  EXPECT_NE(InfixError(deep).find("nested deeper"), std::string::npos);
  EXPECT_NE(InfixError(std::string(100000, '-') + "1").find("nested deeper"), std::string::npos);
  std::string calls;
  for (int i = 0; i < 1000; ++i) calls += "Identity(";
  EXPECT_NE(SreprError(calls).find("nested deeper"), std::string::npos);
  EXPECT_NE(InfixError(std::string(1 << 20, '1')).find("characters"), std::string::npos);
  for (const char* text : {"",
                           "(",
                           ")",
                           "'",
                           "L[",
                           "1 if",
                           "not",
                           "a b",
                           "**",
                           "Min()",
                           ".",
                           "1..2",
                           "Symbol(",
                           "Integer(",
                           "Float(",
                           "Piecewise(",
                           "Rational(1, 0)",
                           "Add(,)",
                           "x.",
                           "1 <",
                           "\xff\xfe"}) {
    (void)ParseSrepr(t, text);
    (void)ParseInfix(t, text);
    (void)ParsePythonGuard(t, text, [](std::string_view) { return std::nullopt; });
  }
  // Printed, these would be read back as something else.
  for (const char* name : {"", "3", "a b", "not", "True", "a.b"}) {
    const std::string error = SreprError(fmt::format("Symbol('{}')", name));
    EXPECT_NE(error.find("the symbol's name"), std::string::npos) << name;
  }
  // Sharing makes a short text large when multiplied out; it stays a product.
  EXPECT_EQ(Infix("(S + s1 + 1)**1000").kind(), Kind::kPow);
}

TEST_F(ParseTest, LongProductsReadBackAsThemselves) {
  for (const char* text :
       {"(S + 1)**9*(S - s1)*(S - s1)", "(S + 1)**9*(S - s1)*(S + s1)", "(S + 1)**6*(S - s1)**2",
        "((S + 1)**9*(S - s1) + 1)**2", "(S + 1)**9*(S + s1)*(S + s1)*(S**2 + 2*S*s1 + s1**2)"}) {
    const Expr e = Infix(text);
    EXPECT_EQ(Infix(ToString(e)), e) << text << " is " << ToString(e);
  }
  EXPECT_EQ(Infix("(S + 1)**9*(S - s1)*(S - s1)"), Infix("(S + 1)**9*(S - s1)**2"));
}

}  // namespace
}  // namespace liveshape::sym
