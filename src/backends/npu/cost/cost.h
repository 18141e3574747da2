// Cycles of one compute record, from a pipeline model of the systolic arrays and the vector lanes.
//
//   CostTable costs(machine, codes);
//   LS_ASSIGN_OR_RETURN(const Cost* cost, costs.Of(record));     // computed once per (code, extents)
//   fmt::print("{}", costs.Explain());
//
// A cost is a function of the code and the live extents and of nothing else: a loop of a million tiles is priced by its
// few distinct tiles (full ones and tails), which CheckSamples() asserts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/npu/cost/code.h"
#include "backends/npu/machine/machine.h"
#include "base/status.h"
#include "liveshape/trace.h"

namespace liveshape::npu {

struct Cost {
  int64_t occupancy = 0;  // the unit takes the next record after so many cycles
  int64_t latency = 0;    // and the result is there so many later
  int64_t work = 0;       // multiply-adds of an array, elements x operations of a vector unit
  // What occupancy is made of, for people. Array: weight tiles that one array goes through, cycles to load each, rows
  // streamed for each. Vector: cycles by class, then of crossing the lanes.
  int64_t weight_tiles = 0, preload = 0, streamed_rows = 0;
  std::array<int64_t, static_cast<size_t>(VectorClass::kCount)> class_cycles = {};
  int64_t reduction_cycles = 0;
};

Cost ArrayCost(const Machine& machine, int64_t batch, int64_t m, int64_t k, int64_t n);
Cost VectorCost(const Machine& machine, const Code& code, std::span<const int64_t> extents);

class CostTable {
 public:
  CostTable(const Machine& machine, std::span<const Code> codes)
      : machine_(machine), codes_(codes), samples_(codes.size()) {}

  // Refused: a code that the kernel does not have, extents that are negative or overflow, an array record whose rank is
  // not 4. The result stays valid.
  Result<const Cost*> Of(const ls_trace_compute& record);

  // Every dim of a tile is full or a tail: a code has at most 2^dims distinct costs a shape.
  Status CheckSamples() const;
  size_t samples() const;
  std::string Explain() const;  // a line a sample

 private:
  using Extents = std::array<int64_t, LS_TRACE_MAX_RANK>;
  struct Samples {
    uint32_t rank = 0;
    std::map<Extents, Cost> costs;
    const Extents* last_extents = nullptr;  // records of a loop repeat
    const Cost* last = nullptr;
  };
  const Machine& machine_;
  std::span<const Code> codes_;
  std::vector<Samples> samples_;
};

}  // namespace liveshape::npu
