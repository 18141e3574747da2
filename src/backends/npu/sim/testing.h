// Kernels written by hand, for tests of the simulator alone.
//
//   HandKernel add = AddKernel(/*n=*/1000, /*tile=*/512);
//   Result<KernelReport> report = Simulate(simulator, add);       // 14 records
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "backends/npu/sim/simulator.h"

namespace liveshape::npu::testing {

struct HandKernel {
  std::string name;
  std::vector<Code> codes;
  std::vector<ls_trace_buffer> buffers;
  std::vector<TensorAddress> tensors;
  std::function<int(const ls_trace_sink&)> walk;

  KernelView view() const {
    return {name, codes, buffers, static_cast<uint32_t>(buffers.size()), tensors};
  }
};

inline Result<KernelReport> Simulate(Simulator& simulator, const HandKernel& kernel) {
  const KernelView view = kernel.view();
  LS_RETURN_IF_ERROR(simulator.BeginKernel(view));
  return simulator.EndKernel(kernel.walk(*simulator.sink()));
}

// Emits records; once a callback says stop, nothing more.
class Emitter {
 public:
  explicit Emitter(const ls_trace_sink& sink) : sink_(sink) {}
  void Dispatch(int64_t item) {
    const ls_trace_dispatch record = {.tile = tile_++, .item = item, .variant = 0, .reserved = 0};
    if (status_ == 0) status_ = sink_.dispatch(sink_.context, &record);
  }
  // A box of rows x columns f32 at (row, column) of a matrix with `pitch` columns.
  void Move(bool store, uint32_t tensor, ls_trace_place place, int64_t row, int64_t column,
            int64_t rows, int64_t columns, int64_t pitch) {
    const ls_trace_dma record = {.store = store,
                                 .tensor = tensor,
                                 .place = place,
                                 .offset = 4 * (row * pitch + column),
                                 .element_bytes = 4,
                                 .rank = 2,
                                 .indexed = 0,
                                 .reserved = 0,
                                 .index = {},
                                 .extent = {rows, columns},
                                 .stride = {4 * pitch, 4},
                                 .buffer_stride = {4 * columns, 4}};
    Move(record);
  }
  void Move(const ls_trace_dma& record) {
    if (status_ == 0) status_ = sink_.dma(sink_.context, &record);
  }
  void Compute(uint32_t code, std::vector<int64_t> extents, std::vector<ls_trace_place> operands) {
    ls_trace_compute record = {};
    record.code = code;
    record.rank = static_cast<uint32_t>(extents.size());
    record.operands = static_cast<uint32_t>(operands.size());
    std::copy(extents.begin(), extents.end(), record.extent);
    std::copy(operands.begin(), operands.end(), record.operand);
    if (status_ == 0) status_ = sink_.compute(sink_.context, &record);
  }
  void Barrier(uint32_t kind) {
    const ls_trace_barrier record = {.kind = kind, .reserved = 0};
    if (status_ == 0) status_ = sink_.barrier(sink_.context, &record);
  }
  int status() const { return status_; }

