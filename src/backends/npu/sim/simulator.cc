#include "backends/npu/sim/simulator.h"

#include <algorithm>

namespace liveshape::npu {
namespace {

constexpr int kStopped = 1;        // what a callback returns to end the walk
constexpr size_t kTilesReady = 4;  // that a core has at hand beyond those in flight
constexpr size_t kTilesHeld =
    16384;  // beyond these the walk waits, even if a core has nothing to do

}  // namespace

Account& Account::operator+=(const Account& o) {
  cycles += o.cycles;
  tiles += o.tiles;
  items += o.items;
  records += o.records;
  array_busy += o.array_busy;
  vector_busy += o.vector_busy;
  dma_busy += o.dma_busy;
  for (size_t i = 0; i < array_idle.size(); ++i) array_idle[i] += o.array_idle[i];
  for (size_t i = 0; i < vector_idle.size(); ++i) vector_idle[i] += o.vector_idle[i];
  load_waits += o.load_waits;
  backpressure += o.backpressure;
  loaded_bytes += o.loaded_bytes;
  stored_bytes += o.stored_bytes;
  burst_bytes += o.burst_bytes;
  activates += o.activates;
  refreshes += o.refreshes;
  turnarounds += o.turnarounds;
  noc_bytes += o.noc_bytes;
  macs += o.macs;
  vector_work += o.vector_work;
  return *this;
}

Simulator::Simulator(const Machine& machine) : machine_(machine), memory_(machine_) {
  for (int64_t i = 0; i < machine_.cores; ++i) {
    cores_.push_back(std::make_unique<Core>(static_cast<uint32_t>(i), machine_, memory_));
    cores_.back()->set_observer(&observer_);
  }
  sink_ = {.context = this,
           .dispatch =
               [](void* self, const ls_trace_dispatch* r) {
                 return static_cast<Simulator*>(self)->OnDispatch(*r);
               },
           .dma = [](void* self,
                     const ls_trace_dma* r) { return static_cast<Simulator*>(self)->OnDma(*r); },
           .compute =
               [](void* self, const ls_trace_compute* r) {
                 return static_cast<Simulator*>(self)->OnCompute(*r);
               },
           .barrier =
               [](void* self, const ls_trace_barrier* r) {
                 return static_cast<Simulator*>(self)->OnBarrier(*r);
               }};
}

Simulator::~Simulator() = default;

Status Simulator::BeginKernel(const KernelView& kernel) {
  if (kernel_ != nullptr)
    return FailedPrecondition("kernel `{}` begins before `{}` has ended", kernel.name,
                              kernel_->name);
  if (kernel.buffers_per_variant != 0 && kernel.buffers.size() % kernel.buffers_per_variant != 0)
    return InvalidArgument("kernel `{}` has {} buffer sizes, not a multiple of its {} buffers",
                           kernel.name, kernel.buffers.size(), kernel.buffers_per_variant);
  for (const Code& code : kernel.codes)
    if (code.outputs < 1)
      return InvalidArgument("code `{}` of kernel `{}` writes nothing", code.name, kernel.name);
  kernel_ = &kernel;
  costs_.emplace(machine_, kernel.codes);
  status_ = {};
  variant_.reset();
  in_tile_ = false;
  last_item_ = -1;
  owner_ = nullptr;
  work_ = {};
  scratchpad_bytes_ = 0;
  launch_ = end_;
  before_ = Counted();
  return {};
}

// The variant says which buffers there are; all of their versions are in the scratchpad while the kernel runs.
Status Simulator::ChooseVariant(uint32_t variant) {
  const size_t n = kernel_->buffers_per_variant;
  if ((variant + size_t{1}) * n > kernel_->buffers.size())
    return InvalidArgument("variant {} of kernel `{}`: it has {}", variant, kernel_->name,
                           n == 0 ? 0 : kernel_->buffers.size() / n);
  variant_ = variant;
  first_version_.clear();
  uint32_t versions = 0;
  std::string sizes;
  for (size_t b = 0; b < n; ++b) {
    const ls_trace_buffer& buffer = kernel_->buffers[variant * n + b];
    int64_t bytes = 0;
    if (buffer.bytes < 0 || buffer.versions == 0 || buffer.versions > 64 ||
        __builtin_mul_overflow(buffer.bytes, int64_t{buffer.versions}, &bytes) ||
        __builtin_add_overflow(scratchpad_bytes_, bytes, &scratchpad_bytes_))
      return InvalidArgument("buffer `{}` of kernel `{}` has {} versions of {} bytes", buffer.name,
                             kernel_->name, buffer.versions, buffer.bytes);
    first_version_.push_back(versions);
    versions += buffer.versions;
    sizes +=
        fmt::format("{}{} {} x {}", b == 0 ? "" : ", ", buffer.name, buffer.versions, buffer.bytes);
  }
  if (scratchpad_bytes_ > machine_.scratchpad_bytes)
    return ResourceExhausted(
        "kernel `{}` needs {} bytes of scratchpad ({}), machine `{}` has {}: choose a smaller tile",
        kernel_->name, scratchpad_bytes_, sizes, machine_.name, machine_.scratchpad_bytes);
  written_in_.assign(versions, -1);
  const int64_t begin = std::max(launch_ + machine_.kernel_start_cycles, now_);
  for (auto& core : cores_) core->Begin(*kernel_, versions, launch_, begin);
  now_ = begin;
  return {};
}

int Simulator::Failed(Status status) {
  if (status_.ok())
    status_ = std::move(status).Prefixed(
        fmt::format("kernel `{}`, tile {}", kernel_ ? kernel_->name : "", tile_.tile));
  return kStopped;
}

int Simulator::OnDispatch(const ls_trace_dispatch& record) {
  if (kernel_ == nullptr || in_tile_)
    return Failed(InvalidArgument("a tile begins inside another: its barrier is missing"));
  if (record.tile != work_.tiles || record.item < last_item_)
    return Failed(InvalidArgument("tile {} of item {} comes after tile {} of item {}", record.tile,
                                  record.item, work_.tiles - 1, last_item_));
  tile_ = record;
  if (!variant_)
    if (Status chosen = ChooseVariant(record.variant); !chosen.ok())
      return Failed(std::move(chosen));
  if (record.variant != *variant_)
    return Failed(InvalidArgument("the variant changes from {} to {}", *variant_, record.variant));
  ++work_.tiles;
  ++work_.records;
  if (record.item != last_item_) {
    ++work_.items;
    owner_ = nullptr;
    while ((owner_ = HungriestCore()) == nullptr)
      if (Status stepped = Step(); !stepped.ok()) return Failed(std::move(stepped));
  }
  last_item_ = record.item;
  in_tile_ = true;
  operations_.clear();
  loads_ = loads_awaited_ = 0;
  return 0;
}

Result<uint32_t> Simulator::VersionOf(const ls_trace_place& place) const {
  if (place.buffer >= first_version_.size())
    return InvalidArgument("buffer {} of {}", place.buffer, first_version_.size());
  const ls_trace_buffer& buffer =
      kernel_->buffers[*variant_ * kernel_->buffers_per_variant + place.buffer];
  if (place.version >= buffer.versions || place.offset < 0 || place.offset > buffer.bytes)
    return OutOfRange("byte {} of version {} of buffer `{}`, which has {} versions of {} bytes",
                      place.offset, place.version, buffer.name, buffer.versions, buffer.bytes);
  return first_version_[place.buffer] + place.version;
}

Status Simulator::MarkRead(uint32_t version, const char* what) {
  if (written_in_[version] == last_item_) return {};
  size_t b = first_version_.size() - 1;
  while (first_version_[b] > version) --b;
  return FailedPrecondition("{} reads version {} of buffer `{}`, which item {} has not written",
                            what, version - first_version_[b],
                            kernel_->buffers[*variant_ * kernel_->buffers_per_variant + b].name,
                            last_item_);
}

// On the buffer's side; sim/box.h sees to the tensor's.
Status Simulator::CheckBox(const ls_trace_dma& record) const {
  if (record.rank > LS_TRACE_MAX_RANK)
    return InvalidArgument("a DMA record has rank {}: should be {} or less", record.rank,
                           LS_TRACE_MAX_RANK);
  int64_t low = record.place.offset, high = record.place.offset;
  bool overflow = false;
  for (uint32_t i = 0; i < record.rank; ++i) {
    if (record.extent[i] <= 0) return {};  // nothing moves
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(record.extent[i] - 1, record.buffer_stride[i], &reach);
    int64_t& end = reach < 0 ? low : high;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  const ls_trace_buffer& buffer =
      kernel_->buffers[*variant_ * kernel_->buffers_per_variant + record.place.buffer];
  if (overflow || low < 0 || high > buffer.bytes - int64_t{record.element_bytes})
    return OutOfRange("a DMA reaches bytes [{}, {}) of buffer `{}`, which has {}", low,
                      high + record.element_bytes, buffer.name, buffer.bytes);
  return {};
}

int Simulator::OnDma(const ls_trace_dma& record) {
  if (!in_tile_) return Failed(InvalidArgument("a DMA record outside a tile"));
  if (record.tensor >= kernel_->tensors.size())
    return Failed(
        InvalidArgument("a DMA of tensor {} of {}", record.tensor, kernel_->tensors.size()));
  ++work_.records;
  Result<uint32_t> place = VersionOf(record.place);
  if (!place.ok()) return Failed(std::move(place).status());
  if (Status box = CheckBox(record); !box.ok()) return Failed(std::move(box));
  Operation& operation = owner_->NewOperation(&operations_);
  operation.kind = record.store != 0 ? Operation::Kind::kStore : Operation::Kind::kLoad;
  operation.name = kernel_->tensors[record.tensor].tensor;
  operation.dma = record;
  operation.version[operation.versions++] = *place;
  if (record.store != 0) {
    if (Status read = MarkRead(*place, "a store"); !read.ok()) return Failed(std::move(read));
  } else {
    operation.outputs = 1;
    written_in_[*place] = last_item_;
    ++loads_;
  }
  if (record.indexed != 0) {
    Result<uint32_t> index = VersionOf(record.index);
    if (!index.ok()) return Failed(std::move(index).status());
    if (Status read = MarkRead(*index, "an indexed DMA"); !read.ok())
      return Failed(std::move(read));
    operation.version[operation.versions++] = *index;
  }
  return 0;
}

int Simulator::OnCompute(const ls_trace_compute& record) {
  if (!in_tile_) return Failed(InvalidArgument("a compute record outside a tile"));
  if (record.operands > LS_TRACE_MAX_OPERANDS)
    return Failed(InvalidArgument("a compute record has {} operands", record.operands));
  ++work_.records;
  Result<const Cost*> cost = costs_->Of(record);
  if (!cost.ok()) return Failed(std::move(cost).status());
  const Code& code = kernel_->codes[record.code];
  Operation& operation = owner_->NewOperation(&operations_);
  const bool array = code.unit == Unit::kArray;
  operation.kind = array ? Operation::Kind::kArray : Operation::Kind::kVector;
  operation.name = code.name;
  operation.cost = *cost;
  operation.loads_before = loads_awaited_;
  operation.outputs = std::min(static_cast<uint32_t>(code.outputs), record.operands);
  (array ? work_.macs : work_.vector_work) += (*cost)->work;
  // Inputs first: what a record writes, it may not take for written.
  for (uint32_t i = record.operands; i-- > 0;) {
    Result<uint32_t> version = VersionOf(record.operand[i]);
    if (!version.ok()) return Failed(std::move(version).status());
    operation.version[i] = *version;
    if (i < operation.outputs)
      written_in_[*version] = last_item_;
    else if (Status read = MarkRead(*version, code.name.c_str()); !read.ok())
      return Failed(std::move(read));
  }
  operation.versions = record.operands;
  return 0;
}

int Simulator::OnBarrier(const ls_trace_barrier& record) {
  if (!in_tile_) return Failed(InvalidArgument("a barrier outside a tile"));
  ++work_.records;
  if (record.kind == LS_TRACE_BARRIER_LOADS) {
    loads_awaited_ = loads_;
    return 0;
  }
  if (record.kind != LS_TRACE_BARRIER_TILE)
    return Failed(InvalidArgument("a barrier of kind {}", record.kind));
  in_tile_ = false;
  owner_->Give(tile_.tile, std::move(operations_), now_);
  operations_ = {};
  if (Status read = ReadAhead(); !read.ok()) return Failed(std::move(read));
  return 0;
}

Core* Simulator::HungriestCore() {
  Core* hungriest = nullptr;
  const auto load = [](const Core& core) { return core.tiles_in_flight() + core.tiles_waiting(); };
  for (auto& core : cores_)
    if (core->tiles_waiting() < kTilesReady &&
        (hungriest == nullptr || load(*core) < load(*hungriest)))
      hungriest = core.get();
  return hungriest;
}

// Time goes on until some core could use more of the walk.
Status Simulator::ReadAhead() {
  for (;;) {
    size_t held = 0;
    for (const auto& core : cores_) held += core->tiles_waiting();
    if (held < kTilesHeld && HungriestCore() != nullptr) return {};
    LS_RETURN_IF_ERROR(Step());
  }
}

Status Simulator::Step() {
  const int64_t until = now_ + machine_.noc.latency;
  bool sending = false;
  for (auto& core : cores_) {
    LS_RETURN_IF_ERROR(core->Run(now_, until));
    sending |= core->sending();
  }
  memory_.Run(until, [this](uint32_t core, uint32_t operation, int64_t cycle) {
    cores_[core]->BurstDone(operation, cycle);
  });
  now_ = until;
  if (sending || !memory_.idle()) return {};
  int64_t next = Core::kNever;
  bool busy = false;
  for (const auto& core : cores_) {
    next = std::min(next, core->NextEvent());
    busy |= core->tiles_in_flight() > 0;
  }
  if (next != Core::kNever) {
    now_ = std::max(now_, next);
  } else if (busy) {
    WaitGraph waits;
    for (const auto& core : cores_) core->DescribeWaits(waits);
    return Internal("nothing moves any more at cycle {}: {}", now_, waits.Cycle());
  }
  return {};
}

Account Simulator::Counted() const {
  Account account;
  for (size_t c = 0; c < cores_.size(); ++c) {
    const Core::Counters& counters = cores_[c]->counters();
    account.array_busy += counters.busy[static_cast<size_t>(Track::kArray)];
    account.vector_busy += counters.busy[static_cast<size_t>(Track::kVector)];
    account.dma_busy += static_cast<double>(counters.busy[static_cast<size_t>(Track::kDma)]) /
                        static_cast<double>(machine_.dma.bytes_per_cycle);
    for (size_t i = 0; i < account.array_idle.size(); ++i) {
      account.array_idle[i] += counters.idle[0][i];
      account.vector_idle[i] += counters.idle[1][i];
    }
    account.load_waits += counters.load_waits;
    account.backpressure += counters.backpressure;
    account.loaded_bytes += counters.loaded_bytes;
    account.stored_bytes += counters.stored_bytes;
    account.noc_bytes += memory_.returned_bytes(static_cast<uint32_t>(c));
  }
  const DramChannel::Counters dram = memory_.Counters();
  account.burst_bytes = dram.bursts * machine_.dram.BurstBytes();
  account.activates = dram.activates;
  account.refreshes = dram.refreshes;
  account.turnarounds = dram.turnarounds;
  return account;
}

}  // namespace liveshape::npu
