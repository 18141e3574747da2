// What a session has on the device: arena, inputs, states and constants at their bound, and one buffer through
// which everything comes back. Bytes lie there as they lie on the host (i64 as two words, bool and 8-bit four to a
// word), so upload and readback are plain copies. What is larger than a buffer is several; what is larger than a binding,
// or lies across two buffers of the arena, is bound in parts.
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
  // Where a storage lies: in order, without gaps.
  const std::vector<gpu::BoundRange>& Parts(plan::StorageId storage) const {
    return parts_[storage];
  }
  gpu::BoundRange error_word() const { return {error_, 0, 4}; }

  // Live bytes of every input that a step reads, from the addresses of this run; null: it stays as it is.
  void Upload(const Numbers& numbers, std::span<std::byte* const> bases);
  // The copies that bring back the error word, the outputs that are not kept and the states that the host reads, and
  // those that put outputs where inputs are read...
  void AddReadback(const Numbers& numbers, std::vector<gpu::Command>& commands);
  size_t most_copies() const;  // that it adds
  // ... and, once they have run, from the one staging buffer to their addresses. The error word is the answer.
  Result<uint32_t> Readback(std::span<std::byte* const> bases);
  void ClearError();

  void KeepOutput(size_t output, bool keep);
  void FeedInput(plan::StorageId input, size_t output);
  Status FetchOutput(size_t output, std::byte* host);  // of the last run
  Status Fetch(size_t state, std::byte* host);
  Status Store(size_t state, const std::byte* host);  // null: zeros
  Status Poison(std::span<const std::byte> arena);    // and, from now on, what inputs do not fill
  uint64_t arena_bytes() const { return arena_bytes_; }

 private:
  static constexpr size_t kNoOutput = ~size_t{0};
  struct InputCopy {
    plan::StorageId storage;
    uint32_t bytes_at;
  };
  struct Return {  // what comes back after a run
    plan::StorageId storage;
    uint32_t bytes_at;
    size_t output = kNoOutput;
    bool kept = false;
    uint64_t staged_at = 0, bytes = 0;  // of this run
  };
  struct Feed {
    plan::StorageId input;
    size_t from;  // in returns_
  };
  // Bytes in a row over buffers of `piece` bytes each.
  struct Region {
    std::vector<gpu::BufferId> buffers;
    uint64_t piece = 0;
  };
  Result<Region> MakeRegion(const std::string& what, uint64_t bytes);
  std::vector<gpu::BoundRange> Cut(const Region& region, uint64_t offset, uint64_t bytes) const;
  Status CreateOutputs(const ir::Graph& graph, Numbers& numbers);
  void Write(plan::StorageId storage, std::span<const std::byte> bytes);
  Status FetchBytes(plan::StorageId storage, uint64_t bytes, std::byte* host);
  Return* FindReturn(size_t output);

  gpu::Device* device_ = nullptr;
  const plan::Plan* plan_ = nullptr;
  std::vector<std::vector<gpu::BoundRange>> parts_;  // by storage
  std::vector<uint64_t> state_bytes_;
  std::vector<InputCopy> inputs_;
  std::vector<Return> returns_;
  std::vector<Feed> feeds_;
  bool poisons_inputs_ = false;
  Region arena_;
  gpu::BufferId staging_ = {}, error_ = {};
  uint64_t arena_bytes_ = 0, staging_bytes_ = 0, staged_ = 0;
};

}  // namespace liveshape::webgpu
