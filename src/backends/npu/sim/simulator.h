// Cycles of a program on a machine, from the records that its kernels' walks emit.
//
//   Simulator simulator(machine);
//   for (kernel : model) {
//     LS_RETURN_IF_ERROR(simulator.BeginKernel(view));          // refused: buffers beyond the scratchpad
//     int ended = walk(shape_args, n, simulator.sink());        // streamed: a window of tiles is held
//     LS_ASSIGN_OR_RETURN(KernelReport report, simulator.EndKernel(ended));
//   }
//   simulator.cycles();
//
// Kernels run one after another. A walk is read only as far ahead as some core can use: items go, in order, to the core
// with the least to do. Every run checks itself: cycles are no fewer than the roofline's, each unit's busy and idle
// cycles are all there are, the bytes moved are those asked for and lie within tensor and buffer, memory served each
// burst once, and nothing is read before it was written in its item.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/npu/cost/cost.h"
#include "backends/npu/machine/machine.h"
#include "backends/npu/sim/core.h"
#include "backends/npu/sim/memory.h"
#include "backends/npu/sim/operation.h"
#include "base/status.h"
#include "liveshape/trace.h"

namespace liveshape::npu {

// What happened in a stretch of time, summed over cores.
struct Account {
  int64_t cycles = 0;
  int64_t tiles = 0, items = 0, records = 0;
  int64_t array_busy = 0, vector_busy = 0;  // cycles
  double dma_busy = 0;                      // cycles
  std::array<int64_t, static_cast<size_t>(Stall::kCount)> array_idle = {}, vector_idle = {};
  int64_t load_waits = 0, backpressure = 0;
  int64_t loaded_bytes = 0, stored_bytes = 0, burst_bytes = 0;
  int64_t activates = 0, refreshes = 0, turnarounds = 0;
  int64_t noc_bytes = 0;  // returned to cores
  int64_t macs = 0, vector_work = 0;

  Account& operator+=(const Account& other);
};

struct KernelReport {
  std::string name;
  Account account;
  int64_t scratchpad_bytes = 0;
  size_t samples = 0;     // distinct tiles that were priced
  std::string explained;  // the cost table
};

class Simulator {
 public:
  explicit Simulator(const Machine& machine);
  ~Simulator();
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  void set_observer(Observer observer) { observer_ = std::move(observer); }

  // `kernel`, with all it views, lives until EndKernel.
  Status BeginKernel(const KernelView& kernel);
  const ls_trace_sink* sink() const { return &sink_; }
  // `walk_returned`: what the walk did. Its errors, and the simulator's own that ended it, come out here; nothing can be
  // asked of the simulator after one.
  Result<KernelReport> EndKernel(int walk_returned);

  int64_t cycles() const { return end_; }

 private:
  friend struct CorePeer;  // see core.h
  int OnDispatch(const ls_trace_dispatch& record);
  int OnDma(const ls_trace_dma& record);
  int OnCompute(const ls_trace_compute& record);
  int OnBarrier(const ls_trace_barrier& record);
  int Failed(Status status);

  Status ChooseVariant(uint32_t variant);
  Result<uint32_t> VersionOf(const ls_trace_place& place) const;
  Status MarkRead(uint32_t version, const char* what);
  Status CheckBox(const ls_trace_dma& record) const;
  Core* HungriestCore();
  Status ReadAhead();
  Status Step();  // a NoC latency of time
  Account Counted() const;
  Status Check(const Account& account) const;

  Machine machine_;
  MemorySystem memory_;
  std::vector<std::unique_ptr<Core>> cores_;
  Observer observer_;
  ls_trace_sink sink_;
  int64_t now_ = 0, end_ = 0;

  // Of the current kernel.
  const KernelView* kernel_ = nullptr;
  std::optional<CostTable> costs_;
  Status status_;
  int64_t launch_ = 0;
  Account before_, work_;  // counters when it began; what its records ask for
  std::optional<uint32_t> variant_;
  int64_t scratchpad_bytes_ = 0;
  std::vector<uint32_t> first_version_;  // by buffer
  std::vector<int64_t> written_in_;      // by version: the item that wrote it last
  bool in_tile_ = false;
  ls_trace_dispatch tile_ = {};
  int64_t last_item_ = -1;
  Core* owner_ = nullptr;  // of the current item
  std::vector<uint32_t> operations_;
  uint32_t loads_ = 0, loads_awaited_ = 0;
};

}  // namespace liveshape::npu
