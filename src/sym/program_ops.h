// The instructions of a shape program. Private to sym/.
#pragma once

#include "sym/program.h"

namespace liveshape::sym {

// clang-format off
enum class ShapeProgram::Op : uint8_t {
  kMove,
  kAdd, kMul, kPow, kFloorDiv, kCeilDiv, kMod, kMin, kMax,
  kSelect,  // out = a ? b : c, both sides known not to fail
  kEq, kNe, kLt, kLe,
  kAnd, kOr, kNot,
  kBitAnd, kBitOr, kShiftLeft, kShiftRight,
  kFloatEq, kFloatNe, kFloatLt, kFloatLe,
  kToFloat, kFloatAdd, kFloatMul, kFloatDiv, kFloatPow, kFloatSqrt, kIntTrueDiv, kFloatMin, kFloatMax,
  kTruncToInt, kFloorToInt, kCeilToInt, kRoundToInt,
  kJump,           // to c
  kJumpIfZero,     // to c unless slot a
  kJumpIfNonZero,  // to c if slot a
  kCheck,          // fail with messages_[c] unless slot a
};
// clang-format on

}  // namespace liveshape::sym
