#include "backends/npu/report/roofline.h"

#include <algorithm>

namespace liveshape::npu {

Utilisation UtilisationOf(const Machine& machine, const Account& a) {
  const double cycles = std::max<double>(1, static_cast<double>(a.cycles));
  const double all = cycles * static_cast<double>(machine.cores);
  return {static_cast<double>(a.array_busy) / all, static_cast<double>(a.vector_busy) / all,
          a.dma_busy / all,
          static_cast<double>(a.burst_bytes) / (machine.PeakBytesPerCycle() * cycles),
          static_cast<double>(a.noc_bytes) /
              (static_cast<double>(machine.noc.port_bytes_per_cycle) * all)};
}

const char* ToString(Limit limit) {
  constexpr const char* kNames[] = {"arrays", "lanes", "memory"};
  return kNames[static_cast<size_t>(limit)];
}

double Roofline::Cycles() const { return std::max({array_cycles, lane_cycles, memory_cycles}); }

double Roofline::Share(const Account& account) const {
  return account.cycles == 0 ? 0 : Cycles() / static_cast<double>(account.cycles);
}

Roofline RooflineOf(const Machine& machine, const Account& account) {
  Roofline r;
  const auto bytes = static_cast<double>(account.loaded_bytes + account.stored_bytes);
  const auto macs = static_cast<double>(account.macs);
  const auto operations = static_cast<double>(account.vector_work);
  r.array_cycles = macs / static_cast<double>(machine.PeakMacsPerCycle());
  r.lane_cycles = operations / static_cast<double>(machine.vector.lanes * machine.cores);
  r.memory_cycles = bytes / machine.PeakBytesPerCycle();
  r.intensity = bytes == 0 ? 0 : (macs + operations) / bytes;
  r.limit = r.memory_cycles >= std::max(r.array_cycles, r.lane_cycles) ? Limit::kMemory
            : r.array_cycles >= r.lane_cycles                          ? Limit::kArrays
                                                                       : Limit::kLanes;
  return r;
}

}  // namespace liveshape::npu
