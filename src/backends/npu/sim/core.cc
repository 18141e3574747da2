#include "backends/npu/sim/core.h"

namespace liveshape::npu {

const char* ToString(Stall stall) {
  constexpr const char* kNames[] = {"launch", "load", "store", "compute", "tiles", "end"};
  return kNames[static_cast<size_t>(stall)];
}

void Core::Begin(const KernelView& kernel, size_t versions, int64_t launch, int64_t begin) {
  kernel_ = &kernel;
  versions_.assign(versions, {});
  begin_ = begin;
  last_completion_ = begin;
  for (const Track track : {Track::kArray, Track::kVector}) {
    Idle(track, Stall::kLaunch, begin - launch);
    units_[static_cast<size_t>(track)].free = begin;
  }
  engine_time_ = std::max(engine_time_, begin * machine_.dma.bytes_per_cycle);
}

void Core::End(int64_t cycle) {
  for (const Track track : {Track::kArray, Track::kVector})
    Idle(track, Stall::kEnd, cycle - units_[static_cast<size_t>(track)].free);
}

Operation& Core::NewOperation(std::vector<uint32_t>* tile) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(pool_.size()));
    pool_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  tile->push_back(slot);
  Operation& operation = pool_[slot];
  const uint32_t generation = operation.generation;
  std::vector<uint32_t> dependents = std::move(operation.dependents);  // its memory is kept
  dependents.clear();
  operation = {};
  operation.generation = generation;
  operation.dependents = std::move(dependents);
  return operation;
}

void Core::Give(int64_t tile, std::vector<uint32_t> operations, int64_t now) {
  waiting_.push_back({tile, std::move(operations)});
  Admit(std::max(now, begin_));
}

void Core::Admit(int64_t cycle) {
  while (!waiting_.empty() && in_flight_ < static_cast<size_t>(machine_.tiles_in_flight)) {
    const Tile tile = std::move(waiting_.front());
    waiting_.pop_front();
    if (tile.operations.empty()) continue;
    ++in_flight_;
    if (free_tile_slots_.empty()) {
      free_tile_slots_.push_back(static_cast<uint32_t>(records_left_.size()));
      records_left_.push_back(0);
    }
    const uint32_t tile_slot = free_tile_slots_.back();
    free_tile_slots_.pop_back();
    records_left_[tile_slot] = static_cast<uint32_t>(tile.operations.size());
    std::vector<uint32_t> loads;
    for (const uint32_t slot : tile.operations) {
      Operation& operation = pool_[slot];
      operation.tile_slot = tile_slot;
      operation.tile = tile.number;
      operation.ready = cycle;  // but for what it waits for
      operation.waits = 1;      // itself, until it is connected
      Connect(slot, loads);
      if (operation.kind == Operation::Kind::kLoad) loads.push_back(slot);
      if (!operation.is_dma())
        units_[operation.kind == Operation::Kind::kVector].queue.push_back(slot);
      if (--operation.waits == 0) Ready(slot, cycle);
    }
  }
}

void Core::Wait(uint32_t slot, uint32_t on) {
  pool_[on].dependents.push_back(slot);
  ++pool_[slot].waits;
}

void Core::Connect(uint32_t slot, const std::vector<uint32_t>& loads) {
  Operation& operation = pool_[slot];
  const Reference self = {slot, operation.generation};
  for (uint32_t i = 0; i < operation.loads_before; ++i) Wait(slot, loads[i]);
  for (uint32_t i = 0; i < operation.versions; ++i) {
    Version& version = versions_[operation.version[i]];
    std::erase_if(version.writers, [&](Reference r) { return !Alive(r); });
    if (i >= operation.outputs) {
      for (const Reference r : version.writers)
        if (r.slot != slot) Wait(slot, r.slot);
      std::erase_if(version.readers, [&](Reference r) { return !Alive(r); });
      version.readers.push_back(self);
      continue;
    }
    bool joins = false;  // the writers before it
    for (const Reference r : version.writers) {
      const Operation& writer = pool_[r.slot];
      const bool same_load = operation.kind == Operation::Kind::kLoad &&
                             writer.kind == Operation::Kind::kLoad && writer.tile == operation.tile;
      const bool same_sum =
          operation.kind == Operation::Kind::kArray && writer.kind == Operation::Kind::kArray;
      joins |= same_load;
      if (!same_load && !same_sum && r.slot != slot) Wait(slot, r.slot);
    }
    for (const Reference r : version.readers)
      if (r.slot != slot && Alive(r)) Wait(slot, r.slot);
    if (!joins) {
      version.writers.clear();
      version.readers.clear();
    }
    version.writers.push_back(self);
  }
}

void Core::Ready(uint32_t slot, int64_t cycle) {
  Operation& operation = pool_[slot];
  operation.ready = cycle;
  if (operation.is_dma()) {
    dma_queue_.push_back(slot);
    return;
  }
  const bool vector = operation.kind == Operation::Kind::kVector;
  StartComputes(units_[vector], vector ? Track::kVector : Track::kArray);
}

