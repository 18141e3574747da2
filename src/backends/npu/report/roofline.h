// How much of each unit a run used, and where it lies under the machine's roofline: what its multiply-adds and its bytes
// would take at peak, and which of them is the limit.
//
//   UtilisationOf(machine, account).arrays;        // 0.35
//   Roofline roofline = RooflineOf(machine, account);
//   roofline.limit;             // Limit::kMemory
//   roofline.Share(account);    // 0.91: the limit's cycles of the cycles taken
#pragma once

#include "backends/npu/machine/machine.h"
#include "backends/npu/sim/simulator.h"

namespace liveshape::npu {

// Shares of the cycles of all cores; of the memory's peak.
struct Utilisation { double arrays, lanes, dma, dram, noc; };
Utilisation UtilisationOf(const Machine& machine, const Account& account);

enum class Limit : uint8_t { kArrays, kLanes, kMemory };
const char* ToString(Limit limit);

struct Roofline {
  double array_cycles = 0;   // multiply-adds at one a processing element and cycle
  double lane_cycles = 0;    // elements x operations at one a lane and cycle
  double memory_cycles = 0;  // bytes asked for at the memory's peak
  double intensity = 0;      // multiply-adds and operations per byte
  Limit limit = Limit::kMemory;

  double Cycles() const;
  double Share(const Account& account) const;
};

Roofline RooflineOf(const Machine& machine, const Account& account);

}  // namespace liveshape::npu
