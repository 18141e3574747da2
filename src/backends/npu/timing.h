// Cycles of a lowered model at a live shape: its kernels' walks, one after another, through the simulator.
//
//   const Timing timing(machine, graph, model);
//   LS_ASSIGN_OR_RETURN(auto attributes, timing.Attributes(symbol_values));     // sizes and addresses (N6)
//   LS_ASSIGN_OR_RETURN(ModelReport report, timing.Simulate(attributes));
//   report.total.cycles;
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/npu/lower/kernel.h"
#include "backends/npu/machine/attributes.h"
#include "backends/npu/machine/machine.h"
#include "backends/npu/producer/library.h"
#include "backends/npu/report/perfetto.h"
#include "backends/npu/sim/simulator.h"

namespace liveshape::npu {

// What a lowering must know of the machine; forced_tile as in Target.
Target TargetOf(const Machine& machine, int64_t forced_tile);

struct ModelReport {
  Account total;
  std::vector<KernelReport> kernels;
};

class Timing {
 public:
  // Graph and model outlive it. Where `producer` is given it walks, instead of the model's own schedules.
  Timing(const Machine& machine, const ir::Graph& graph, const Model& model,
         const Producer* producer = nullptr);

  // By kernel. Addresses are given to tensors in the order in which kernels name them, at their live sizes; never from
  // the plan, so that a static program has the same (N9).
  Result<std::vector<KernelAttributes>> Attributes(std::span<const int64_t> symbol_values) const;

  // `trace` may be null; `on_kernel`, if any, hears how many kernels are done.
  Result<ModelReport> Simulate(std::span<const KernelAttributes> attributes,
                               PerfettoTrace* trace = nullptr,
                               const std::function<void(size_t)>& on_kernel = {}) const;

 private:
  Machine machine_;
  const ir::Graph& graph_;
  const Model& model_;
  const Producer* producer_;
  std::vector<std::vector<ls_trace_buffer>> buffers_;  // by kernel
};

}  // namespace liveshape::npu
