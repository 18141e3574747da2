#include "ops/pointwise/table.h"

#include <iterator>

namespace liveshape::ops {
namespace {

using ir::PwOp;
using enum PwResult;

constexpr PwFacts kTable[] = {
    // op              operands                 result  weight
    {PwOp::kLoad, kPwAny, kGiven, 0},
    {PwOp::kConst, kPwAny, kGiven, 0},
    {PwOp::kScalar, kPwAny, kGiven, 0},
    {PwOp::kIota, kPwAny, kGiven, 1},
    {PwOp::kCast, kPwAny, kGiven, 1},
    {PwOp::kAdd, kPwAny, kSame, 1},  // bool: or
    {PwOp::kSub, kPwNumbers, kSame, 1},
    {PwOp::kMul, kPwAny, kSame, 1},  // bool: and
    {PwOp::kDiv, kPwFloats, kSame, 4},
    {PwOp::kFloorDiv, kPwNumbers, kSame, 16},
    {PwOp::kTruncDiv, kPwNumbers, kSame, 4},
    {PwOp::kRemainder, kPwNumbers, kSame, 16},
    {PwOp::kFmod, kPwNumbers, kSame, 16},
    {PwOp::kPow, kPwNumbers, kSame, 32},
    {PwOp::kMin, kPwAny, kSame, 1},
    {PwOp::kMax, kPwAny, kSame, 1},
    {PwOp::kEq, kPwAny, kBool, 1},
    {PwOp::kNe, kPwAny, kBool, 1},
    {PwOp::kLt, kPwAny, kBool, 1},
    {PwOp::kLe, kPwAny, kBool, 1},
    {PwOp::kGt, kPwAny, kBool, 1},
    {PwOp::kGe, kPwAny, kBool, 1},
    {PwOp::kAnd, kPwIntegers | kPwBool, kSame, 1},
    {PwOp::kOr, kPwIntegers | kPwBool, kSame, 1},
    {PwOp::kXor, kPwIntegers | kPwBool, kSame, 1},
    {PwOp::kNot, kPwIntegers | kPwBool, kSame, 1},
    {PwOp::kShiftLeft, kPwIntegers, kSame, 1},
    {PwOp::kShiftRight, kPwIntegers, kSame, 1},
    {PwOp::kNeg, kPwNumbers, kSame, 1},
    {PwOp::kAbs, kPwNumbers, kSame, 1},
    {PwOp::kSign, kPwAny, kSame, 1},
    {PwOp::kSquare, kPwNumbers, kSame, 1},
    {PwOp::kSqrt, kPwFloats, kSame, 4},
    {PwOp::kRsqrt, kPwFloats, kSame, 8},
    {PwOp::kReciprocal, kPwFloats, kSame, 4},
    {PwOp::kExp, kPwFloats, kSame, 12},
    {PwOp::kExp2, kPwFloats, kSame, 12},
    {PwOp::kExpm1, kPwFloats, kSame, 16},
    {PwOp::kLog, kPwFloats, kSame, 16},
    {PwOp::kLog2, kPwFloats, kSame, 16},
    {PwOp::kLog1p, kPwFloats, kSame, 20},
    {PwOp::kSin, kPwFloats, kSame, 16},
    {PwOp::kCos, kPwFloats, kSame, 16},
    {PwOp::kTan, kPwFloats, kSame, 32},
    {PwOp::kTanh, kPwFloats, kSame, 20},
    {PwOp::kErf, kPwFloats, kSame, 24},
    {PwOp::kSigmoid, kPwFloats, kSame, 16},
    {PwOp::kSilu, kPwFloats, kSame, 16},
    {PwOp::kGelu, kPwFloats, kSame, 26},
    {PwOp::kGeluTanh, kPwFloats, kSame, 26},
    {PwOp::kRelu, kPwNumbers, kSame, 1},
    {PwOp::kFloor, kPwNumbers, kSame, 1},
    {PwOp::kCeil, kPwNumbers, kSame, 1},
    {PwOp::kTrunc, kPwNumbers, kSame, 1},
    {PwOp::kRound, kPwNumbers, kSame, 1},
    {PwOp::kIsNan, kPwAny, kBool, 1},
    {PwOp::kIsInf, kPwAny, kBool, 1},
    {PwOp::kWhere, kPwAny, kSame, 1},
    {PwOp::kLog10, kPwFloats, kSame, 32},
    {PwOp::kAsin, kPwFloats, kSame, 32},
    {PwOp::kAcos, kPwFloats, kSame, 32},
    {PwOp::kAtan, kPwFloats, kSame, 32},
    {PwOp::kSinh, kPwFloats, kSame, 32},
    {PwOp::kCosh, kPwFloats, kSame, 32},
    {PwOp::kAtan2, kPwFloats, kSame, 48},
};
static_assert(std::size(kTable) == static_cast<size_t>(PwOp::kCount));

constexpr bool InOrder() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (kTable[i].op != static_cast<PwOp>(i)) return false;
  }
  return true;
}
static_assert(InOrder(), "one line an op, in the order of PwOp");

}  // namespace

const PwFacts& Facts(PwOp op) { return kTable[static_cast<size_t>(op)]; }

bool Accepts(const PwFacts& facts, DType dtype) {
  return facts.operands & (IsFloat(dtype) ? kPwFloats : IsInteger(dtype) ? kPwIntegers : kPwBool);
}

Status CheckInstruction(const ir::PointwiseProgram& program, size_t index) {
  const ir::PwInstr& instr = program.code[index];
  if (instr.op >= PwOp::kCount)
    return InvalidArgument("instruction {}: unknown op {}", index, static_cast<int>(instr.op));
  if (static_cast<int>(instr.dtype) >= kDTypeCount)
    return InvalidArgument("instruction {}: unknown dtype {}", index,
                           static_cast<int>(instr.dtype));
  const PwFacts& facts = Facts(instr.op);
  const int operands = ir::OperandCount(instr.op);
  const uint32_t reads[3] = {instr.a, instr.b, instr.c};
  auto refuse = [&](DType dtype, const char* why) {
    return InvalidArgument("instruction {}: {} of {} {}", index, ir::Name(instr.op), Name(dtype),
                           why);
  };
  for (int i = 0; i < operands; ++i) {
    if (reads[i] >= index)
      return InvalidArgument("instruction {}: {} reads %{}, which is not an earlier value", index,
                             ir::Name(instr.op), reads[i]);
    const DType dtype = program.code[reads[i]].dtype;
    if (instr.op == PwOp::kWhere && i == 0) {
      if (dtype != DType::kBool) return refuse(dtype, "as the condition: it must be bool");
      continue;
    }
    if (!Accepts(facts, dtype)) return refuse(dtype, "is not defined");
    if (facts.result == kSame && dtype != instr.dtype)
      return refuse(dtype, "must have the dtype of its result: a cast is missing");
    if (facts.result == kBool && dtype != program.code[reads[0]].dtype)
      return refuse(dtype, "with another dtype: a cast is missing");
  }
  if (facts.result == kBool && instr.dtype != DType::kBool)
    return refuse(instr.dtype, "must give bool");
  return {};
}

}  // namespace liveshape::ops
