// Interval analysis: sound on brute force, attained where monotone (G1, G9: slots are sized by
// these).
#include <gtest/gtest.h>

#include "sym/expr.h"

namespace liveshape::sym {
namespace {

class BoundsTest : public ::testing::Test {
 protected:
  Table t;
  Expr s = t.Symbol({.name = "s", .lo = 0, .hi = 12});
  Expr r = t.Symbol({.name = "r", .lo = 2, .hi = 9});
  Expr n = t.Symbol({.name = "n", .lo = -6, .hi = 5});
  Expr u = t.Symbol({.name = "u", .lo = 0});  // no bound
  Expr k(int64_t v) { return t.Int(v); }

  Interval BruteForce(Expr e) {
    Interval found = {Interval::kPosInf, Interval::kNegInf};
    for (int64_t a = 0; a <= 12; ++a) {
      for (int64_t b = 2; b <= 9; ++b) {
        for (int64_t c = -6; c <= 5; ++c) {
          const auto v = t.Evaluate(e, {{a, b, c, 0}});
          if (!v.ok()) continue;
          found.lo = std::min(found.lo, *v);
          found.hi = std::max(found.hi, *v);
        }
      }
    }
    return found;
  }
  void ExpectAttained(Expr e) {
    const Interval want = BruteForce(e), got = t.Bounds(e);
    EXPECT_EQ(got.lo, want.lo) << ToString(e);
    EXPECT_EQ(got.hi, want.hi) << ToString(e);
  }
  void ExpectSound(Expr e) {
    const Interval want = BruteForce(e), got = t.Bounds(e);
    EXPECT_LE(got.lo, want.lo) << ToString(e);
    EXPECT_GE(got.hi, want.hi) << ToString(e);
  }
};

TEST_F(BoundsTest, G1_AttainedForMonotoneExpressions) {
  ExpectAttained(64 - s);
  ExpectAttained(FloorDiv(s, k(2)) + r);
  ExpectAttained(s * (r + 1));
  ExpectAttained(s * s - s);
  ExpectAttained(s - FloorDiv(s, k(2)));
  ExpectAttained(s * r - s);
  ExpectAttained(s * (64 - r));
  ExpectAttained(r * r * s + 3 * r - s);
  ExpectAttained(FloorDiv(s * r + r, k(4)) - FloorDiv(n, k(8)));
  ExpectAttained(Max(s, r) - s * 0);
  ExpectAttained(Min(s * r, s + 7) + s);
  ExpectAttained(FloorDiv(k(100), r) * s);
  ExpectAttained(n * n);
  ExpectAttained(Mod(s, k(5)));
  ExpectAttained(n * r);
  ExpectAttained(CeilDiv(n, k(3)));
}

TEST_F(BoundsTest, SoundForTheRest) {
  for (Expr e : {s * (64 - s), n * n - n, n * n * n - 5 * n, Mod(n * s, r), FloorDiv(s * n, r),
                 Mod(r, n), FloorDiv(r, n), Select(Le(s, r), s * n, r - s),
                 t.Make(Kind::kBitAnd, {{n, s}}), t.Make(Kind::kBitOr, {{n, s}}),
                 t.Make(Kind::kShiftLeft, {{n, r}}), t.Make(Kind::kShiftRight, {{n * 99, r}}),
                 t.Make(Kind::kPow, {{n, r}}), CeilDiv(s, n), Mod(s - r, k(4)) * n,
                 s * s * s - s * s * r, FloorDiv(s * r + r, k(4)) - FloorDiv(r, k(8))}) {
    ExpectSound(e);
  }
  for (Kind kind : {Kind::kTruncToInt, Kind::kFloorToInt, Kind::kCeilToInt, Kind::kRoundToInt}) {
    ExpectSound(t.Make(kind, {{t.Make(Kind::kIntTrueDiv, {{n * s, r}}) * t.Float(-1.3)}}));
    ExpectSound(t.Make(kind, {{t.Make(Kind::kFloatSqrt, {{s * r}}) + n}}));
    const Expr power[] = {t.Make(Kind::kToFloat, {{s}}), t.Float(1.5)};
    ExpectSound(t.Make(kind, {{t.Make(Kind::kFloatPow, power)}}));
  }
}

TEST_F(BoundsTest, UnboundedOnlyWhereItIs) {
  EXPECT_FALSE(t.Bounds(u).bounded_above());
  EXPECT_EQ(t.Bounds(u).lo, 0);
  EXPECT_EQ(t.Bounds(Min(u, k(64))).hi, 64);
  EXPECT_EQ(t.Bounds(Mod(u, k(64))).hi, 63);
  EXPECT_EQ(t.Bounds(64 - u).hi, 64);
  EXPECT_EQ(t.Bounds(u - FloorDiv(u, k(2))).lo, 0);
  EXPECT_EQ(t.Bounds(0 * u + 3), (Interval{3, 3}));
  EXPECT_FALSE(t.Bounds(s * u).bounded_above());
}

TEST_F(BoundsTest, BeyondInt64IsUnbounded) {
  const Expr big = t.Symbol({.name = "big", .lo = 0, .hi = INT64_MAX - 1});
  EXPECT_EQ(t.Bounds(big).hi, INT64_MAX - 1);
  EXPECT_FALSE(t.Bounds(2 * big).bounded_above());
  EXPECT_EQ(t.Bounds(FloorDiv(big, k(2))).hi, (INT64_MAX - 1) / 2);
  EXPECT_EQ(t.Bounds(2 * big).lo, 0);
}

TEST_F(BoundsTest, IsTrueIsAProof) {
  EXPECT_EQ(t.IsTrue(Le(s, k(12))), Tri::kYes);
  EXPECT_EQ(t.IsTrue(Gt(s, k(12))), Tri::kNo);
  EXPECT_EQ(t.IsTrue(Gt(s, k(11))), Tri::kUnknown);
  EXPECT_EQ(t.IsTrue(Le(FloorDiv(s, k(2)), s)), Tri::kYes);
  EXPECT_EQ(t.IsTrue(And(Le(s, k(3)), Gt(s, k(20)))), Tri::kNo);
  EXPECT_EQ(t.IsTrue(Lt(t.Make(Kind::kToFloat, {{s}}), t.Float(12.5))), Tri::kYes);
}

TEST_F(BoundsTest, G9_MoreThan255Symbols) {
  Expr sum = k(0), first, last;
  for (int i = 0; i < 300; ++i) {
    last = t.Symbol({.name = "d" + std::to_string(i), .lo = 1, .hi = 10});
    if (i == 0) first = last;
    sum = sum + last * (i + 1);
  }
  EXPECT_EQ(t.Bounds(sum), (Interval{300 * 301 / 2, 10 * 300 * 301 / 2}));
  EXPECT_EQ(t.FreeSymbols(sum).size(), 300u);
  // Symbols 64 apart share a bit of the mask: a false alarm must cost tightness only.
  const Expr other = t.Symbol({.name = "d64"});
  EXPECT_EQ(t.Bounds(first * other - first).lo, 0);
  EXPECT_EQ(t.Bounds(first * last), (Interval{1, 100}));
}

TEST_F(BoundsTest, NarrowingIsSeenByWhatWasBuiltBefore) {
  const Expr e = s * r, fits = Le(s, k(5));
  EXPECT_EQ(t.Bounds(e).hi, 108);
  EXPECT_EQ(t.IsTrue(fits), Tri::kUnknown);
  t.NarrowSymbol(s.symbol(), 1, 4);
  EXPECT_EQ(t.Bounds(e).hi, 36);
  EXPECT_EQ(t.IsTrue(fits), Tri::kYes);
  t.Freeze();
  t.NarrowSymbol(s.symbol(), 2, 3);
  EXPECT_EQ(t.Bounds(e), (Interval{4, 27}));
}

}  // namespace
}  // namespace liveshape::sym
