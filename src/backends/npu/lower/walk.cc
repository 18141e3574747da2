#include <algorithm>
#include <cstring>

#include "backends/npu/lower/schedule.h"

namespace liveshape::npu {
namespace {

using sym::Kind;

constexpr int kWrongArguments = -1, kOverflow = -2;

// Floor semantics, x//0 = 0 (see TileProgram); the same as in producer/source.cc's prelude.
int64_t FloorDivide(int64_t a, int64_t b) {
  if (b == 0) return 0;
  const int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

bool Evaluate(const Instruction& in, int64_t* slots) {
  const int64_t a = slots[in.a], b = slots[in.b];
  int64_t& out = slots[in.out];
  switch (in.op) {
    case Kind::kAdd: return !__builtin_add_overflow(a, b, &out);
    case Kind::kMul: return !__builtin_mul_overflow(a, b, &out);
    case Kind::kPow:
      out = 1;
      for (int64_t i = 0; i < b; ++i)
        if (__builtin_mul_overflow(out, a, &out)) return false;
      return true;
    case Kind::kFloorDiv: out = FloorDivide(a, b); return true;
    case Kind::kCeilDiv: out = -FloorDivide(-a, b); return true;
    case Kind::kMod: out = a - FloorDivide(a, b) * b; return true;
    case Kind::kMin: out = std::min(a, b); return true;
    case Kind::kMax: out = std::max(a, b); return true;
    case Kind::kSelect: out = a != 0 ? b : slots[in.c]; return true;
    case Kind::kEq: out = a == b; return true;
    case Kind::kNe: out = a != b; return true;
    case Kind::kLt: out = a < b; return true;
    case Kind::kLe: out = a <= b; return true;
    case Kind::kAnd: out = a != 0 && b != 0; return true;
    case Kind::kOr: out = a != 0 || b != 0; return true;
    default: out = a == 0; return true;  // kNot: the scheduler admits no other
  }
}

}  // namespace

Walker::Walker(const Kernel& kernel)
    : kernel_(&kernel), slots_(kernel.schedule->slots), records_(kernel.schedule->records) {
  for (const auto& [slot, value] : kernel.schedule->constants) slots_[slot] = value;
}

int Walker::Walk(std::span<const int64_t> shape_args, const ls_trace_sink& sink) {
  if (shape_args.size() != kernel_->schedule->arguments) return kWrongArguments;
  std::copy(shape_args.begin(), shape_args.end(), slots_.begin());
  sink_ = &sink;
  tile_ = item_ = -1;
  return Run(kernel_->schedule->body);
}

int Walker::Run(const ScheduledBlock& block) {
  int64_t* const slots = slots_.data();
  for (const Instruction& in : block.instructions)
    if (!Evaluate(in, slots)) return kOverflow;
  for (const Patch& patch : block.patches)
    std::memcpy(records_.data() + patch.at, &slots[patch.slot], sizeof(int64_t));
  for (const ScheduledStatement& statement : block.statements) {
    int result = 0;
    switch (statement.kind) {
      case ScheduledStatement::Kind::kLoop:
        for (int64_t i = 0, count = slots[statement.slot]; i < count && result == 0; ++i) {
          slots[statement.variable] = i;
          result = Run(statement.body);
        }
        break;
      case ScheduledStatement::Kind::kIf:
        if (slots[statement.slot] != 0) result = Run(statement.body);
        break;
      case ScheduledStatement::Kind::kItem: ++item_; break;
      case ScheduledStatement::Kind::kRecord: result = Emit(statement); break;
    }
    if (result != 0) return result;
  }
  return 0;
}

uint32_t Walker::VersionOf(uint32_t buffer) const {
  const Buffer& b = kernel_->buffers[buffer];
  return static_cast<uint32_t>((b.turn == Turn::kTile ? tile_ : item_) % b.versions);
}

int Walker::Emit(const ScheduledStatement& statement) {
  for (const VersionPatch& patch : statement.versions) {
    const uint32_t version = VersionOf(patch.buffer);
    std::memcpy(records_.data() + patch.at, &version, sizeof(version));
  }
  std::byte* const record = records_.data() + statement.at;
  switch (statement.record) {
    case RecordKind::kDispatch: {
      auto* dispatch = reinterpret_cast<ls_trace_dispatch*>(record);
      dispatch->tile = ++tile_;
      dispatch->item = item_;
      dispatch->variant = static_cast<uint32_t>(slots_[kernel_->schedule->variant]);
      return sink_->dispatch(sink_->context, dispatch);
    }
    case RecordKind::kDma:
      return sink_->dma(sink_->context, reinterpret_cast<ls_trace_dma*>(record));
    case RecordKind::kCompute:
      return sink_->compute(sink_->context, reinterpret_cast<ls_trace_compute*>(record));
    case RecordKind::kBarrier:
      return sink_->barrier(sink_->context, reinterpret_cast<ls_trace_barrier*>(record));
  }
  return 0;
}

int Walk(const Kernel& kernel, std::span<const int64_t> shape_args, const ls_trace_sink& sink) {
  return Walker(kernel).Walk(shape_args, sink);
}

}  // namespace liveshape::npu
