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

Execution::Execution(const Program& program, std::byte* memory, Isa chains)
    : program_(program),
      isa_(static_cast<int>(ActiveIsa())),
      chain_(FindChain(chains)),
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
  operand.row_step = 0;
  operand.splat = true;
  if (!step.whole) return;
  std::byte* const tile = Register(step);
  const size_t size = SizeOf(step.dtype);
  for (int64_t i = 0; i < kTile; ++i) std::memcpy(tile + i * size, operand.number, size);
  operand.data = tile;  // whose first element serves as the splat
}

std::byte* Execution::Target(uint32_t value, const Rows& rows, std::byte* output) {
  const bool to_output = output && value == program_.result;
  Operand& operand = operands_[value];
  std::byte* const to = to_output ? output : RegisterAt(program_.registers_of[value]);
  operand.data = to;
  operand.row_step = to_output ? rows.output_step : 0;
  operand.splat = false;
  return to;
}

bool Execution::Run(const Step& step, Rows rows, std::byte* output) {
  if (step.kind != Step::Kind::kChain) return RunFunction(step, rows, output);
  RunChain(step, rows, output);
  return true;
}

bool Execution::RunFunction(const Step& step, const Rows& rows, std::byte* output) {
  static constexpr Operand kNone{};
  const Operand& a = operands_[step.a];
  const Operand& b = step.operands > 1 ? operands_[step.b] : kNone;
  const Operand& c = step.operands > 2 ? operands_[step.c] : kNone;
  std::byte* const to = Target(step.value, rows, output);
  bool good = true;
  for (int64_t r = 0; r < rows.count; ++r)
    good &= step.fn[isa_]({a.data + r * a.row_step, b.data + r * b.row_step,
                           c.data + r * c.row_step, to + r * rows.output_step, rows.n});
  return good;
}

void Execution::RunChain(const Step& step, const Rows& rows, std::byte* output) {
  ChainOp* const ops = ops_ + step.first_op;
  for (size_t i = 0; i < step.chain.size(); ++i) {
    const ChainStep& source = step.chain[i];
    ChainOp* const op = ops + i;
    uint8_t form = rows.from_afar ? source.form : source.form & ~kFromAfar;
    if (source.stores()) {
      op->a = Target(source.a, rows, output);
      op->step_a = operands_[source.a].row_step;
      if (rows.past_caches && source.a == program_.result) form |= kPastCaches;
    } else {
      if (source.operands > 0) {
        op->a = operands_[source.a].data;
        op->step_a = operands_[source.a].row_step;
        if (operands_[source.a].splat) form = (form & ~kFromAfar) | kSplatA;
      }
      if (source.operands > 1) {
        op->b = operands_[source.b].data;
        op->step_b = operands_[source.b].row_step;
        if (operands_[source.b].splat) form |= kSplatB;
      }
    }
    if (form != op->form || (form == kSplatA && IsExtremum(op->code))) {
      op->form = form;
      chain_.link(ops, i);
    }
  }
  chain_.run(ops, rows.n, rows.count);
}

}  // namespace liveshape::cpu::pw
