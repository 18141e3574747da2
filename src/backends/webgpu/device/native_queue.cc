// What a run does: writes, a command buffer, a submit, and reading back.
#include "backends/webgpu/device/native_device.h"

#include <algorithm>
#include <cstring>

namespace liveshape::gpu::native {

void NativeDevice::Write(BufferId buffer, uint64_t offset, std::span<const std::byte> bytes) {
  LibraryCall call(library_allocations_);
  if (!Begin("write", "") || bytes.empty()) return;
  // Whole words: the last, partial one is padded with zeros.
  const size_t whole = bytes.size() / 4 * 4;
  const WGPUBuffer handle = buffers_[Index(buffer)].handle;
  if (whole > 0) wgpu_.QueueWriteBuffer(queue_, handle, offset, bytes.data(), whole);
  if (whole == bytes.size()) return;
  std::byte word[4] = {};
  std::memcpy(word, bytes.data() + whole, bytes.size() - whole);
  wgpu_.QueueWriteBuffer(queue_, handle, offset + whole, word, 4);
}

void NativeDevice::DropEncoded() {
  if (encoded_) wgpu_.CommandBufferRelease(encoded_);
  encoded_ = nullptr;
}

// Consecutive dispatches share a pass: 300 passes cost four times what one of 300 dispatches does.
class NativeDevice::PassEncoder {
 public:
  PassEncoder(NativeDevice& device, bool timed)
      : device_(device), wgpu_(device.wgpu_), timed_(timed) {
    WGPUCommandEncoderDescriptor descriptor = WGPU_COMMAND_ENCODER_DESCRIPTOR_INIT;
    encoder_ = wgpu_.DeviceCreateCommandEncoder(device_.device_, &descriptor);
  }

  void Add(const Command& command) {
    if (command.kind == Command::Kind::kDispatch) return Dispatch(command);
    EndPass();
    const WGPUBuffer to = device_.buffers_[Index(command.to)].handle;
    if (command.kind == Command::Kind::kClear)
      wgpu_.CommandEncoderClearBuffer(encoder_, to, command.to_offset, command.bytes);
    else
      wgpu_.CommandEncoderCopyBufferToBuffer(encoder_, device_.buffers_[Index(command.from)].handle,
                                             command.from_offset, to, command.to_offset,
                                             command.bytes);
  }

  WGPUCommandBuffer Finish() {
    EndPass();
    if (timed_ && dispatches_ > 0) {
      const WGPUBuffer values = device_.buffers_[Index(device_.query_values_)].handle;
      wgpu_.CommandEncoderResolveQuerySet(encoder_, device_.queries_, 0, 2 * dispatches_, values,
                                          0);
      wgpu_.CommandEncoderCopyBufferToBuffer(
          encoder_, values, 0, device_.buffers_[Index(device_.query_readback_)].handle, 0,
          uint64_t{16} * dispatches_);
    }
    device_.timed_dispatches_ = timed_ ? dispatches_ : 0;
    WGPUCommandBufferDescriptor descriptor = WGPU_COMMAND_BUFFER_DESCRIPTOR_INIT;
    const WGPUCommandBuffer finished = wgpu_.CommandEncoderFinish(encoder_, &descriptor);
    wgpu_.CommandEncoderRelease(encoder_);
    return finished;
  }

 private:
  void Dispatch(const Command& command) {
    if (pass_ == nullptr || timed_) BeginPass();
    wgpu_.ComputePassEncoderSetPipeline(pass_, device_.pipelines_[Index(command.pipeline)].handle);
    wgpu_.ComputePassEncoderSetBindGroup(pass_, 0, device_.groups_[Index(command.group)], 0,
                                         nullptr);
    wgpu_.ComputePassEncoderDispatchWorkgroups(pass_, command.counts[0], command.counts[1],
                                               command.counts[2]);
    ++dispatches_;
  }

  void BeginPass() {
    EndPass();
    WGPUComputePassDescriptor descriptor = WGPU_COMPUTE_PASS_DESCRIPTOR_INIT;
    WGPUPassTimestampWrites writes = WGPU_PASS_TIMESTAMP_WRITES_INIT;
    writes.querySet = device_.queries_;
    writes.beginningOfPassWriteIndex = 2 * dispatches_;
    writes.endOfPassWriteIndex = 2 * dispatches_ + 1;
    if (timed_) descriptor.timestampWrites = &writes;
    pass_ = wgpu_.CommandEncoderBeginComputePass(encoder_, &descriptor);
  }

  void EndPass() {
    if (pass_ == nullptr) return;
    wgpu_.ComputePassEncoderEnd(pass_);
    wgpu_.ComputePassEncoderRelease(pass_);
    pass_ = nullptr;
  }

