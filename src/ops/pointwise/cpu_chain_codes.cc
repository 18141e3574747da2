// Which op of a chain an instruction is.
#include "ops/pointwise/cpu_chain.h"

namespace liveshape::cpu::pw {

using ir::PwOp;

bool IsExtremum(ChainCode code) {
  return code == ChainCode::kMin || code == ChainCode::kMax || code == ChainCode::kMinOf ||
         code == ChainCode::kMaxOf;
}

std::optional<ChainCode> ChainCodeOf(PwOp op) {
  switch (op) {
    case PwOp::kAdd: return ChainCode::kAdd;
    case PwOp::kSub: return ChainCode::kSub;
    case PwOp::kMul: return ChainCode::kMul;
    case PwOp::kDiv: return ChainCode::kDiv;
    case PwOp::kTruncDiv: return ChainCode::kTruncDiv;
    case PwOp::kMin: return ChainCode::kMin;
    case PwOp::kMax: return ChainCode::kMax;
    case PwOp::kEq: return ChainCode::kEq;
    case PwOp::kNe: return ChainCode::kNe;
    case PwOp::kLt: return ChainCode::kLt;
    case PwOp::kLe: return ChainCode::kLe;
    case PwOp::kGt: return ChainCode::kGt;
    case PwOp::kGe: return ChainCode::kGe;
    case PwOp::kIsNan: return ChainCode::kIsNan;
    case PwOp::kIsInf: return ChainCode::kIsInf;
    case PwOp::kWhere: return ChainCode::kSelect;
    case PwOp::kNeg: return ChainCode::kNeg;
    case PwOp::kAbs: return ChainCode::kAbs;
    case PwOp::kSign: return ChainCode::kSign;
    case PwOp::kSquare: return ChainCode::kSquare;
    case PwOp::kSqrt: return ChainCode::kSqrt;
    case PwOp::kRsqrt: return ChainCode::kRsqrt;
    case PwOp::kReciprocal: return ChainCode::kReciprocal;
    case PwOp::kRelu: return ChainCode::kRelu;
    case PwOp::kFloor: return ChainCode::kFloor;
    case PwOp::kCeil: return ChainCode::kCeil;
    case PwOp::kTrunc: return ChainCode::kTrunc;
    case PwOp::kRound: return ChainCode::kRound;
    default: return std::nullopt;
  }
}

std::optional<ChainCode> Exchanged(ChainCode code) {
  switch (code) {
    case ChainCode::kAdd:
    case ChainCode::kMul:
    case ChainCode::kEq:
    case ChainCode::kNe: return code;
    case ChainCode::kLt: return ChainCode::kGt;
    case ChainCode::kLe: return ChainCode::kGe;
    case ChainCode::kGt: return ChainCode::kLt;
    case ChainCode::kGe: return ChainCode::kLe;
    case ChainCode::kSub: return ChainCode::kSubFrom;
    case ChainCode::kDiv: return ChainCode::kDivInto;
    case ChainCode::kTruncDiv: return ChainCode::kTruncDivInto;
    case ChainCode::kMin: return ChainCode::kMinOf;
    case ChainCode::kMax: return ChainCode::kMaxOf;
    default: return std::nullopt;
  }
}

ChainCode LoadCode(DType memory) {
  switch (memory) {
    case DType::kF16: return ChainCode::kLoadF16;
    case DType::kBF16: return ChainCode::kLoadBF16;
    case DType::kBool: return ChainCode::kLoadBool;
    default: return ChainCode::kLoad;
  }
}

ChainCode StoreCode(DType memory) {
  switch (memory) {
    case DType::kF16: return ChainCode::kStoreF16;
    case DType::kBF16: return ChainCode::kStoreBF16;
    case DType::kBool: return ChainCode::kStoreBool;
    default: return ChainCode::kStore;
  }
}

Form HalfForm(DType half) { return half == DType::kF16 ? kF16A : kBF16A; }

}  // namespace liveshape::cpu::pw
