// Chains: cheap f32 instructions of a program, run on blocks of a few vectors that stay in registers from the first
// load to the last store. A pass over a tile for each of them would cost a load and a store every time, more than the
// arithmetic.
//
//   // out = max(x * 2, y)
//   const ChainOp ops[] = {{ChainCode::kLoad, kNoSplat, x},
//                          {ChainCode::kMul, kSplatA, &two},   // one element for all
//                          {ChainCode::kMax, kNoSplat, y},
//                          {ChainCode::kStore, kNoSplat, out}};
//   FindChain(isa)(ops, 4, n);
//
// There is one accumulator. A comparison leaves a mask in it, which kSelect, kFromMask and kStoreBool read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "backends/cpu/simd/isa.h"
#include "ir/dtype.h"
#include "ir/pointwise.h"

namespace liveshape::cpu::pw {

enum class ChainCode : uint8_t {
  kLoad,  // from a: any 4 bytes
  kLoadF16,
  kLoadBF16,
  kLoadBool,
  kStore,  // to a
  kStoreF16,
  kStoreBF16,
  kStoreBool,
  kRoundF16,  // to what a half holds
  kRoundBF16,
  kFromMask,  // 1 or 0
  kNeg,
  kAbs,
  kSign,
  kSquare,
  kCube,
  kInverseSquare,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kRelu,
  kFloor,
  kCeil,
  kTrunc,
  kRound,
  kIsNan,
  kIsInf,
  // accumulator op a
  kAdd,
  kSub,
  kMul,
  kDiv,
  kTruncDiv,
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  // a op accumulator
  kSubFrom,
  kDivInto,
  kTruncDivInto,
  kMinOf,
  kMaxOf,
  kSelect,  // accumulator ? a : b
};

enum Splat : uint8_t { kNoSplat = 0, kSplatA = 1, kSplatB = 2 };

struct ChainOp {
  ChainCode code;
  uint8_t splat;  // Splat bits: the operand is one element
  const void* a = nullptr;
  const void* b = nullptr;
};

// Over n elements. Within a block an op sees what earlier ops stored; a store may go to memory that this or an
// earlier op of the chain reads, if elements are no larger there.
using ChainFn = void (*)(const ChainOp* ops, size_t count, int64_t n);
ChainFn FindChain(Isa isa);  // null where this build lacks the ISA

// Of f32 operands (for where: of any 4 bytes); nullopt where there is none.
std::optional<ChainCode> ChainCodeOf(ir::PwOp op);
// The code that gives the same with its operands exchanged.
std::optional<ChainCode> Exchanged(ChainCode code);
// Between memory and the accumulator.
ChainCode LoadCode(DType memory);
ChainCode StoreCode(DType memory);

}  // namespace liveshape::cpu::pw
