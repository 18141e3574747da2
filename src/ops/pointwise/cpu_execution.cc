#include "ops/pointwise/cpu_execution.h"

#include <cstring>

#include "base/half.h"
#include "ops/pointwise/cpu_generate.h"

namespace liveshape::cpu::pw {
namespace {

size_t Aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

void RoundNumber(DType half, std::byte* number) {
  float f;
  std::memcpy(&f, number, sizeof(f));
  f = half == DType::kF16 ? F32FromF16(F16FromF32(f)) : F32FromBF16(BF16FromF32(f));
  std::memcpy(number, &f, sizeof(f));
}

}  // namespace

size_t Execution::Bytes(const Program& program) {
  return Aligned(program.values * sizeof(Operand)) + Aligned(program.chain_ops * sizeof(ChainOp)) +
         program.registers * program.register_bytes;
}

Execution::Execution(const Program& program, std::byte* memory)
    : program_(program),
      isa_(static_cast<int>(ActiveIsa())),
      chain_(FindChain(ActiveIsa())),
      operands_(reinterpret_cast<Operand*>(memory)),
      ops_(reinterpret_cast<ChainOp*>(memory + Aligned(program.values * sizeof(Operand)))),
      registers_(memory + Aligned(program.values * sizeof(Operand)) +
                 Aligned(program.chain_ops * sizeof(ChainOp))) {
  for (const Step& step : program.steps) {
    if (step.kind != Step::Kind::kChain) continue;
    ChainOp* op = ops_ + step.first_op;
    for (const ChainStep& source : step.chain) *op++ = {source.code, source.form};
    *op = {ChainCode::kEnd};
    for (size_t i = 0; i <= step.chain.size(); ++i) chain_.link(ops_ + step.first_op, i);
  }
}

void Execution::SetNumber(const Step& step, bool is_float, int64_t bits) {
  Operand& operand = operands_[step.value];
  GenerateNumber(step.dtype, is_float, bits, operand.number, 1);
  if (IsHalf(step.round)) RoundNumber(step.round, operand.number);
  operand.data = operand.number;
  operand.splat = true;
  if (!step.whole) return;
  std::byte* const tile = Register(step);
  const size_t size = SizeOf(step.dtype);
  for (int64_t i = 0; i < kTile; ++i) std::memcpy(tile + i * size, operand.number, size);
  operand.data = tile;  // whose first element serves as the splat
}

std::byte* Execution::Target(uint32_t value, std::byte* output) {
  std::byte* const to =
      output && value == program_.result ? output : RegisterAt(program_.registers_of[value]);
  operands_[value].data = to;
  operands_[value].splat = false;
  return to;
}

bool Execution::Run(const Step& step, int64_t n, std::byte* output) {
  if (step.kind == Step::Kind::kChain) {
    RunChain(step, n, output);
    return true;
  }
  const std::byte* const a = operands_[step.a].data;
  const std::byte* const b = step.operands > 1 ? operands_[step.b].data : nullptr;
  const std::byte* const c = step.operands > 2 ? operands_[step.c].data : nullptr;
  return step.fn[isa_]({a, b, c, Target(step.value, output), n});
}

void Execution::RunChain(const Step& step, int64_t n, std::byte* output) {
  ChainOp* const ops = ops_ + step.first_op;
  for (size_t i = 0; i < step.chain.size(); ++i) {
    const ChainStep& source = step.chain[i];
    ChainOp* const op = ops + i;
    uint8_t form = source.form;
    if (source.stores()) {
      op->a = Target(source.a, output);
    } else {
      if (source.operands > 0) {
        op->a = operands_[source.a].data;
        if (operands_[source.a].splat) form |= kSplatA;
      }
      if (source.operands > 1) {
        op->b = operands_[source.b].data;
        if (operands_[source.b].splat) form |= kSplatB;
      }
    }
    if (form != op->form || (form == kSplatA && IsExtremum(op->code))) {
      op->form = form;
      chain_.link(ops, i);
    }
  }
  chain_.run(ops, n);
}

}  // namespace liveshape::cpu::pw
