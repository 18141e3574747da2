// Table::Make: types, constants, then the rules of the kind.
#include "sym/simplify.h"

#include <algorithm>
#include <cmath>

#include "sym/evaluate.h"
#include "sym/polynomial.h"

namespace liveshape::sym {
namespace {

bool IsConstant(Expr e) { return e.is_int() || e.kind() == Kind::kFloat; }
bool AnyFloat(std::span<const Expr> args) {
  return std::ranges::any_of(args, &Expr::is_float_valued);
}

// The float twin of an arithmetic kind, for operands of which one is a float.
Kind FloatKind(Kind kind) {
  switch (kind) {
    case Kind::kAdd: return Kind::kFloatAdd;
    case Kind::kMul: return Kind::kFloatMul;
    case Kind::kPow: return Kind::kFloatPow;
    case Kind::kMin: return Kind::kFloatMin;
    case Kind::kMax: return Kind::kFloatMax;
    default: return kind;
  }
}

bool TakesFloats(Kind kind) {
  return FloatKind(kind) != kind || IsRelation(kind) || IsFloatKind(kind) ||
         kind >= Kind::kTruncToInt;
}

// From the left, two at a time, as Python adds: integers stay integers until a float joins.
Expr MixedChain(Table& table, Kind kind, std::span<const Expr> args) {
  Expr result = args[0];
  for (Expr next : args.subspan(1)) {
    const bool floats = result.is_float_valued() || next.is_float_valued();
    const Expr pair[] = {floats ? ToFloat(result) : result, floats ? ToFloat(next) : next};
    result = table.Make(floats ? FloatKind(kind) : kind, pair);
  }
  return result;
}

// The constant that a kind gives for constants; none where evaluating it fails, so that evaluation
// says so.
Expr Fold(Table& table, Kind kind, std::span<const Expr> args) {
  const bool n_ary =
      kind == Kind::kMin || kind == Kind::kMax || kind == Kind::kAnd || kind == Kind::kOr;
  if (args.size() < (n_ary ? 2 : 1) || !std::ranges::all_of(args, IsConstant)) return {};
  const auto value = [](Expr e) { return Value{e.node()->bits}; };
  Value result = value(args[0]);
  for (size_t i = 1; i == 1 || i < args.size(); ++i) {
    result =
        Apply(kind, args[0].is_float_valued(), result, i < args.size() ? value(args[i]) : Value{});
    if (result.fault != Fault::kNone) return {};
  }
  if (!IsFloatKind(kind)) return table.Int(result.bits);
  return std::isfinite(result.as_float()) ? table.Float(result.as_float()) : Expr();
}

}  // namespace

Expr ToFloat(Expr e) { return e.is_float_valued() ? e : e.table().Make(Kind::kToFloat, {{e}}); }

Expr Table::Make(Kind kind, std::span<const Expr> args) {
  for (Expr arg : args) LS_CHECK(arg && &arg.table() == this);
  const bool floats = AnyFloat(args);
  if (kind == Kind::kSelect) {
    LS_CHECK(args.size() == 3 && !args[0].is_float_valued());
    if (floats) return MakeSelect(*this, args[0], ToFloat(args[1]), ToFloat(args[2]));
    return MakeSelect(*this, args[0], args[1], args[2]);
  }
  if (floats) {
    LS_CHECK(TakesFloats(kind));
    if (FloatKind(kind) != kind) return MixedChain(*this, kind, args);
    if (IsRelation(kind)) return MakeRelation(*this, kind, ToFloat(args[0]), ToFloat(args[1]));
  }
  switch (kind) {
    case Kind::kAdd: return MakeSum(*this, args);
    case Kind::kMul: return MakeProduct(*this, args);
    case Kind::kPow: LS_CHECK(args.size() == 2); return MakePower(*this, args[0], args[1]);
    default: break;
  }
  // The kinds that change the type of their operand do nothing where it has that type already.
  if (kind == Kind::kToFloat && floats) return args[0];
  if (kind >= Kind::kTruncToInt && !floats) return args[0];
  if (IsFloatKind(kind) && kind != Kind::kToFloat && kind != Kind::kIntTrueDiv) {
    std::vector<Expr> as_floats;
    for (Expr arg : args) as_floats.push_back(ToFloat(arg));
    const Expr constant = Fold(*this, kind, as_floats);
    return constant ? constant : MakeFloat(*this, kind, as_floats);
  }
  if (Expr constant = Fold(*this, kind, args)) return constant;
  switch (kind) {
    case Kind::kFloorDiv: return MakeFloorDiv(*this, args[0], args[1]);
    case Kind::kCeilDiv: return MakeCeilDiv(*this, args[0], args[1]);
    case Kind::kMod: return MakeMod(*this, args[0], args[1]);
    case Kind::kMin:
    case Kind::kMax: return MakeMinMax(*this, kind, args);
    case Kind::kEq:
    case Kind::kNe:
    case Kind::kLt:
    case Kind::kLe: return MakeRelation(*this, kind, args[0], args[1]);
    case Kind::kAnd:
    case Kind::kOr: return MakeAndOr(*this, kind, args);
    case Kind::kNot: return MakeNot(*this, args[0]);
    case Kind::kBitAnd:
    case Kind::kBitOr:
    case Kind::kShiftLeft:
    case Kind::kShiftRight: return MakeBits(*this, kind, args[0], args[1]);
    case Kind::kTruncToInt:
    case Kind::kFloorToInt:
    case Kind::kCeilToInt:
    case Kind::kRoundToInt: return MakeRounding(*this, kind, args[0]);
    case Kind::kToFloat: return impl_->Intern(kind, args);
    case Kind::kIntTrueDiv: LS_CHECK(args.size() == 2 && !floats); return impl_->Intern(kind, args);
    default: Panic(__FILE__, __LINE__, "sym: leaves are made by Int, Float and Symbol");
  }
}

}  // namespace liveshape::sym
