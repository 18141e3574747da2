// What an NPU is made of, as the simulator and the lowering need to know it. Read from machines/*.yaml by
// ReadMachine (machine/reader.h), which checks ranges and says line and column; this struct knows no YAML.
//
//   LS_ASSIGN_OR_RETURN(Machine tpu, ReadMachineFile("machines/tpuv3.yaml"));
//   tpu.PeakBytesPerCycle();      // 512: what all channels move in a core cycle
//
// Times are core cycles, apart from `dram.timing`, which is in clocks of the memory.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "backends/npu/cost/code.h"

namespace liveshape::npu {

// Weight-stationary: a tile of rows x columns weights is loaded, then rows of the other operand stream through.
struct ArrayConfig {
  int64_t count = 1;    // arrays of a core; they work on one record together
  int64_t rows = 1;     // K of a weight tile
  int64_t columns = 1;  // N of a weight tile
  int64_t weight_rows_per_cycle = 1;
  int64_t weight_buffers = 1;  // 2: the next weights are loaded while rows stream
  int64_t cycles_per_row = 1;  // initiation interval of a streamed row
  int64_t drain_cycles = 0;    // from the last row's entry to its sums; does not occupy the array
};

// One operation on `lanes` elements: a new one may begin every `interval`, its result is there after `latency`.
struct Pipeline {
  int64_t interval = 1;
  int64_t latency = 1;
};

struct VectorConfig {
  int64_t lanes = 1;
  std::array<Pipeline, static_cast<size_t>(VectorClass::kCount)> operations = {};
  Pipeline lane_reduction = {};  // of one row's partial results
  const Pipeline& operator[](VectorClass c) const { return operations[static_cast<size_t>(c)]; }
};

struct DmaConfig {
  int64_t setup_cycles = 0;     // from a ready descriptor to its first burst
  int64_t bytes_per_cycle = 1;  // bursts that it can ask for
};

// A crossbar between cores and channels. Each core has its own buffer at each channel, and a port that data returns by.
struct NocConfig {
  int64_t latency = 1;  // one way
  int64_t port_bytes_per_cycle = 1;
  int64_t buffer_bursts = 1;
};

// In clocks of the memory, named as in JEDEC data sheets.
struct DramTiming {
  int64_t tCL = 1, tCWL = 1, tRCD = 1, tRP = 1, tRAS = 1, tRC = 1;
  int64_t tCCD_S = 1, tCCD_L = 1, tRRD_S = 1, tRRD_L = 1, tFAW = 1;
  int64_t tRTP = 1, tWR = 1, tWTR_S = 1, tWTR_L = 1, tRTW = 1;
  int64_t tRFC = 1, tREFI = 1;
};

struct DramConfig {
  int64_t clock_mhz = 1;
  int64_t channels = 1, bank_groups = 1, banks_per_group = 1;
  int64_t row_bytes = 1;
  int64_t bus_bytes = 1;         // of a channel, moved at both edges of the clock
  int64_t burst_length = 1;      // edges
  int64_t interleave_bytes = 1;  // addresses go to the next channel after so many
  bool hash = true;              // channels and banks are permuted by an XOR of higher address bits
  bool shared_command_bus = true;  // false: row and column commands have their own (HBM)
  int64_t queue = 1;               // bursts that a channel's scheduler sees
  DramTiming timing = {};

  int64_t BurstBytes() const { return bus_bytes * burst_length; }
  int64_t BurstClocks() const { return burst_length / 2; }
  int64_t Banks() const { return bank_groups * banks_per_group; }
};

struct Machine {
  std::string name;
  int64_t frequency_mhz = 1;
  int64_t cores = 1;
  int64_t kernel_start_cycles = 0;
  int64_t tiles_in_flight = 1;
  int64_t scratchpad_bytes = 1;
  ArrayConfig array;
  VectorConfig vector;
  DmaConfig dma;
  NocConfig noc;
  DramConfig dram;

  double PeakBytesPerCycle() const {
    return 2.0 * static_cast<double>(dram.bus_bytes * dram.channels * dram.clock_mhz) /
           static_cast<double>(frequency_mhz);
  }
  int64_t PeakMacsPerCycle() const { return cores * array.count * array.rows * array.columns; }
};

}  // namespace liveshape::npu
