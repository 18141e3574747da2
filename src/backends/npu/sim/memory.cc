#include "backends/npu/sim/memory.h"

namespace liveshape::npu {

MemorySystem::MemorySystem(const Machine& machine)
    : map_(machine.dram),
      latency_(machine.noc.latency),
      core_mhz_(machine.frequency_mhz),
      clock_mhz_(machine.dram.clock_mhz),
      port_bytes_(machine.noc.port_bytes_per_cycle),
      burst_bytes_(machine.dram.BurstBytes()),
      same_clock_(core_mhz_ == clock_mhz_),
      places_(static_cast<size_t>(machine.cores * machine.dram.channels)),
      port_(static_cast<size_t>(machine.cores)),
      returned_(static_cast<size_t>(machine.cores)) {
  for (int64_t c = 0; c < machine.dram.channels; ++c)
    channels_.emplace_back(machine.dram, machine.cores);
  for (Places& places : places_) {
    places.free = machine.noc.buffer_bursts;
    places.ring.resize(static_cast<size_t>(machine.noc.buffer_bursts));
  }
}

DramChannel::Counters MemorySystem::Counters() const {
  DramChannel::Counters sum;
  for (const DramChannel& channel : channels_) {
    const DramChannel::Counters& c = channel.counters();
    sum.bursts += c.bursts;
    sum.activates += c.activates;
    sum.refreshes += c.refreshes;
    sum.turnarounds += c.turnarounds;
  }
  return sum;
}

}  // namespace liveshape::npu