void Core::StartComputes(Unit& unit, Track track) {
  while (!unit.queue.empty() && pool_[unit.queue.front()].waits == 0) {
    const uint32_t slot = unit.queue.front();
    unit.queue.pop_front();
    Operation& operation = pool_[slot];
    operation.begin = std::max(unit.free, operation.ready);
    Idle(track, operation.last_wait, operation.begin - unit.free);
    unit.free = operation.begin + operation.cost->occupancy;
    counters_.busy[static_cast<size_t>(track)] += operation.cost->occupancy;
    Finish(slot, unit.free + operation.cost->latency);
    if (observer_ != nullptr && *observer_)
      (*observer_)({index_, track, operation.name, operation.tile, operation.begin, unit.free});
  }
}

void Core::Complete(uint32_t slot, int64_t cycle) {
  Operation& operation = pool_[slot];
  const Stall why = operation.kind == Operation::Kind::kLoad    ? Stall::kLoad
                    : operation.kind == Operation::Kind::kStore ? Stall::kStore
                                                                : Stall::kCompute;
  if (operation.is_dma() && observer_ != nullptr && *observer_)
    (*observer_)({index_, Track::kDma, operation.name, operation.tile, operation.begin, cycle});
  ++operation.generation;
  last_completion_ = std::max(last_completion_, cycle);
  for (const uint32_t dependent : operation.dependents) {
    Operation& waiting = pool_[dependent];
    waiting.last_wait = why;
    if (--waiting.waits > 0) continue;
    if (waiting.kind == Operation::Kind::kLoad) counters_.load_waits += cycle - waiting.ready;
    Ready(dependent, cycle);
  }
  const uint32_t tile_slot = operation.tile_slot;
  free_.push_back(slot);
  if (--records_left_[tile_slot] > 0) return;
  free_tile_slots_.push_back(tile_slot);
  --in_flight_;
  Admit(cycle);
}

Status Core::Run(int64_t now, int64_t until) {
  while (!events_.empty() && events_.top().cycle < until) {
    const Event event = events_.top();
    events_.pop();
    Complete(event.slot, event.cycle);
  }
  return Send(now, until);
}

Status Core::Send(int64_t now, int64_t until) {
  const int64_t rate = machine_.dma.bytes_per_cycle, bytes = machine_.dram.BurstBytes();
  while (!dma_queue_.empty()) {
    const uint32_t slot = dma_queue_.front();
    Operation& operation = pool_[slot];
    const bool write = operation.kind == Operation::Kind::kStore;
    if (!walking_) {
      const int64_t begin = (operation.ready + machine_.dma.setup_cycles) * rate;
      engine_time_ = std::max(engine_time_, begin);
      if (engine_time_ / rate >= until) return {};
      const TensorAddress& tensor = kernel_->tensors[operation.dma.tensor];
      LS_RETURN_IF_ERROR(walker_.Start(operation.dma, tensor.base, tensor.bytes,
                                       memory_.burst_bits(), gathered_rows_));
      if (operation.dma.indexed != 0)
        gathered_rows_ += static_cast<uint64_t>(operation.dma.extent[0]);
      walking_ = true;
      operation.begin = engine_time_ / rate;
    }
    while (has_burst_ || (has_burst_ = walker_.Next(&burst_))) {
      const int64_t cycle = engine_time_ / rate;
      if (cycle >= until) return {};
      const int64_t when = memory_.Send(index_, burst_, write, slot, cycle);
      if (when > cycle) {
        const int64_t resume = std::min(when, until);
        counters_.backpressure += resume - cycle;
        engine_time_ = resume * rate;
        continue;
      }
      has_burst_ = false;
      engine_time_ += bytes;
      counters_.busy[static_cast<size_t>(Track::kDma)] += bytes;  // in parts of a cycle
      ++counters_.bursts;
      ++operation.bursts_out;
    }
    (write ? counters_.stored_bytes : counters_.loaded_bytes) += walker_.useful_bytes();
    counters_.asked_bytes += walker_.asked_bytes();
    walking_ = false;
    operation.all_sent = true;
    dma_queue_.pop_front();
    if (operation.bursts_out == 0) {
      const int64_t nothing = std::max(engine_time_ / rate, now) + machine_.noc.latency;
      Finish(slot, std::max(operation.end, nothing));
    }
  }
  return {};
}

void Core::BurstDone(uint32_t slot, int64_t cycle) {
  Operation& operation = pool_[slot];
  operation.end = std::max(operation.end, cycle);
  if (--operation.bursts_out == 0 && operation.all_sent) Finish(slot, operation.end);
}

std::string Core::Name(const Operation& operation) const {
  return fmt::format("{}{} of tile {} on core {}",
                     operation.kind == Operation::Kind::kLoad    ? "load "
                     : operation.kind == Operation::Kind::kStore ? "store "
                                                                 : "",
                     operation.name, operation.tile, index_);
}

void Core::DescribeWaits(WaitGraph& graph) const {
  std::vector<bool> free(pool_.size());
  for (const uint32_t slot : free_) free[slot] = true;
  for (size_t i = 0; i < pool_.size(); ++i)
    if (!free[i])
      for (const uint32_t dependent : pool_[i].dependents)
        graph.Add(Name(pool_[dependent]), Name(pool_[i]));
  for (const Unit& unit : units_)
    for (size_t i = 1; i < unit.queue.size(); ++i)
      graph.Add(Name(pool_[unit.queue[i]]), Name(pool_[unit.queue[i - 1]]));
}

}  // namespace liveshape::npu