  NativeDevice& device_;
  const Library& wgpu_;
  const bool timed_;
  WGPUCommandEncoder encoder_ = nullptr;
  WGPUComputePassEncoder pass_ = nullptr;
  uint32_t dispatches_ = 0;
};

Status NativeDevice::Encode(std::span<const Command> commands, bool timed) {
  LibraryCall call(library_allocations_);
  DropEncoded();
  if (!Begin("encode", "run")) return error_;
  if (timed) {
    const auto dispatches = std::count_if(commands.begin(), commands.end(), [](const Command& c) {
      return c.kind == Command::Kind::kDispatch;
    });
    if (dispatches > static_cast<int64_t>(query_capacity_))
      return FailedPrecondition("webgpu: {} dispatches to time, there is room for {}", dispatches,
                                query_capacity_);
  }
  PassEncoder encoder(*this, timed);
  for (const Command& command : commands) encoder.Add(command);
  // Errors inside a pass come out here; an invalid command buffer is never kept.
  encoded_ = encoder.Finish();
  if (!error_.ok()) DropEncoded();
  return error_;
}

Status NativeDevice::Submit() {
  LibraryCall call(library_allocations_);
  if (!Begin("submit", "run")) {
    DropEncoded();
    return error_;
  }
  if (encoded_ == nullptr) return FailedPrecondition("webgpu: nothing is encoded to submit");
  for (const Buffer& buffer : buffers_)  // submitting a use of a mapped buffer aborts
    if (buffer.map != MapState::kNone)
      return FailedPrecondition("webgpu: submit while a readback buffer is mapped");
  wgpu_.QueueSubmit(queue_, 1, &encoded_);
  DropEncoded();
  return error_;
}

Status NativeDevice::Map(BufferId id, uint64_t bytes) {
  LibraryCall call(library_allocations_);
  if (!Begin("map", "")) return error_;
  Buffer& buffer = buffers_[Index(id)];
  bytes = (bytes + 3) / 4 * 4;
  if (buffer.map != MapState::kNone || bytes > buffer.bytes || bytes == 0)
    return FailedPrecondition("webgpu: map of {} bytes of a buffer of {}{}", bytes, buffer.bytes,
                              buffer.map != MapState::kNone ? " that is mapped already" : "");
  buffer.map = MapState::kPending;
  buffer.mapped_bytes = bytes;
  WGPUBufferMapCallbackInfo callback = WGPU_BUFFER_MAP_CALLBACK_INFO_INIT;
  callback.mode = WGPUCallbackMode_AllowSpontaneous;
  callback.callback = [](WGPUMapAsyncStatus status, WGPUStringView text, void* self, void* which) {
    auto& device = *static_cast<NativeDevice*>(self);
    Buffer& mapped = device.buffers_[reinterpret_cast<uintptr_t>(which)];
    mapped.map = status == WGPUMapAsyncStatus_Success ? MapState::kMapped : MapState::kNone;
    if (status != WGPUMapAsyncStatus_Success) device.Report(WGPUErrorType_Unknown, ToString(text));
  };
  callback.userdata1 = this;
  callback.userdata2 = reinterpret_cast<void*>(Index(id));
  wgpu_.BufferMapAsync(buffer.handle, WGPUMapMode_Read, 0, bytes, callback);
  return error_;
}

Status NativeDevice::Poll(bool wait) {
  LibraryCall call(library_allocations_);
  if (!error_.ok()) return error_;
  what_ = "poll", label_ = "run";
  wgpu_.DevicePoll(device_, wait, nullptr);
  return error_;
}

std::span<const std::byte> NativeDevice::Mapped(BufferId id) const {
  const Buffer& buffer = buffers_[Index(id)];
  if (buffer.map != MapState::kMapped) return {};  // asking the library would abort
  const void* data = wgpu_.BufferGetConstMappedRange(buffer.handle, 0, buffer.mapped_bytes);
  return {static_cast<const std::byte*>(data), static_cast<size_t>(buffer.mapped_bytes)};
}

void NativeDevice::Unmap(BufferId id) {
  LibraryCall call(library_allocations_);
  Buffer& buffer = buffers_[Index(id)];
  if (buffer.map == MapState::kMapped) wgpu_.BufferUnmap(buffer.handle);
  buffer.map = MapState::kNone;
}

Status NativeDevice::ReadTimestamps(std::span<double> us) {
  if (us.size() != timed_dispatches_)
    return FailedPrecondition("webgpu: {} times asked for, {} were taken", us.size(),
                              timed_dispatches_);
  if (us.empty()) return {};
  LS_RETURN_IF_ERROR(Map(query_readback_, us.size() * 16));
  LS_RETURN_IF_ERROR(Poll(true));
  const std::span<const std::byte> bytes = Mapped(query_readback_);
  if (bytes.empty()) return Internal("webgpu: timestamps were not mapped");
  const double period = wgpu_.QueueGetTimestampPeriod(queue_);  // nanoseconds a tick
  for (size_t i = 0; i < us.size(); ++i) {
    uint64_t ticks[2];
    std::memcpy(ticks, bytes.data() + 16 * i, 16);
    us[i] = static_cast<double>(ticks[1] - ticks[0]) * period / 1000;
  }
  Unmap(query_readback_);
  return {};
}

void NativeDevice::Lose() {
  LibraryCall call(library_allocations_);
  what_ = "lose", label_ = "test";
  DropEncoded();
  wgpu_.DeviceDestroy(device_);
  wgpu_.DevicePoll(device_, true, nullptr);
  // wgpu-native 29 does not call back when it was us who destroyed the device; the rest of the way is the same.
  if (error_.ok())
    error_ = FailedPrecondition("webgpu: the device `{}` was lost (destroyed); open a new session",
                                adapter_.name);
}

}  // namespace liveshape::gpu::native
