// Canonical form, rules and divisibility (G1, G9).
#include "sym/expr.h"

#include <gtest/gtest.h>

#include "sym/parse.h"

namespace liveshape::sym {
namespace {

class ExprTest : public ::testing::Test {
 protected:
  Table t;
  Expr s = t.Symbol({.name = "s0", .lo = 1, .hi = 4096});
  Expr r = t.Symbol({.name = "s1", .lo = 2, .hi = 64});
  Expr z = t.Symbol({.name = "z", .lo = 0, .hi = 7});     // may be zero
  Expr n = t.Symbol({.name = "n", .lo = -10, .hi = 10});  // any sign
  Expr k(int64_t v) { return t.Int(v); }

  // Both sides were built differently and must be one pointer.
  static void ExpectSame(Expr a, Expr b) {
    EXPECT_TRUE(a == b) << ToString(a) << "  vs  " << ToString(b);
  }
};

TEST_F(ExprTest, G9_EqualPolynomialsAreTheSamePointer) {
  ExpectSame(2 * s + 1, s + s + 1);
  ExpectSame((s + r) * (s - r), s * s - r * r);
  ExpectSame((s + 1) * (s + 1), Pow(s, 2) + 2 * s + 1);
  ExpectSame(Pow(s * r, 3), Pow(s, 3) * Pow(r, 3));
  ExpectSame(s * r - r * s, k(0));
  ExpectSame(-(s - r), r - s);
  ExpectSame(Pow(s, 0), k(1));
  ExpectSame(FloorDiv(s, k(2)) * 3 - FloorDiv(s, k(2)), 2 * FloorDiv(s, k(2)));
}

TEST_F(ExprTest, ProductsOfLongSumsStayProducts) {
  Expr sum = k(0), other = k(0);
  for (int i = 0; i < 20; ++i) {
    sum = sum + t.Symbol({.name = "a" + std::to_string(i)});
    other = other + t.Symbol({.name = "b" + std::to_string(i)});
  }
  const Expr product = sum * other;
  EXPECT_EQ(product.kind(), Kind::kMul);
  ExpectSame(product - product, k(0));
  EXPECT_EQ((s * sum).kind(), Kind::kAdd);
}

TEST_F(ExprTest, DivisionCancelsOnlyWhereTheDivisorIsNotZero) {
  ExpectSame(FloorDiv(s * r, r), s);
  ExpectSame(FloorDiv(s * n, s), n);
  EXPECT_EQ(FloorDiv(s * z, z).kind(), Kind::kFloorDiv);
  EXPECT_EQ(FloorDiv(s * n, n).kind(), Kind::kFloorDiv);
  EXPECT_EQ(FloorDiv(z, z).kind(), Kind::kFloorDiv);
  EXPECT_EQ(Mod(z * s, z).kind(), Kind::kMod);
  EXPECT_FALSE(t.Evaluate(FloorDiv(s * z, z), {{1, 2, 0, 0}}).ok());
}

TEST_F(ExprTest, DivisionRules) {
  ExpectSame(FloorDiv(2 * s + 1, k(2)), s);
  ExpectSame(FloorDiv(8 * s + 4 * r + 3, k(4)), 2 * s + r);
  ExpectSame(FloorDiv(s + 7, k(4)), FloorDiv(s + 3, k(4)) + 1);
  ExpectSame(FloorDiv(FloorDiv(s, k(3)), k(5)), FloorDiv(s, k(15)));
  ExpectSame(FloorDiv(FloorDiv(s, r), k(5)), FloorDiv(s, 5 * r));
  ExpectSame(CeilDiv(CeilDiv(s, k(2)), k(2)), CeilDiv(s, k(4)));
  ExpectSame(FloorDiv(s * r + s, r + 1), s);
  ExpectSame(FloorDiv(s * r + 3, r), s + FloorDiv(k(3), r));
  ExpectSame(FloorDiv(z, k(8)), k(0));
  ExpectSame(FloorDiv(z - 8, k(8)), k(-1));
  ExpectSame(FloorDiv(s, k(-2)), FloorDiv(-s, k(2)));
  ExpectSame(FloorDiv(6 * s, 4 * r), FloorDiv(3 * s, 2 * r));
  ExpectSame(FloorDiv(Max(4 * s, 8 * r), k(4)), Max(s, 2 * r));
  ExpectSame(FloorDiv(Mod(s, r), r), k(0));
}

TEST_F(ExprTest, ModRules) {
  ExpectSame(Mod(4 * s, k(4)), k(0));
  ExpectSame(Mod(4 * s + 2, k(4)), k(2));
  ExpectSame(Mod(2 * s + 1, k(4)), 2 * Mod(s, k(2)) + 1);
  ExpectSame(Mod(s * r, r), k(0));
  ExpectSame(Mod(z, k(8)), z);
  ExpectSame(Mod(z + 16, k(8)), z);
  ExpectSame(Mod(Mod(s, k(8)), k(4)), Mod(s, k(4)));
  ExpectSame(Mod(s, k(1)), k(0));
  ExpectSame(Mod(s, k(-3)), -Mod(-s, k(3)));
  ExpectSame(Mod(Max(4 * s, 8 * r), k(4)), k(0));
}

TEST_F(ExprTest, MinMaxAreDecidedByRanges) {
  ExpectSame(Min(s, k(5000)), s);
  ExpectSame(Max(s, k(0)), s);
  ExpectSame(Max(s, s + 1), s + 1);
  ExpectSame(Min(s, Min(r, s)), Min(r, s));
  ExpectSame(Min(s, Max(s, n)), s);
  ExpectSame(Max(k(-5), k(-7)), k(-5));
  EXPECT_EQ(Min(s, r).kind(), Kind::kMin);
}

TEST_F(ExprTest, RelationsAreNormalised) {
  ExpectSame(Gt(2 * s, 2 * r + 1), Le(r + 1, s));
  ExpectSame(Eq(s - r, k(0)), Eq(r, s));
  ExpectSame(Eq(2 * s, 2 * r + 1), k(0));
  ExpectSame(Ne(2 * s, k(1)), k(1));
  ExpectSame(Lt(s, k(5000)), k(1));
  ExpectSame(Not(Le(s, r)), Lt(r, s));
  ExpectSame(Eq(Eq(s, r), k(0)), Ne(s, r));
  ExpectSame(Eq(2 * Eq(s, r), k(0)), Ne(s, r));
  ExpectSame(Ne(3 - 3 * Le(s, r), k(0)), Lt(r, s));
  ExpectSame(And(k(1), Le(s, r)), Le(s, r));
  ExpectSame(Or(Le(s, r), k(1)), k(1));
  ExpectSame(Select(Le(s, k(5000)), r, z), r);
  EXPECT_EQ(ToString(Le(-s, k(-5))), "5 <= s0");
  EXPECT_EQ(ToString(Lt(s, k(64))), "s0 <= 63");
}

TEST_F(ExprTest, OverflowingConstantsStayForEvaluationToReport) {
  const Expr big = k(INT64_MAX);
  const Expr sum = big + 1, product = k(INT64_MIN) * -1, power = Pow(k(10), 40),
             quotient = FloorDiv(k(INT64_MIN), k(-1));
  for (Expr e : {sum, product, power, quotient, s * big * 4}) {
    EXPECT_FALSE(e.is_int());
    EXPECT_FALSE(t.Evaluate(e, {{5, 2, 0, 0}}).ok()) << ToString(e);
  }
  ExpectSame(sum - 2, k(INT64_MAX - 1));
  ExpectSame(FloorDiv(k(1), k(0)), FloorDiv(k(1), k(0)));
  EXPECT_FALSE(t.Evaluate(Mod(k(1), k(0)), {{1, 2, 0, 0}}).ok());
  // A sum with several constants keeps its value where it has one.
  EXPECT_EQ(*t.Evaluate(FloorDiv(n + big + 4, k(2)), {{1, 2, 0, -10}}), (INT64_MAX - 6) / 2);
}

// Whatever else a product of constants that overflows is multiplied with, its text reads back to the same pointer.
TEST_F(ExprTest, OverflowingProductsHaveOneForm) {
  const Expr a = k(922337203), b = k(-92233726854709), big = a * b;
  ExpectSame(b * a, big);
  for (Expr e : {big, -big, 4 * big, Pow(big, 3), s * big * 12, Pow(s + big * r, 4) - r * big,
                 big * big * s * 7, Pow(k(10), 40) * big, FloorDiv(r, big + s)}) {
    const auto read = ParseInfix(t, ToString(e));
    ASSERT_TRUE(read.ok()) << ToString(e);
    EXPECT_TRUE(*read == e) << ToString(e) << " against " << ToString(*read);
    EXPECT_FALSE(t.Evaluate(e, {{5, 2, 0, 0}}).ok()) << ToString(e);
  }
}

TEST_F(ExprTest, DivisibilityIsThreeValued) {
  EXPECT_EQ(t.Divides(k(4), 4 * s + 8 * r), Tri::kYes);
  EXPECT_EQ(t.Divides(k(4), 4 * s + 2), Tri::kNo);
  EXPECT_EQ(t.Divides(k(4), 2 * s + 1), Tri::kNo);
  EXPECT_EQ(t.Divides(k(4), s), Tri::kUnknown);
  EXPECT_EQ(t.Divides(r, s * r), Tri::kYes);
  EXPECT_EQ(t.Divides(r + 1, s * r + s), Tri::kYes);
  EXPECT_EQ(t.Divides(z, s * z), Tri::kUnknown);
  EXPECT_EQ(t.Divides(k(0), s), Tri::kUnknown);
  EXPECT_TRUE(t.Quotient(6 * s * r, 2 * r) == std::optional(3 * s));
  EXPECT_FALSE(t.Quotient(s, k(2)).has_value());
}

TEST_F(ExprTest, PythonFloorSemantics) {
  const Expr q = FloorDiv(n, k(2)), m = Mod(n, k(3)), m2 = Mod(s, n);
  EXPECT_EQ(*t.Evaluate(q, {{1, 2, 0, -7}}), -4);
  EXPECT_EQ(*t.Evaluate(m, {{1, 2, 0, -7}}), 2);
  EXPECT_EQ(*t.Evaluate(m2, {{7, 2, 0, -3}}), -2);
}

TEST_F(ExprTest, FloatsRoundAsTorchDoes) {
  const Expr half = t.Make(Kind::kIntTrueDiv, {{n, k(2)}});
  const auto at = [&](Kind kind, int64_t v) {
    return *t.Evaluate(t.Make(kind, {{half}}), {{1, 2, 0, v}});
  };
  EXPECT_EQ(at(Kind::kRoundToInt, 5), 2);  // half to even
  EXPECT_EQ(at(Kind::kRoundToInt, 7), 4);
  EXPECT_EQ(at(Kind::kTruncToInt, -5), -2);
  EXPECT_EQ(at(Kind::kFloorToInt, -5), -3);
  EXPECT_EQ(at(Kind::kCeilToInt, -5), -2);
  ExpectSame(t.Make(Kind::kCeilToInt, {{half}}), CeilDiv(n, k(2)));
  // Python's int / int rounds once: 2^53 + 1 has no double, but this quotient does.
  const Expr wide = t.Make(Kind::kIntTrueDiv, {{k(3 * ((int64_t{1} << 53) + 1)), k(3)}});
  EXPECT_EQ(wide.float_value(), 0x1p53);
  const Expr huge = t.Make(Kind::kTruncToInt, {{t.Float(1e300) * n}});
  EXPECT_FALSE(t.Evaluate(huge, {{1, 2, 0, 1}}).ok());
  EXPECT_EQ(*t.Evaluate(Lt(half, t.Float(2.5)), {{1, 2, 0, 4}}), 1);
}

TEST_F(ExprTest, OnlyTheChosenSideIsEvaluated) {
  const Expr guarded = Select(Ne(z, k(0)), FloorDiv(s, z), k(7));
  EXPECT_EQ(*t.Evaluate(guarded, {{9, 2, 0, 0}}), 7);
  EXPECT_EQ(*t.Evaluate(guarded, {{9, 2, 2, 0}}), 4);
  const Expr both = And(Ne(z, k(0)), Eq(FloorDiv(s, z), k(3)));
  EXPECT_EQ(*t.Evaluate(both, {{9, 2, 0, 0}}), 0);
  EXPECT_EQ(*t.Evaluate(both, {{9, 2, 3, 0}}), 1);
}

TEST_F(ExprTest, MessagesNameExpressionAndPoint) {
  EXPECT_EQ(t.Evaluate(1 + FloorDiv(s, z), {{9, 2, 0, 0}}).status().message(),
            "`s0//z` divides by zero, in `s0//z + 1` at s0=9, z=0");
}

TEST_F(ExprTest, Printing) {
  EXPECT_EQ(ToString(FloorDiv(2 * s + 1, k(3))), "(2*s0 + 1)//3");
  EXPECT_EQ(ToString(64 - z), "64 - z");
  EXPECT_EQ(ToString(Mod(s, k(4))), "s0 % 4");
  EXPECT_EQ(ToString(4 * FloorDiv(s, k(4))), "4*(s0//4)");
  EXPECT_EQ(ToString(-Pow(s, 2) - r), "-s0**2 - s1");
  t.SetDisplay(s.symbol(), "S");
  EXPECT_EQ(ToString(Min(s, r)), "Min(S, s1)");
  t.SetDisplay(r.symbol(), "n");  // another symbol's name: ambiguous, not used
  EXPECT_EQ(ToString(r + 1), "s1 + 1");
}

TEST_F(ExprTest, SubstituteImportAndFreeSymbols) {
  const Expr e = FloorDiv(s * r + z, k(2));
  ExpectSame(
      t.Substitute(
          e, [&](uint32_t i) { return i == s.symbol() ? std::optional(2 * z) : std::nullopt; }),
      FloorDiv(2 * z * r + z, k(2)));
  EXPECT_EQ(t.FreeSymbols(e), (std::vector<uint32_t>{0, 1, 2}));
  Table other;
  other.Symbol({.name = "z", .lo = 0, .hi = 7});
  const Expr copy = other.Import(e);
  EXPECT_EQ(ToString(copy).size(), ToString(e).size());
  EXPECT_EQ(other.symbols().size(), 3u);
  ExpectSame(t.Import(copy), e);
}

TEST_F(ExprTest, StagesFollowTheLatestSymbol) {
  const Expr u = t.Symbol({.name = "u0", .lo = 0, .hi = 9, .stage = 2});
  EXPECT_EQ(t.StageOf(s + 1), 0);
  EXPECT_EQ(t.StageOf(s * u), 2);
}

TEST_F(ExprTest, FrozenTablesFindButDoNotMake) {
  const Expr e = 2 * s + 1;
  t.Freeze();
  ExpectSame(2 * s + 1, e);
  EXPECT_EQ(t.Bounds(e).hi, 8193);
  EXPECT_DEATH(s * r * z, "frozen");
}

TEST_F(ExprTest, WideningARangeIsRefused) {
  t.NarrowSymbol(s.symbol(), 2, 100);
  EXPECT_EQ(t.Bounds(s).hi, 100);
  EXPECT_DEATH(t.NarrowSymbol(s.symbol(), 1, 100), "check failed");
}

TEST_F(ExprTest, DeepExpressionsCostNoStack) {
  Expr e = s;
  for (int i = 0; i < 5000; ++i) e = Max(FloorDiv(e * 3 + r, k(2 + i % 3)), r * i);
  EXPECT_EQ(t.Evaluate(e, {{5, 3, 0, 0}}).status().code(),
            Code::kOutOfRange);  // it grows past int64
  EXPECT_LT(ToString(e).size(), size_t{2} << 20);
  EXPECT_EQ(t.FreeSymbols(e).size(), 2u);
}

}  // namespace
}  // namespace liveshape::sym
