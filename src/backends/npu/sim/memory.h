// The memory as cores see it: a crossbar with finite buffers in front of the channels.
//
//   MemorySystem memory(machine);
//   while (cycle < end) {
//     int64_t when = memory.Send(core, burst, write, tag, cycle);   // <= cycle: it has left
//     memory.Run(until, [](uint32_t core, uint32_t tag, int64_t cycle) { ... });   // data or acknowledgement
//   }
//
// A burst takes noc.latency to its channel, where the core has buffer_bursts places of its own; when they are full the
// core stands still (its bursts keep their order). What is served takes noc.latency back, reads through the core's port.
// Nothing that happens in [now, now + noc.latency) at one side is seen at the other before now + noc.latency: so both
// sides may be run for that long in turn, as if cycle by cycle. Only who passes a port first is settled by channel
// within such a stretch, not by cycle.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "backends/npu/machine/machine.h"
#include "backends/npu/sim/address_map.h"
#include "backends/npu/sim/dram_channel.h"

namespace liveshape::npu {

class MemorySystem {
 public:
  static constexpr int64_t kNever = DramChannel::kNever;

  explicit MemorySystem(const Machine& machine);

  int burst_bits() const { return map_.burst_bits(); }

  // Sends the burst at `cycle` if its channel's buffer has a place then, and returns `cycle`; else returns when one will
  // be free, or kNever if that is not known yet.
  int64_t Send(uint32_t core, uint64_t burst, bool write, uint32_t tag, int64_t cycle) {
    const DramPlace place = map_.Of(burst);
    Places& places = places_[core * channels_.size() + place.channel];
    while (places.returning != 0 && places.Front() <= cycle) places.Pop();
    if (places.free == 0) return places.returning == 0 ? kNever : places.Front();
    --places.free;
    channels_[place.channel].Push(core, {.row = place.row,
                                         .bank = place.bank,
                                         .write = write,
                                         .core = core,
                                         .tag = tag,
                                         .arrival = ToClock(cycle + latency_)});
    ++in_flight_;
    return cycle;
  }

  // Serves until `cycle`; `done` hears of each burst and when the core has it.
  template <typename Done>
  void Run(int64_t cycle, Done&& done) {
    const int64_t until = ToClock(cycle);
    for (size_t c = 0; c < channels_.size(); ++c) {
      if (channels_[c].idle()) continue;
      channels_[c].Run(
          until,
          [&](const Burst& burst, int64_t data_end) {
            int64_t there = ToCycle(data_end) + latency_;
            if (!burst.write) there = Return(burst.core, there);
            --in_flight_;
            done(burst.core, burst.tag, there);
          },
          [&](uint32_t core, int64_t taken) {
            places_[core * channels_.size() + c].Push(ToCycle(taken) + latency_);
          });
    }
  }

  bool idle() const { return in_flight_ == 0; }

  DramChannel::Counters Counters() const;        // of all channels
  int64_t returned_bytes(uint32_t core) const {  // through its port
    return returned_[core];
  }

 private:
  // A core's buffer at a channel: places that are free, and when others will be.
  struct Places {
    int64_t free = 0;
    size_t first = 0, returning = 0;
    std::vector<int64_t> ring;
    int64_t Front() const { return ring[first]; }
    void Pop() {
      first = first + 1 == ring.size() ? 0 : first + 1;
      --returning;
      ++free;
    }
    void Push(int64_t cycle) {
      size_t at = first + returning++;
      if (at >= ring.size()) at -= ring.size();
      ring[at] = cycle;
    }
  };

  int64_t ToClock(int64_t cycle) const {
    return same_clock_ ? cycle : (cycle * clock_mhz_ + core_mhz_ - 1) / core_mhz_;
  }
  int64_t ToCycle(int64_t clock) const {
    return same_clock_ ? clock : (clock * core_mhz_ + clock_mhz_ - 1) / clock_mhz_;
  }
  // The port takes port_bytes_per_cycle; `port_` is its time in parts of a cycle.
  int64_t Return(uint32_t core, int64_t cycle) {
    int64_t& port = port_[core];
    port = std::max(port, cycle * port_bytes_) + burst_bytes_;
    returned_[core] += burst_bytes_;
    return (port + port_bytes_ - 1) / port_bytes_;
  }

  AddressMap map_;
  int64_t latency_, core_mhz_, clock_mhz_, port_bytes_, burst_bytes_;
  bool same_clock_;
  std::vector<DramChannel> channels_;
  std::vector<Places> places_;  // [core * channels + channel]
  std::vector<int64_t> port_, returned_;
  int64_t in_flight_ = 0;
};

}  // namespace liveshape::npu
