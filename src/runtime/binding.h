// The live shape of a session: symbols solved from inputs, host values read from data, and the params block
// that the shape program makes of them. A bind evaluates into a scratch block and swaps it in only when
// every check has passed: a refused shape leaves everything as it was (X2).
#pragma once

#include <span>
#include <vector>

#include "liveshape/liveshape.h"
#include "plan/plan.h"
#include "runtime/memory.h"
#include "sym/solve.h"

namespace liveshape {

class Binding {
 public:
  Status Prepare(const ir::Graph& graph, const plan::Plan& plan);

  // Stage 0: from the shapes of the inputs (and integer inputs), or from symbol values. *changed is false
  // when the shape was current already.
  Status BindShapes(std::span<const TensorRef> inputs, bool* changed);
  Status BindSymbols(std::span<const int64_t> values, bool* changed);
  // Stage 1: integers that are data, read before the first kernel.
  Status BindHostValues(std::span<const TensorRef> inputs, const SessionMemory& memory,
                        bool* changed);
  // Stages 2 and on: sizes born from data, once the steps before them have run. Fails the run, not the bind.
  Status BindBorn(sym::Stage stage, const SessionMemory& memory);

  bool bound() const { return bound_; }
  std::span<const int64_t> block() const { return blocks_[current_]; }
  std::span<const int64_t> symbols() const { return symbols_; }

 private:
  Status CheckInputs(std::span<const TensorRef> inputs, std::span<int64_t> observed) const;
  Status Evaluate(std::span<const int64_t> symbols, bool* changed);

  const ir::Graph* graph_ = nullptr;
  const plan::Plan* plan_ = nullptr;
  std::unique_ptr<sym::SymbolSolver> solver_;
  std::vector<int64_t> blocks_[2];
  int current_ = 0;
  bool bound_ = false;
  std::vector<int64_t> symbols_, candidate_;  // current values; those being tried
  std::vector<int64_t> observed_;
};

// Puts an output's slot back to its own address after a run into the caller's memory.
class StorageRestore {
 public:
  StorageRestore(SessionMemory& memory, const plan::Plan& plan, size_t output)
      : memory_(memory), storage_(plan.outputs[output].operand.storage) {}
  ~StorageRestore() {
    if (storage_ != plan::kNoStorage) memory_.RestoreBase(storage_);
  }

 private:
  SessionMemory& memory_;
  plan::StorageId storage_;
};

}  // namespace liveshape
