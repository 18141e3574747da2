// One core: tiles in, in order; an array unit and a vector unit that take their records in order; a DMA engine that
// serves ready transfers in the order in which they became ready.
//
// Records wait for one another by the buffer versions they touch, in program order: a read waits for the write before
// it, a write for the reads and writes before it. Loads of one tile into one version fill parts of it and do not wait
// for each other; sums of the array into one version follow each other without a gap. So a load of the next tile
// waits until its version is free, and enters the DMA queue before the store of the tile that computes. A record only
// ever waits for earlier ones, so the order of the trace is one in which all can be done: that nothing moves any more
// would be a fault of the simulator, which DescribeWaits then shows.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "backends/npu/machine/machine.h"
#include "backends/npu/sim/box.h"
#include "backends/npu/sim/memory.h"
#include "backends/npu/sim/operation.h"
#include "backends/npu/sim/wait_graph.h"

namespace liveshape::npu {

class Core {
 public:
  static constexpr int64_t kNever = MemorySystem::kNever;

  struct Counters {
    std::array<int64_t, static_cast<size_t>(Track::kCount)> busy = {};
    // Of the array and the vector unit.
    std::array<std::array<int64_t, static_cast<size_t>(Stall::kCount)>, 2> idle = {};
    int64_t load_waits = 0;    // cycles, summed over loads, that a buffer version was not free
    int64_t backpressure = 0;  // cycles that a burst found its channel's buffer full
    int64_t loaded_bytes = 0, stored_bytes = 0, asked_bytes = 0, bursts = 0;
  };

  Core(uint32_t index, const Machine& machine, MemorySystem& memory)
      : index_(index), machine_(machine), memory_(memory) {}

  // A kernel with so many buffer versions may begin at `begin`; its launch began at `launch`.
  void Begin(const KernelView& kernel, size_t versions, int64_t launch, int64_t begin);
  // The kernel ended: what is left of the account of every unit.
  void End(int64_t cycle);

  Operation& NewOperation(std::vector<uint32_t>* tile);
  // Records of a whole tile, in order.
  void Give(int64_t tile, std::vector<uint32_t> operations, int64_t now);

  // All that happens before `until`, given what memory has said so far.
  Status Run(int64_t now, int64_t until);
  void BurstDone(uint32_t operation, int64_t cycle);

  size_t tiles_in_flight() const { return in_flight_; }
  size_t tiles_waiting() const { return waiting_.size(); }
  bool sending() const { return !dma_queue_.empty(); }
  int64_t NextEvent() const { return events_.empty() ? kNever : events_.top().cycle; }
  int64_t last_completion() const { return last_completion_; }
  const Counters& counters() const { return counters_; }
  void DescribeWaits(WaitGraph& graph) const;
  void set_observer(const Observer* observer) { observer_ = observer; }

 private:
  friend struct CorePeer;  // of tests, which make such a fault
  struct Reference { uint32_t slot, generation; };
  struct Version { std::vector<Reference> writers, readers; };
  struct Tile {
    int64_t number;
    std::vector<uint32_t> operations;
  };
  struct Event {
    int64_t cycle;
    uint64_t order;  // of being found: ties are settled the same way in every run
    uint32_t slot;
    bool operator>(const Event& o) const {
      return cycle != o.cycle ? cycle > o.cycle : order > o.order;
    }
  };
  struct Unit {
    std::deque<uint32_t> queue;
    int64_t free = 0;
  };

  bool Alive(Reference r) const { return pool_[r.slot].generation == r.generation; }
  void Wait(uint32_t slot, uint32_t on);
  void Admit(int64_t cycle);
  void Connect(uint32_t slot, const std::vector<uint32_t>& loads);
  void Ready(uint32_t slot, int64_t cycle);
  void StartComputes(Unit& unit, Track track);
  void Complete(uint32_t slot, int64_t cycle);
  Status Send(int64_t now, int64_t until);
  void Idle(Track track, Stall why, int64_t cycles) {
    counters_.idle[static_cast<size_t>(track)][static_cast<size_t>(why)] += cycles;
  }
  void Finish(uint32_t slot, int64_t cycle) { events_.push({cycle, order_++, slot}); }
  std::string Name(const Operation& operation) const;

  uint32_t index_;
  const Machine& machine_;
  MemorySystem& memory_;
  const KernelView* kernel_ = nullptr;
  const Observer* observer_ = nullptr;

  std::vector<Operation> pool_;
  std::vector<uint32_t> free_;
  std::vector<Version> versions_;
  std::deque<Tile> waiting_;
  std::vector<uint32_t> records_left_;  // by Operation::tile_slot
  std::vector<uint32_t> free_tile_slots_;
  size_t in_flight_ = 0;  // tiles
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t order_ = 0;
  std::array<Unit, 2> units_;  // array, vector
  int64_t begin_ = 0, last_completion_ = 0;

  // The DMA engine. `engine_time_` is in parts of a cycle: dma.bytes_per_cycle of them.
  std::deque<uint32_t> dma_queue_;
  BoxWalker walker_;
  bool walking_ = false, has_burst_ = false;
  uint64_t burst_ = 0, gathered_rows_ = 0;
  int64_t engine_time_ = 0;

  Counters counters_;
};

}  // namespace liveshape::npu
