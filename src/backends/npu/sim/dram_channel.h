// One channel: bursts arrive from the cores, wait in a finite queue, and are served first-ready first-come
// (FR-FCFS): of the commands that may be issued soonest, columns of open rows first, then the oldest.
//
//   DramChannel channel(machine.dram, /*cores=*/1);
//   channel.Push(/*core=*/0, {.row = 7, .bank = 2, .arrival = 100});
//   channel.Run(/*until=*/500, [](const Burst& burst, int64_t data_end) { ... },
//               [](int core, int64_t taken) { ... });     // a place in the core's buffer is free again
//
// Writes wait until there are many, no reads, or the oldest is old, since turning the bus round costs both ways. Nothing
// waits longer than kPatience because others are ready first. Clocks are those of the memory.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/npu/sim/dram_state.h"

namespace liveshape::npu {

struct Burst {
  int64_t row = 0;
  uint32_t bank = 0;
  bool write = false;
  uint32_t core = 0;
  uint32_t tag = 0;     // the core's own: which transfer it is part of
  int64_t arrival = 0;  // non-decreasing for one core
};

class DramChannel {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kPatience = 1000;  // clocks: a third of a refresh interval

  struct Counters {
    int64_t bursts = 0, activates = 0, refreshes = 0;
    int64_t turnarounds = 0;  // of the data bus
  };

  DramChannel(const DramConfig& config, int64_t cores);

  void Push(int64_t core,
            const Burst& burst);  // the core knows that there is room (NocConfig::buffer_bursts)

  // Issues every command before clock `until`.
  template <typename Done, typename Taken>
  void Run(int64_t until, Done&& done, Taken&& taken) {
    if (pending_ == 0) return;  // refreshes are caught up with at the next arrival
    for (Event event = Next(until); event.kind != Event::kNothing; event = Next(until)) {
      if (event.kind == Event::kTaken) taken(event.burst.core, event.clock);
      if (event.kind == Event::kServed) done(event.burst, event.clock);
    }
  }

  bool idle() const { return pending_ == 0; }
  const Counters& counters() const { return counters_; }

 private:
  static constexpr uint16_t kNone = 0xffff;
  struct Slot {
    Burst burst;
    int64_t order = 0;  // in which it was taken into the queue
    uint16_t next = kNone;
  };
  struct List { uint16_t head = kNone, tail = kNone; };
  struct Bank {
    int64_t open_row = -1;
    std::array<List, 2> waiting;  // reads, writes
    // What would be issued next in the current direction.
    Command command = Command::kActivate;
    uint16_t slot = kNone, before = kNone;
    bool stale = true;
    int64_t arrival = 0, order = 0;  // of that slot
  };
  struct Event {
    enum Kind : uint8_t { kNothing, kTaken, kServed } kind = kNothing;
    Burst burst = {};
    int64_t clock = 0;
  };
  struct Inbox {  // the core's buffer at this channel
    std::vector<Burst> ring;
    size_t first = 0, size = 0;
  };

  Event Next(int64_t until);
  int64_t FirstArrival(size_t* core) const;
  Event Take(size_t core);
  void ChooseDirection(int64_t clock);
  void Choose(Bank& bank, int64_t clock);
  Event Serve(Bank& bank, uint32_t index, int64_t clock);
  void RefreshAll();

  DramConfig config_;
  DramState state_;
  std::vector<Bank> banks_;
  std::vector<Slot> slots_;
  std::vector<uint16_t> free_;
  std::vector<Inbox> inboxes_;
  std::array<uint64_t, 2> waiting_banks_ = {};  // bit b: bank b has reads, writes
  std::array<int64_t, 2> waiting_ = {};
  std::array<int64_t, 2> since_ = {};  // when reads, writes began to wait, or were last left
  bool writing_ = false;
  int64_t row_bus_ = 0, column_bus_ = 0;  // when the next command may use it
  int64_t next_refresh_;
  int64_t slot_free_at_ = 0;
  int64_t order_ = 0;
  int64_t pending_ = 0;  // in inboxes and queue
  Counters counters_;
};

}  // namespace liveshape::npu
