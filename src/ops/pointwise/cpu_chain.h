// Chains: cheap f32 instructions of a program, run on blocks of a few vectors that stay in registers from the first
// load to the last store. A pass over a tile for each of them would cost a load and a store every time, more than the
// arithmetic.
//
//   // out = max(x * 2, y)
//   ChainOp ops[] = {{ChainCode::kLoad, kMemory, x},
//                    {ChainCode::kMul, kSplatA, &two},   // one element for all
//                    {ChainCode::kMax, kMemory, y},
//                    {ChainCode::kStore, kMemory, out},
//                    {ChainCode::kEnd}};
//   const ChainRunner chain = FindChain(isa);
//   for (size_t i = 0; i < 5; ++i) chain.link(ops, i);   // once, pointers may change afterwards
//   chain.run(ops, n, 1);
//
// Several rows of n: steps say how far each operand is from one row to the next.
//
//   ops[0].step_a = ops[3].step_a = stride * sizeof(float);   // the splat and y: the same for every row
//   chain.run(ops, n, rows);
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
  kEnd,
};

// Bits: what an operand is. Else n elements of 4 bytes in memory.
enum Form : uint8_t {
  kMemory = 0,
  kSplatA = 1,  // one element
  kSplatB = 2,
  kF16A = 4,  // of ops with one operand, that are not loads or stores: elements are halves
  kBF16A = 8,
  kPastCaches = 16,  // of kStore: whole blocks are streamed (stream.h) where they begin with a line
  kFromAfar =
      32,  // of n elements in memory, but for kSelect: beyond L2, so lines of later blocks are fetched
};

struct ChainOp {
  using Handler = void (*)();
  ChainCode code;
  uint8_t form = kMemory;
  const void* a = nullptr;
  const void* b = nullptr;
  int64_t step_a = 0, step_b = 0;  // bytes from one row to the next
  Handler handler[3] = {};  // what link found: for few or many that end a row, for many within it
};

struct ChainRunner {
  // Of ops[i]; all codes are known, the first is a load. To be done again if the form changes, and for the splat of a
  // kMin or kMax if the number or its step does.
  void (*link)(ChainOp* ops, size_t i);
  // Over rows of n elements; the last op is kEnd. Within a block an op sees what earlier ops stored; a store may go to
  // memory that this or an earlier op of the chain reads, if elements are no larger there. Pointers are left
  // beyond the last row.
  void (*run)(ChainOp* ops, int64_t n, int64_t rows);
};
ChainRunner FindChain(Isa isa);  // nulls where this build lacks the ISA

// Of f32 operands (for where: of any 4 bytes); nullopt where there is none.
std::optional<ChainCode> ChainCodeOf(ir::PwOp op);
// The code that gives the same with its operands exchanged.
std::optional<ChainCode> Exchanged(ChainCode code);
// Which handler serves it depends on the splat's value.
bool IsExtremum(ChainCode code);
// Between memory and the accumulator.
ChainCode LoadCode(DType memory);
ChainCode StoreCode(DType memory);
Form HalfForm(DType half);

}  // namespace liveshape::cpu::pw
