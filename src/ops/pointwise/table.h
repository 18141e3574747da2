// Facts about each pointwise instruction, one line an op in table.cc. Its name and operand count are
// ir::Name and ir::OperandCount; how a backend spells it is in cpu_*.cc, later in webgpu.cc.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "ir/pointwise.h"

namespace liveshape::ops {

enum class PwResult : uint8_t {
  kSame,   // the dtype of its operands
  kBool,   // operands of one dtype give bool
  kGiven,  // whatever the instruction says: load, const, scalar, iota, cast
};

// Dtypes that the operands may have.
inline constexpr uint8_t kPwFloats = 1, kPwIntegers = 2, kPwBool = 4;
inline constexpr uint8_t kPwNumbers = kPwFloats | kPwIntegers;
inline constexpr uint8_t kPwAny = kPwNumbers | kPwBool;

struct PwFacts {
  ir::PwOp op;
  uint8_t operands;  // kPwFloats | ...: what it is defined on, as torch has it
  PwResult result;
  uint8_t weight;  // work an element, in additions: for cost and for splitting work
};

const PwFacts& Facts(ir::PwOp op);
bool Accepts(const PwFacts& facts, DType dtype);

// torch multiplies and divides halves by a number that stays f32: here as operand `k`. To other instructions, and as a
// result, a number is rounded to the half.
constexpr bool KeepsNumberWide(ir::PwOp op, size_t k) {
  using enum ir::PwOp;
  return op == kMul || (k == 1 && (op == kDiv || op == kFloorDiv || op == kTruncDiv));
}

// The instruction reads earlier values only, and of dtypes it is defined on: what every backend relies on.
// where: a is bool, b and c have the result's dtype. The message names op and dtype.
Status CheckInstruction(const ir::PointwiseProgram& program, size_t index);
inline Status CheckProgram(const ir::PointwiseProgram& program) {
  if (program.code.empty()) return InvalidArgument("pointwise program has no instructions");
  for (size_t i = 0; i < program.code.size(); ++i) LS_RETURN_IF_ERROR(CheckInstruction(program, i));
  return {};
}

}  // namespace liveshape::ops
