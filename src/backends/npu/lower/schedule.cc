#include "backends/npu/lower/schedule.h"

#include <cstddef>
#include <cstring>
#include <map>

namespace liveshape::npu {
namespace {

using sym::Kind;

bool Walkable(Kind kind) {
  switch (kind) {
    case Kind::kAdd:
    case Kind::kMul:
    case Kind::kPow:
    case Kind::kFloorDiv:
    case Kind::kCeilDiv:
    case Kind::kMod:
    case Kind::kMin:
    case Kind::kMax:
    case Kind::kSelect:
    case Kind::kEq:
    case Kind::kNe:
    case Kind::kLt:
    case Kind::kLe:
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kNot: return true;
    default: return false;
  }
}

class Scheduler {
 public:
  Scheduler(const TileProgram& program, std::span<const Buffer> buffers)
      : program_(program), buffers_(buffers), out_(std::make_shared<Schedule>()) {}

  Result<std::shared_ptr<const Schedule>> Run() {
    const auto& symbols = program_.table->symbols();
    let_of_.assign(symbols.size(), Expr());
    out_->arguments = static_cast<uint32_t>(program_.shape_args.size());
    for (Expr arg : program_.shape_args) {
      slots_[arg.id()] = {NewSlot(symbols[arg.symbol()].name), &out_->body};
    }
    for (const Let& let : program_.lets) let_of_[let.variable.symbol()] = let.value;
    depth_[&out_->body] = 0;
    out_->variant = Slot(program_.variant);
    AddBlock(program_.body, out_->body, 1);
    out_->slots = static_cast<uint32_t>(out_->names.size());
    if (!refused_.empty()) return Unsupported("a tile program cannot compute `{}`", refused_);
    return std::shared_ptr<const Schedule>(std::move(out_));
  }

 private:
  struct Slotted {
    uint32_t slot;
    ScheduledBlock* block;  // where it becomes known
  };

  uint32_t NewSlot(std::string name = {}) {
    out_->names.push_back(std::move(name));
    return static_cast<uint32_t>(out_->names.size() - 1);
  }

  ScheduledBlock* Deeper(ScheduledBlock* a, ScheduledBlock* b) {
    return depth_[a] >= depth_[b] ? a : b;
  }

  uint32_t Slot(Expr e) { return At(e).slot; }

  Slotted At(Expr e) {
    auto found = slots_.find(e.id());
    if (found != slots_.end()) return found->second;
    Slotted made = Make(e);
    slots_[e.id()] = made;
    return made;
  }

  Slotted Make(Expr e) {
    if (e.is_int()) {
      const uint32_t slot = NewSlot();
      out_->constants.emplace_back(slot, e.value());
      return {slot, &out_->body};
    }
    if (e.is_symbol()) {
      const Expr value = let_of_[e.symbol()];
      LS_CHECK(value);  // a loop variable has its slot when its loop is entered
      Slotted let = At(value);
      if (out_->names[let.slot].empty())
        out_->names[let.slot] = program_.table->symbols()[e.symbol()].name;
      return let;
    }
    const std::span<const Expr> args = e.args();
    if (!Walkable(e.kind())) {
      if (refused_.empty()) refused_ = sym::ToString(e);
      return {0, &out_->body};
    }
    Slotted result = At(args[0]);
    if (e.kind() == Kind::kSelect) {
      const Slotted yes = At(args[1]), no = At(args[2]);
      return Emit(Kind::kSelect, Deeper(result.block, Deeper(yes.block, no.block)), result.slot,
                  yes.slot, no.slot);
    }
    if (args.size() == 1) return Emit(e.kind(), result.block, result.slot, result.slot, 0);
    for (size_t i = 1; i < args.size(); ++i) {
      const Slotted next = At(args[i]);
      result = Emit(e.kind(), Deeper(result.block, next.block), result.slot, next.slot, 0);
    }
    return result;
  }

  Slotted Emit(Kind op, ScheduledBlock* block, uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t out = NewSlot();
    block->instructions.push_back({op, out, a, b, c});
    return {out, block};
  }

  void AddBlock(const Block& from, ScheduledBlock& to, uint32_t depth) {
    // Statements are added to a list of fixed size: blocks are known by their address.
    to.statements.resize(from.statements.size());
    for (size_t i = 0; i < from.statements.size(); ++i)
      AddStatement(from.statements[i], to, to.statements[i], depth);
  }

