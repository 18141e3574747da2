// gpu::Device on webgpu.h, in three parts: opening and the errors that come back (native_device.cc), what is made at
// load (native_objects.cc), what a run does (native_queue.cc). Whatever would abort the process inside wgpu-native is
// kept from it: see the notes at each place.
#pragma once

#include <string>
#include <vector>

#include "backends/webgpu/device/native_adapters.h"
#include "base/observe.h"

namespace liveshape::gpu::native {

// What the library allocates on our behalf is counted, but apart from what a session promises.
class LibraryCall {
 public:
  explicit LibraryCall(uint64_t& total) : total_(total), outer_(CurrentAllocationFrame()) {
    SetAllocationFrame(&frame_);
  }
  ~LibraryCall() {
    SetAllocationFrame(outer_);
    total_ += frame_.count.load(std::memory_order_relaxed);
  }

 private:
  AllocationFrame frame_;
  uint64_t& total_;
  void* outer_;
};

template <typename Id>
size_t Index(Id id) {
  return static_cast<size_t>(id);
}

class NativeDevice : public Device {
 public:
  NativeDevice(const Library& wgpu, AdapterInfo info) : wgpu_(wgpu) { adapter_ = std::move(info); }
  ~NativeDevice() override;
  void RelyOnSubgroups(uint32_t size) { features_.subgroup_size = size; }
  Status Open(WGPUAdapter adapter, const DeviceOptions& options);

  BufferId CreateBuffer(uint64_t bytes, BufferUse use, std::string_view label) override;
  ShaderId CreateShader(std::string_view wgsl, std::string_view label) override;
  PipelineId CreatePipeline(ShaderId shader, std::span<const Binding> bindings,
                            std::string_view label) override;
  GroupId CreateGroup(PipelineId pipeline, std::span<const BoundRange> ranges,
                      std::string_view label) override;
  void CreateTimestamps(uint32_t dispatches) override;
  Status error() const override { return error_; }
  void Write(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) override;
  Status Encode(std::span<const Command> commands, bool timed) override;
  Status Submit() override;
  Status Map(BufferId buffer, uint64_t bytes) override;
  Status Poll(bool wait) override;
  std::span<const std::byte> Mapped(BufferId buffer) const override;
  void Unmap(BufferId buffer) override;
  Status ReadTimestamps(std::span<double> us) override;
  void Lose() override;

 private:
  enum class MapState : uint8_t { kNone, kPending, kMapped };
  struct Buffer {
    WGPUBuffer handle = nullptr;
    uint64_t bytes = 0, mapped_bytes = 0;
    MapState map = MapState::kNone;
  };
  struct Pipeline {
    WGPUBindGroupLayout layout = nullptr;
    WGPUPipelineLayout pipeline_layout = nullptr;
    WGPUComputePipeline handle = nullptr;
    std::vector<Binding> bindings;
  };
  class PassEncoder;

  // Remembers what is being made, so that a late error can be told with it.
  bool Begin(const char* what, std::string_view label) {
    what_ = what;
    label_ = label;
    return error_.ok();
  }
  void Report(WGPUErrorType type, std::string message);
  BufferId MakeBuffer(uint64_t bytes, WGPUBufferUsage usage, std::string_view label);
  void DropEncoded();

  const Library& wgpu_;
  WGPUDevice device_ = nullptr;
  WGPUQueue queue_ = nullptr;
  Status error_;
  const char* what_ = "open";
  std::string_view label_;
  std::vector<Buffer> buffers_;
  std::vector<WGPUShaderModule> shaders_;
  std::vector<Pipeline> pipelines_;
  std::vector<WGPUBindGroup> groups_;
  WGPUCommandBuffer encoded_ = nullptr;
  WGPUQuerySet queries_ = nullptr;
  uint32_t query_capacity_ = 0, timed_dispatches_ = 0;
  BufferId query_values_ = {}, query_readback_ = {};
};

}  // namespace liveshape::gpu::native
