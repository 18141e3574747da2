// What a backend gives the runtime: rules for the planner, and the execution of planned steps. A backend
// holds no shapes: every number it needs at run time is in the params block that a bind has swapped in.
//
//   class NullBackend : public Backend { ... Run() returns OK ... };
//
// A backend may keep arena, states and inputs in memory of its own (a device). Then the addresses in
// RunContext::bases are where it takes inputs from and brings outputs to, and the states that the host reads
// (Graph::host_values); states move when the session asks (FetchState, StoreState). An input whose address is null
// stays as it is there; outputs come back unless they are kept (KeepOutput).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace liveshape {

struct Stats;  // liveshape/liveshape.h

// Time per step, filled where the session asks for it.
struct StepTimes {
  std::vector<double> us;
  std::vector<uint64_t> calls;
};

struct RunContext {
  std::span<const int64_t> block;     // the params block of the live shape
  std::span<std::byte* const> bases;  // address of every storage, for this run
  const std::atomic<bool>* cancel = nullptr;
  StepTimes* times = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;
  virtual bool computes() const { return true; }  // false: outputs have shapes, but no values
  virtual plan::Rules rules() const = 0;
  // Once, at load: chooses and prepares a kernel for every step. A node that it cannot run at every
  // live shape is refused by name (W9). The graph and the plan outlive the backend.
  virtual Status Load(const ir::Graph& graph, const plan::Plan& plan) = 0;
  // Runs steps [begin, end). On failure *failed is the step.
  virtual Status Run(const RunContext& context, size_t begin, size_t end, size_t* failed) = 0;

  // Of a backend with memory of its own; elsewhere states and arena are the host's, and nothing is to do.
  virtual Status FetchState(size_t state, std::byte* host) { return {}; }
  virtual Status StoreState(size_t state, const std::byte* host) { return {}; }  // null: zeros
  virtual bool holds_tensors() const { return false; }
  // See Session::KeepOutput and what follows there; the session has checked the arguments.
  virtual void KeepOutput(size_t output, bool keep) {}
  virtual void FeedInput(size_t input, size_t output) {}
  virtual Status FetchOutput(size_t output, std::byte* host) { return {}; }
  // Tests fill the arena before a run, so that a stale read shows; `host` is the arena as it shall be.
  virtual Status StoreArena(std::span<const std::byte> host) { return {}; }
  // Buffers, pipelines and the like made so far: one more after load is a rebuild (X1).
  virtual uint64_t objects_made() const { return 0; }
  virtual void AddStats(Stats& stats) const {}
};

}  // namespace liveshape
