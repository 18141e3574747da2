// A session's memory: the arena at its bound and the states at their capacity, reserved once. Addresses
// never change; what is physical follows the live shape.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "liveshape/liveshape.h"
#include "plan/plan.h"

namespace liveshape {

inline bool IsAligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % SizeOf(dtype) == 0;
}

// States that are read only as keys or values of attention behind a limit: a KV cache. What lies beyond the
// live context is never read, so a test may poison it.
std::vector<uint32_t> ContextStates(const ir::Graph& graph);

class SessionMemory {
 public:
  Status Reserve(const ir::Graph& graph, const plan::Plan& plan);

  // One address a storage; inputs are null until a run borrows the caller's.
  std::vector<std::byte*>& bases() { return bases_; }
  std::span<std::byte* const> bases() const { return bases_; }
  void RestoreBase(plan::StorageId storage) { bases_[storage] = fixed_[storage]; }
  // Index of the first storage (arena, constant, state) whose address changed since Reserve; -1: none.
  int64_t FirstMoved(std::span<std::byte* const> bases) const;

  // An input as kernels may read it: the caller's own memory if its elements are aligned there, else a copy
  // in memory reserved for that. Kernels thus need no unaligned scalar access.
  Result<std::byte*> Borrow(size_t input, const TensorRef& tensor);

  std::byte* state(size_t i) const { return states_.data() + state_offset_[i]; }
  size_t state_bytes(size_t i) const { return state_size_[i]; }
  size_t state_count() const { return state_size_.size(); }
  bool starts_at_zero(size_t i) const { return state_zero_[i]; }
  void ResetStates(const ir::Graph& graph);

  // Fills what no live element occupies: tails of slots beyond their live bytes, scratch, padding.
  void Poison(const plan::Plan& plan, std::span<const int64_t> block, liveshape::Poison kind);
  // Fills states whose unwritten part nobody may read (ContextStates) as Poison does, after a reset.
  void PoisonStates(const ir::Graph& graph, std::span<const uint32_t> states,
                    liveshape::Poison kind);
  // Gives back every page that holds nothing between runs: all but the live part of the outputs.
  void Trim(const plan::Plan& plan, std::span<const int64_t> block);

  const Reservation& arena() const { return arena_; }

 private:
  Reservation arena_, states_, staging_;
  std::vector<size_t> state_offset_, state_size_;
  std::vector<bool> state_zero_;
  std::vector<size_t> staging_offset_;  // one more than inputs: the last is the end
  std::vector<std::byte*> bases_, fixed_;
};

}  // namespace liveshape
