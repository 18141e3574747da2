// A pointwise computation as a small straight-line program in SSA form: instruction i's result is
// "value i", the last one is the node's output. One node may hold one instruction or a fused chain.
//
//   silu(a) * b:   0: load input 0    1: silu %0    2: load input 1    3: mul %1 %2
//
// Every input has exactly the output's dims (broadcasting is an explicit `expand` view, stride 0), so
// a kernel knows nothing of broadcasting. `iota` is the index along one output dim, `scalar` a size of
// the shape program: arange and full are pointwise programs without inputs.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/dtype.h"
#include "sym/expr.h"

namespace liveshape::ir {

// The order is part of the artifact: append only. Facts about each are one line in ops/pointwise/table.
// clang-format off
enum class PwOp : uint16_t {
  kLoad = 0,   // imm: input index
  kConst,      // imm: bits of an int64 (integer, bool) or of a double (float)
  kScalar,     // imm: index into PointwiseProgram::scalars; of a float expression `dtype` is float
  kIota,       // imm: output dim
  kCast,       // a, to `dtype`; float to integer truncates, anything to bool is != 0
  kAdd, kSub, kMul, kDiv,          // true division. Halves are multiplied and divided by f32 numbers
  kFloorDiv, kTruncDiv, kRemainder,  // remainder has the sign of the divisor; kFmod that of the dividend
  kFmod,
  kPow, kMin, kMax,                // min and max carry NaN on, as torch's minimum and maximum
  kEq, kNe, kLt, kLe, kGt, kGe,    // operands of one dtype; result bool
  kAnd, kOr, kXor, kNot,           // logical on bool, bitwise on integers
  kShiftLeft, kShiftRight,
  kNeg, kAbs, kSign, kSquare, kSqrt, kRsqrt, kReciprocal,
  kExp, kExp2, kExpm1, kLog, kLog2, kLog1p,
  kSin, kCos, kTan, kTanh, kErf, kSigmoid, kSilu, kGelu, kGeluTanh, kRelu,
  kFloor, kCeil, kTrunc, kRound,   // round half to even
  kIsNan, kIsInf,
  kWhere,                          // a (bool) ? b : c; a predicate, never arithmetic
  kLog10, kAsin, kAcos, kAtan, kSinh, kCosh, kAtan2,
  kCount
};
// clang-format on

const char* Name(PwOp op);  // "load", "add", "gelu_tanh"
int OperandCount(PwOp op);  // how many of a, b, c it reads

struct PwInstr {
  PwOp op = PwOp::kConst;
  DType dtype = DType::kF32;     // of the result; f16 and bf16 are computed in f32 and rounded
  uint32_t a = 0, b = 0, c = 0;  // earlier instructions
  int64_t imm = 0;
  friend bool operator==(const PwInstr&, const PwInstr&) = default;
};

struct PointwiseProgram {
  std::vector<PwInstr> code;
  std::vector<sym::Expr> scalars;  // read by kScalar
  friend bool operator==(const PointwiseProgram&, const PointwiseProgram&) = default;
};

}  // namespace liveshape::ir
