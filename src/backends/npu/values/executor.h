// Values from the trace itself (N4): a scratchpad of real bytes, filled and emptied by the DMA records, computed on by
// the codes' value functions. A load is there only after its barrier and a version that is taken into use again is
// poisoned, so a wrong tile, a missing mask or barrier, or a version too few shows as a wrong value.
//
//   Executor executor(target.scratchpad_bytes);                   // allocates: at load
//   Status status = executor.Run(kernel, walker, shape_args, tensors, params);   // allocates nothing
#pragma once

#include "backends/npu/lower/schedule.h"

namespace liveshape::npu {

// Does a store of the kernel go where indices say?
bool Scatters(const Kernel& kernel);

class Executor {
 public:
  explicit Executor(int64_t scratchpad_bytes);

  // tensors[i] are the bytes of tensor i of the kernel: a box that leaves them (an index out of range) fails the run.
  // params[i] are what the values of code i read (Kernel::value_steps).
  Status Run(const Kernel& kernel, Walker& walker, std::span<const int64_t> shape_args,
             std::span<const std::span<std::byte>> tensors,
             std::span<const std::span<const int64_t>> params);

  // The same but for its stores: whether it would fail. A kernel that scatters into a state is rehearsed first, so that an
  // index out of range, found tiles after the first store, leaves the state as it was (X2).
  Status Rehearse(const Kernel& kernel, Walker& walker, std::span<const int64_t> shape_args,
                  std::span<const std::span<std::byte>> tensors,
                  std::span<const std::span<const int64_t>> params);

  // The records of any walk of `kernel` (a producer library's too), as Run feeds them.
  ls_trace_sink Begin(const Kernel& kernel, std::span<const std::span<std::byte>> tensors,
                      std::span<const std::span<const int64_t>> params);
  Status End(int walked);

 private:
  int OnDispatch(const ls_trace_dispatch& record);
  int OnDma(const ls_trace_dma& record);
  int OnCompute(const ls_trace_compute& record);
  int OnBarrier(const ls_trace_barrier& record);

  int Fail(Status status);
  std::byte* Locate(const ls_trace_place& place);  // null: outside its buffer
  int Move(const ls_trace_dma& record);

  std::vector<std::byte> scratchpad_;
  std::vector<ls_trace_dma> pending_;  // loads that no barrier has waited for
  size_t pending_count_ = 0;
  std::vector<std::vector<int64_t>>
      used_;                         // by buffer and version: the turn that last took it into use
  std::vector<int64_t> first_byte_;  // by buffer, of version 0
  const Kernel* kernel_ = nullptr;
  std::span<const std::span<std::byte>> tensors_;
  std::span<const std::span<const int64_t>> params_;
  uint32_t variant_ = 0;
  int64_t tile_ = -1, item_ = -1;
  bool stores_ = true;
  Status status_;
};

}  // namespace liveshape::npu