 private:
  const ls_trace_sink& sink_;
  int64_t tile_ = 0;
  int status_ = 0;
};

inline uint32_t Parity(int64_t n) { return static_cast<uint32_t>(n & 1); }

inline std::vector<TensorAddress> Addresses(
    const std::vector<std::pair<std::string, int64_t>>& tensors) {
  return *AssignAddresses(tensors, 0);
}

// One kernel that reads and writes f32 by rows: `inputs` tensors, one output.
inline HandKernel RowKernel(Code code, int inputs, int64_t rows, int64_t columns, int64_t tile) {
  HandKernel kernel;
  kernel.name = code.name;
  kernel.codes = {code};
  std::vector<std::pair<std::string, int64_t>> tensors;
  for (int i = 0; i <= inputs; ++i) {
    tensors.push_back({i < inputs ? "in" + std::to_string(i) : "out", 4 * rows * columns});
    kernel.buffers.push_back({"buffer", 4 * tile * columns, 2, 0});
  }
  kernel.tensors = Addresses(tensors);
  kernel.walk = [=](const ls_trace_sink& sink) {
    Emitter emit(sink);
    for (int64_t row = 0, t = 0; row < rows; row += tile, ++t) {
      const int64_t live = std::min(tile, rows - row);
      std::vector<ls_trace_place> operands = {{static_cast<uint32_t>(inputs), Parity(t), 0}};
      emit.Dispatch(t);
      for (uint32_t i = 0; i < static_cast<uint32_t>(inputs); ++i) {
        operands.push_back({i, Parity(t), 0});
        emit.Move(false, i, operands.back(), row, 0, live, columns, columns);
      }
      emit.Barrier(LS_TRACE_BARRIER_LOADS);
      emit.Compute(0, {live, columns}, operands);
      emit.Move(true, static_cast<uint32_t>(inputs), operands[0], row, 0, live, columns, columns);
      emit.Barrier(LS_TRACE_BARRIER_TILE);
    }
    return emit.status();
  };
  return kernel;
}

inline HandKernel AddKernel(int64_t n, int64_t tile) {
  Code add = {.name = "add", .unit = Unit::kVector};
  add.per_element[VectorClass::kSimple] = 1;
  return RowKernel(add, 2, n, 1, tile);
}

struct GemmTile { int64_t m, k, n; };

// C[M,N] = A[M,K] B[K,N], f32; an item an output tile, a tile a step of K; A, B and C double-buffered.
inline HandKernel GemmKernel(int64_t m, int64_t k, int64_t n, GemmTile tile) {
  HandKernel kernel;
  kernel.name = "gemm";
  kernel.codes = {{.name = "matmul", .unit = Unit::kArray}};
  kernel.buffers = {{"a", 4 * tile.m * tile.k, 2, 0},
                    {"b", 4 * tile.k * tile.n, 2, 0},
                    {"c", 4 * tile.m * tile.n, 2, 0}};
  kernel.tensors = Addresses({{"a", 4 * m * k}, {"b", 4 * k * n}, {"c", 4 * m * n}});
  kernel.walk = [=](const ls_trace_sink& sink) {
    Emitter emit(sink);
    int64_t item = 0, t = 0;
    for (int64_t i = 0; i < m; i += tile.m)
      for (int64_t j = 0; j < n; j += tile.n, ++item)
        for (int64_t s = 0; s < k; s += tile.k, ++t) {
          const int64_t mm = std::min(tile.m, m - i), nn = std::min(tile.n, n - j),
                        kk = std::min(tile.k, k - s);
          const ls_trace_place a = {0, Parity(t), 0}, b = {1, Parity(t), 0},
                               c = {2, Parity(item), 0};
          emit.Dispatch(item);
          emit.Move(false, 0, a, i, s, mm, kk, k);
          emit.Move(false, 1, b, s, j, kk, nn, n);
          emit.Barrier(LS_TRACE_BARRIER_LOADS);
          emit.Compute(0, {1, mm, kk, nn}, {c, a, b});
          if (s + tile.k >= k) emit.Move(true, 2, c, i, j, mm, nn, n);
          emit.Barrier(LS_TRACE_BARRIER_TILE);
        }
    return emit.status();
  };
  return kernel;
}

// A small machine, in numbers that are easy to follow; tests change what they are about.
inline Machine SmallMachine() {
  Machine m;
  m.name = "small";
  m.frequency_mhz = 1000;
  m.kernel_start_cycles = 100;
  m.tiles_in_flight = 3;
  m.scratchpad_bytes = 1 << 20;
  m.array = {.count = 1, .rows = 32, .columns = 32, .drain_cycles = 32};
  m.vector.lanes = 32;
  m.vector.operations = {{{1, 4}, {4, 16}, {2, 32}}};
  m.vector.lane_reduction = {1, 20};
  m.dma = {.setup_cycles = 16, .bytes_per_cycle = 256};
  m.noc = {.latency = 8, .port_bytes_per_cycle = 256, .buffer_bursts = 32};
  m.dram = {.clock_mhz = 1000,
            .channels = 4,
            .bank_groups = 4,
            .banks_per_group = 4,
            .row_bytes = 2048,
            .bus_bytes = 16,
            .burst_length = 4,
            .interleave_bytes = 256,
            .hash = true,
            .shared_command_bus = false,
            .queue = 64,
            .timing = {.tCL = 14,
                       .tCWL = 4,
                       .tRCD = 14,
                       .tRP = 14,
                       .tRAS = 34,
                       .tRC = 48,
                       .tCCD_S = 2,
                       .tCCD_L = 4,
                       .tRRD_S = 4,
                       .tRRD_L = 6,
                       .tFAW = 30,
                       .tRTP = 6,
                       .tWR = 16,
                       .tWTR_S = 6,
                       .tWTR_L = 8,
                       .tRTW = 14,
                       .tRFC = 260,
                       .tREFI = 3900}};
  return m;
}

}  // namespace liveshape::npu::testing
