// What a session has on the device: arena, inputs, states and constants at their bound, and one buffer through
// which everything comes back. Bytes lie there as they lie on the host (i64 as two words, bool and 8-bit four to a
// word), so upload and readback are plain copies.
#pragma once

#include <span>
#include <vector>

#include "backends/webgpu/numbers.h"

namespace liveshape::webgpu {

// Of slots: every device binds at multiples of it.
inline constexpr size_t kSlotAlignment = 256;

class DeviceMemory {
 public:
  // Makes the buffers and uploads the constants. Live sizes that a run asks for become slots of `numbers`.
  Status Create(gpu::Device& device, const ir::Graph& graph, const plan::Plan& plan,
                Numbers& numbers);
  gpu::BoundRange Range(plan::StorageId storage) const { return ranges_[storage]; }
  gpu::BoundRange error_word() const { return {error_, 0, 4}; }

  // Live bytes of every input that a step reads, from the addresses of this run.
  void Upload(const Numbers& numbers, std::span<std::byte* const> bases);
  // The copies that bring back the error word, the outputs and the states that the host reads...
  void AddReadback(const Numbers& numbers, std::vector<gpu::Command>& commands);
  // ... and, once they have run, from the one staging buffer to their addresses. The error word is the answer.
  Result<uint32_t> Readback(std::span<std::byte* const> bases);
  void ClearError();

  Status Fetch(size_t state, std::byte* host);
  Status Store(size_t state, const std::byte* host);  // null: zeros
  Status Poison(std::span<const std::byte> arena);    // and every byte of the inputs
  uint64_t arena_bytes() const { return arena_bytes_; }

 private:
  struct InputCopy {
    plan::StorageId storage;
    uint32_t bytes_at;
  };
  struct Return {  // what comes back after a run
    plan::StorageId storage;
    uint32_t bytes_at;
    uint64_t staged_at = 0, bytes = 0;  // of this run
  };
  Status CheckSize(const std::string& what, int64_t bytes) const;

  gpu::Device* device_ = nullptr;
  const plan::Plan* plan_ = nullptr;
  std::vector<gpu::BoundRange> ranges_;  // by storage
  std::vector<uint64_t> state_bytes_;
  std::vector<InputCopy> inputs_;
  std::vector<Return> returns_;
  gpu::BufferId arena_ = {}, staging_ = {}, error_ = {};
  uint64_t arena_bytes_ = 0, staging_bytes_ = 0, staged_ = 0;
};

}  // namespace liveshape::webgpu
