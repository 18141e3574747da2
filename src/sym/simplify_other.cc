// Rules of bits, shifts, floats and rounding.
#include <algorithm>
#include <bit>

#include "sym/bounds.h"
#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

using T = Table&;

bool IsMask(Expr e) {  // 2^k - 1
  return e.is_int() && e.value() > 0 && e.value() < INT64_MAX &&
         std::has_single_bit(static_cast<uint64_t>(e.value()) + 1);
}
bool ShiftCount(Expr e) { return e.is_int() && e.value() >= 0 && e.value() < 63; }
Expr PowerOfTwo(T t, Expr e) { return t.Int(int64_t{1} << e.value()); }

// clang-format off
const Rule kBitAndRules[] = {
    {"0 & b = 0", [](T, Expr a, Expr b) { return a.is_int(0) ? a : b.is_int(0) ? b : Expr(); }},
    {"a & -1 = a", [](T, Expr a, Expr b) { return b.is_int(-1) ? a : a.is_int(-1) ? b : Expr(); }},
    {"a & a = a", [](T, Expr a, Expr b) { return a == b ? a : Expr(); }},
    {"p & q = p and q", [](T, Expr a, Expr b) { return IsBoolean(a) && IsBoolean(b) ? And(a, b) : Expr(); }},
    {"a & (2^k - 1) = a % 2^k", [](T t, Expr a, Expr b) { return IsMask(b) ? Mod(a, t.Int(b.value() + 1)) : Expr(); }},
    {"(2^k - 1) & b = b % 2^k", [](T t, Expr a, Expr b) { return IsMask(a) ? Mod(b, t.Int(a.value() + 1)) : Expr(); }},
};
// clang-format on

// clang-format off
const Rule kBitOrRules[] = {
    {"a | 0 = a", [](T, Expr a, Expr b) { return b.is_int(0) ? a : a.is_int(0) ? b : Expr(); }},
    {"a | -1 = -1", [](T, Expr a, Expr b) { return b.is_int(-1) ? b : a.is_int(-1) ? a : Expr(); }},
    {"a | a = a", [](T, Expr a, Expr b) { return a == b ? a : Expr(); }},
    {"p | q = p or q", [](T, Expr a, Expr b) { return IsBoolean(a) && IsBoolean(b) ? Or(a, b) : Expr(); }},
};
// clang-format on

// clang-format off
const Rule kShiftLeftRules[] = {
    {"a << c = a * 2^c", [](T t, Expr a, Expr b) { return ShiftCount(b) ? a * PowerOfTwo(t, b) : Expr(); }},
    {"0 << b = 0", [](T, Expr a, Expr b) { return a.is_int(0) && RangeOf(b).lo >= 0 ? a : Expr(); }},
};
// clang-format on

// clang-format off
const Rule kShiftRightRules[] = {
    {"a >> c = a // 2^c", [](T t, Expr a, Expr b) { return ShiftCount(b) ? FloorDiv(a, PowerOfTwo(t, b)) : Expr(); }},
    {"0 >> b = 0", [](T, Expr a, Expr b) { return a.is_int(0) && RangeOf(b).lo >= 0 ? a : Expr(); }},
};
// clang-format on

bool Within(Expr e, Wide::Int limit) {
  const Wide r = RangeOf(e);
  return -limit <= r.lo && r.hi <= limit;
}

// ToFloat is exact up to 2^53. The rounded quotient of integers up to 2^52 never crosses an
// integer: the true one is at least 1/b away from it, more than half a unit in the last place.
constexpr Wide::Int kExactInt = Wide::Int{1} << 53;
constexpr Wide::Int kExactQuotient = Wide::Int{1} << 52;

// floor(a / b) and the like, computed through a double, as exact integer division.
Expr RoundedQuotient(Kind kind, Expr a, Expr b) {
  if (!Within(a, kExactQuotient) || !Within(b, kExactQuotient) || !ExcludesZero(b)) return {};
  switch (kind) {
    case Kind::kFloorToInt: return FloorDiv(a, b);
    case Kind::kCeilToInt: return CeilDiv(a, b);
    case Kind::kTruncToInt:
      return RangeOf(a).lo >= 0 && RangeOf(b).lo > 0 ? FloorDiv(a, b) : Expr();
    default: return {};
  }
}

}  // namespace

Expr MakeBits(Table& table, Kind kind, Expr a, Expr b) {
  const std::span<const Rule> rules = kind == Kind::kBitAnd  ? std::span<const Rule>(kBitAndRules)
                                      : kind == Kind::kBitOr ? std::span<const Rule>(kBitOrRules)
                                      : kind == Kind::kShiftLeft
                                          ? std::span<const Rule>(kShiftLeftRules)
                                          : std::span<const Rule>(kShiftRightRules);
  if (Expr e = FirstOf(rules, table, a, b)) return e;
  const bool commutes = kind == Kind::kBitAnd || kind == Kind::kBitOr;
  if (commutes && Compare(b, a) < 0) std::swap(a, b);
  const Expr args[] = {a, b};
  return table.impl().Intern(kind, args);
}

Expr MakeFloat(Table& table, Kind kind, std::span<const Expr> args) {
  LS_CHECK(args.size() == (kind == Kind::kFloatSqrt ? 1 : 2));
  std::vector<Expr> floats(args.begin(), args.end());
  // Sums and products of two doubles commute exactly; nothing else about floats may be assumed.
  const bool commutes = kind == Kind::kFloatAdd || kind == Kind::kFloatMul ||
                        kind == Kind::kFloatMin || kind == Kind::kFloatMax;
  if (commutes && Compare(floats[1], floats[0]) < 0) std::swap(floats[0], floats[1]);
  return table.impl().Intern(kind, floats);
}

Expr MakeRounding(Table& table, Kind kind, Expr a) {
  if (a.kind() == Kind::kToFloat && Within(a.args()[0], kExactInt)) return a.args()[0];
  if (a.kind() == Kind::kIntTrueDiv) {
    if (Expr e = RoundedQuotient(kind, a.args()[0], a.args()[1])) return e;
  }
  return table.impl().Intern(kind, {{a}});
}

}  // namespace liveshape::sym
