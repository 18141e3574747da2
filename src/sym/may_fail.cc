#include "sym/may_fail.h"

#include <algorithm>

#include "sym/bounds.h"

namespace liveshape::sym {
namespace {

// The greatest magnitude in the range; nothing where it is unbounded.
std::optional<Wide::Int> Size(Expr e) {
  const Wide r = RangeOf(e);
  if (!r.finite()) return std::nullopt;
  return std::max(-r.lo, r.hi);
}

}  // namespace

bool OwnStepMayFail(const Node& node) {
  constexpr Wide::Int kLimit = std::numeric_limits<int64_t>::max();
  const bool product = node.kind == Kind::kMul;
  switch (node.kind) {
    case Kind::kAdd:
    case Kind::kMul: {
      Wide::Int total = product ? 1 : 0;
      for (Expr arg : node.args) {
        const auto size = Size(arg);
        if (!size) return true;
        total = product ? total * std::max<Wide::Int>(*size, 1) : total + *size;
        if (total > kLimit) return true;
      }
      return false;
    }
    case Kind::kFloorDiv:
    case Kind::kCeilDiv: return !ExcludesZero(node.args[1]) || !Size(node.args[0]);
    case Kind::kMod:
    case Kind::kIntTrueDiv: return !ExcludesZero(node.args[1]);
    case Kind::kPow:
    case Kind::kShiftLeft:
    case Kind::kShiftRight:
    case Kind::kFloatDiv:
    case Kind::kFloatPow:
    case Kind::kFloatSqrt:
    case Kind::kTruncToInt:
    case Kind::kFloorToInt:
    case Kind::kCeilToInt:
    case Kind::kRoundToInt: return true;
    default: return false;
  }
}

}  // namespace liveshape::sym