  void AddStatement(const Statement& from, ScheduledBlock& block, ScheduledStatement& to,
                    uint32_t depth) {
    using In = Statement::Kind;
    using Out = ScheduledStatement::Kind;
    switch (from.kind) {
      case In::kLoop:
        to.kind = Out::kLoop;
        to.slot = Slot(from.expr);
        to.variable = NewSlot(program_.table->symbols()[from.variable.symbol()].name);
        depth_[&to.body] = depth;
        slots_[from.variable.id()] = {to.variable, &to.body};
        AddBlock(from.body, to.body, depth + 1);
        return;
      case In::kIf:
        // No block of its own: what its statements need is evaluated around it.
        to.kind = Out::kIf;
        to.slot = Slot(from.expr);
        AddBlock(from.body, to.body, depth);
        return;
      case In::kItem: to.kind = Out::kItem; return;
      default: break;
    }
    to.kind = Out::kRecord;
    switch (from.kind) {
      case In::kDispatch: AddRecord(RecordKind::kDispatch, ls_trace_dispatch{}, to); return;
      case In::kDma: AddDma(from.dma, to); return;
      case In::kCompute: AddCompute(from.compute, to); return;
      case In::kBarrierLoads:
        AddRecord(RecordKind::kBarrier, ls_trace_barrier{LS_TRACE_BARRIER_LOADS, 0}, to);
        return;
      default:
        AddRecord(RecordKind::kBarrier, ls_trace_barrier{LS_TRACE_BARRIER_TILE, 0}, to);
        return;
    }
  }

  template <typename Record>
  void AddRecord(RecordKind kind, const Record& record, ScheduledStatement& to) {
    to.record = kind;
    to.at = static_cast<uint32_t>(out_->records.size());
    out_->records.resize(to.at + sizeof(Record));
    std::memcpy(out_->records.data() + to.at, &record, sizeof(Record));
  }

  void Number(uint32_t at, Expr e) {
    if (e.is_int()) {
      const int64_t value = e.value();
      std::memcpy(out_->records.data() + at, &value, sizeof(value));
      return;
    }
    const Slotted number = At(e);
    number.block->patches.push_back({at, number.slot});
  }

  void AddPlace(uint32_t at, const Place& place, ScheduledStatement& to) {
    std::memcpy(out_->records.data() + at + offsetof(ls_trace_place, buffer), &place.buffer, 4);
    Number(at + offsetof(ls_trace_place, offset), place.offset);
    if (buffers_[place.buffer].versions > 1)
      to.versions.push_back(
          {static_cast<uint32_t>(at + offsetof(ls_trace_place, version)), place.buffer});
  }

  void AddDma(const Dma& dma, ScheduledStatement& to) {
    LS_CHECK(dma.box.size() <= LS_TRACE_MAX_RANK);
    ls_trace_dma record = {};
    record.store = dma.store;
    record.tensor = dma.tensor;
    record.element_bytes = dma.element_bytes;
    record.rank = static_cast<uint32_t>(dma.box.size());
    record.indexed = dma.index.has_value();
    AddRecord(RecordKind::kDma, record, to);
    AddPlace(to.at + offsetof(ls_trace_dma, place), dma.place, to);
    if (dma.index) AddPlace(to.at + offsetof(ls_trace_dma, index), *dma.index, to);
    Number(to.at + offsetof(ls_trace_dma, offset), dma.offset);
    for (uint32_t d = 0; d < dma.box.size(); ++d) {
      Number(to.at + offsetof(ls_trace_dma, extent) + 8 * d, dma.box[d].extent);
      Number(to.at + offsetof(ls_trace_dma, stride) + 8 * d, dma.box[d].stride);
      Number(to.at + offsetof(ls_trace_dma, buffer_stride) + 8 * d, dma.box[d].buffer_stride);
    }
  }

  void AddCompute(const Compute& compute, ScheduledStatement& to) {
    LS_CHECK(compute.extents.size() <= LS_TRACE_MAX_RANK &&
             compute.arguments.size() <= LS_TRACE_MAX_RANK &&
             compute.operands.size() <= LS_TRACE_MAX_OPERANDS);
    ls_trace_compute record = {};
    record.code = compute.code;
    record.rank = static_cast<uint32_t>(compute.extents.size());
    record.operands = static_cast<uint32_t>(compute.operands.size());
    AddRecord(RecordKind::kCompute, record, to);
    for (uint32_t d = 0; d < compute.extents.size(); ++d)
      Number(to.at + offsetof(ls_trace_compute, extent) + 8 * d, compute.extents[d]);
    for (uint32_t d = 0; d < compute.arguments.size(); ++d)
      Number(to.at + offsetof(ls_trace_compute, argument) + 8 * d, compute.arguments[d]);
    for (uint32_t i = 0; i < compute.operands.size(); ++i)
      AddPlace(static_cast<uint32_t>(to.at + offsetof(ls_trace_compute, operand) +
                                     i * sizeof(ls_trace_place)),
               compute.operands[i], to);
  }

  const TileProgram& program_;
  std::span<const Buffer> buffers_;
  std::shared_ptr<Schedule> out_;
  std::vector<Expr> let_of_;           // by symbol
  std::map<uint32_t, Slotted> slots_;  // by Expr::id
  std::map<const ScheduledBlock*, uint32_t> depth_;
  std::string refused_;
};

}  // namespace

Result<std::shared_ptr<const Schedule>> MakeSchedule(const TileProgram& program,
                                                     std::span<const Buffer> buffers) {
  return Scheduler(program, buffers).Run();
}

}  // namespace liveshape::npu
