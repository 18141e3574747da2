// gpu::Device on webgpu.h. Whatever would abort the process inside wgpu-native is kept from it here: see the
// notes at each place.
#include <algorithm>
#include <cstring>

#include "backends/webgpu/device/native_adapters.h"
#include "base/observe.h"

namespace liveshape::gpu {
namespace {

using native::Library;
using native::ToString;
using native::View;

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

void NativeDevice::Report(WGPUErrorType type, std::string message) {
  if (!error_.ok()) return;  // the first one is the cause
  constexpr size_t kMost = 1200;
  if (message.size() > kMost) message.resize(kMost);
  error_ = Status(type == WGPUErrorType_OutOfMemory ? Code::kResourceExhausted : Code::kInternal,
                  fmt::format("webgpu: {} `{}`: {}", what_, label_, message));
}

Status NativeDevice::Open(WGPUAdapter adapter, const DeviceOptions& options) {
  LibraryCall call(library_allocations_);
  // Without requiredLimits a device has WebGPU's minimums, whatever the adapter could do.
  WGPULimits limits = WGPU_LIMITS_INIT;
  wgpu_.AdapterGetLimits(adapter, &limits);
  const auto lower = [](auto& limit, auto at_most) {
    if (at_most != 0 && at_most < limit) limit = at_most;
  };
  const Limits& most = options.at_most;
  lower(limits.maxBufferSize, most.buffer_bytes);
  lower(limits.maxStorageBufferBindingSize, most.binding_bytes);
  lower(limits.maxUniformBufferBindingSize, uint64_t{most.uniform_bytes});
  lower(limits.maxStorageBuffersPerShaderStage, most.storage_buffers);
  lower(limits.maxComputeWorkgroupStorageSize, most.workgroup_bytes);
  for (uint32_t* limit :
       {&limits.maxComputeInvocationsPerWorkgroup, &limits.maxComputeWorkgroupSizeX,
        &limits.maxComputeWorkgroupSizeY, &limits.maxComputeWorkgroupSizeZ})
    lower(*limit, most.workgroup_invocations);
  lower(limits.maxComputeWorkgroupsPerDimension, most.workgroup_count);
  for (uint32_t* floor :
       {&limits.minStorageBufferOffsetAlignment, &limits.minUniformBufferOffsetAlignment})
    *floor = std::max(*floor, most.offset_alignment);

  std::vector<WGPUFeatureName> wanted;
  const Features& has = adapter_.features;
  if (options.f16 && has.f16) wanted.push_back(WGPUFeatureName_ShaderF16);
  if (options.subgroups && has.subgroups) wanted.push_back(native::kSubgroups);
  if (options.timestamps && has.timestamps) wanted.push_back(WGPUFeatureName_TimestampQuery);

  WGPUDeviceDescriptor descriptor = WGPU_DEVICE_DESCRIPTOR_INIT;
  descriptor.requiredFeatureCount = wanted.size();
  descriptor.requiredFeatures = wanted.data();
  descriptor.requiredLimits = &limits;
  // Without these two callbacks wgpu-native panics where it would call them.
  descriptor.uncapturedErrorCallbackInfo.callback = [](WGPUDevice const*, WGPUErrorType type,
                                                       WGPUStringView text, void* self, void*) {
    static_cast<NativeDevice*>(self)->Report(type, ToString(text));
  };
  descriptor.uncapturedErrorCallbackInfo.userdata1 = this;
  descriptor.deviceLostCallbackInfo.mode = WGPUCallbackMode_AllowSpontaneous;
  descriptor.deviceLostCallbackInfo.callback = [](WGPUDevice const*, WGPUDeviceLostReason,
                                                  WGPUStringView text, void* self, void*) {
    auto& device = *static_cast<NativeDevice*>(self);
    if (device.error_.ok())
      device.error_ =
          FailedPrecondition("webgpu: the device `{}` was lost ({}); open a new session",
                             device.adapter_.name, ToString(text));
  };
  descriptor.deviceLostCallbackInfo.userdata1 = this;

  struct Answer {
    WGPUDevice device = nullptr;
    std::string message;
  } answer;
  WGPURequestDeviceCallbackInfo callback = WGPU_REQUEST_DEVICE_CALLBACK_INFO_INIT;
  callback.mode = WGPUCallbackMode_AllowSpontaneous;
  callback.callback = [](WGPURequestDeviceStatus, WGPUDevice device, WGPUStringView message,
                         void* to,
                         void*) { *static_cast<Answer*>(to) = {device, ToString(message)}; };
  callback.userdata1 = &answer;
  wgpu_.AdapterRequestDevice(adapter, &descriptor, callback);  // answers before it returns
  device_ = answer.device;
  if (device_ == nullptr)
    return Unsupported("webgpu: adapter `{}` gives no device: {}", adapter_.name, answer.message);
  queue_ = wgpu_.DeviceGetQueue(device_);

  // Features that the library does not know are dropped without a word.
  WGPULimits granted = WGPU_LIMITS_INIT;
  wgpu_.DeviceGetLimits(device_, &granted);
  limits_ = native::FromWgpu(granted);
  limits_.offset_alignment = std::max(limits_.offset_alignment, most.offset_alignment);
  const auto has_feature = [&](WGPUFeatureName f) {
    return wgpu_.DeviceHasFeature(device_, f) != 0;
  };
  features_ = {.f16 = has_feature(WGPUFeatureName_ShaderF16),
               .subgroups = has_feature(native::kSubgroups),
               .timestamps = has_feature(WGPUFeatureName_TimestampQuery)};
  return error_;
}

NativeDevice::~NativeDevice() {
  DropEncoded();
  for (WGPUBindGroup group : groups_)
    if (group) wgpu_.BindGroupRelease(group);
  for (Pipeline& pipeline : pipelines_) {
    if (pipeline.handle) wgpu_.ComputePipelineRelease(pipeline.handle);
    if (pipeline.pipeline_layout) wgpu_.PipelineLayoutRelease(pipeline.pipeline_layout);
    if (pipeline.layout) wgpu_.BindGroupLayoutRelease(pipeline.layout);
  }
  for (WGPUShaderModule shader : shaders_)
    if (shader) wgpu_.ShaderModuleRelease(shader);
  if (queries_) wgpu_.QuerySetRelease(queries_);
  for (Buffer& buffer : buffers_)
    if (buffer.handle) wgpu_.BufferRelease(buffer.handle);
  if (queue_) wgpu_.QueueRelease(queue_);
  if (device_) wgpu_.DeviceRelease(device_);
}

BufferId NativeDevice::CreateBuffer(uint64_t bytes, BufferUse use, std::string_view label) {
  switch (use) {
    case BufferUse::kReadback:
      return MakeBuffer(bytes, WGPUBufferUsage_MapRead | WGPUBufferUsage_CopyDst, label);
    case BufferUse::kUniform:
      return MakeBuffer(bytes, WGPUBufferUsage_Uniform | WGPUBufferUsage_CopyDst, label);
    default:
      return MakeBuffer(bytes,
                        WGPUBufferUsage_Storage | WGPUBufferUsage_CopySrc | WGPUBufferUsage_CopyDst,
                        label);
  }
}

BufferId NativeDevice::MakeBuffer(uint64_t bytes, WGPUBufferUsage usage, std::string_view label) {
  LibraryCall call(library_allocations_);
  ++created_.buffers;
  Buffer& buffer = buffers_.emplace_back();
  buffer.bytes = std::max<uint64_t>((bytes + 3) / 4 * 4, 4);
  const BufferId id{static_cast<uint32_t>(buffers_.size() - 1)};
  if (!Begin("buffer", label)) return id;
  if (buffer.bytes > limits_.buffer_bytes) {
    Report(WGPUErrorType_OutOfMemory,
           fmt::format("{} bytes asked for, a buffer of this device has at most {}", bytes,
                       limits_.buffer_bytes));
    return id;
  }
  WGPUBufferDescriptor descriptor = WGPU_BUFFER_DESCRIPTOR_INIT;
  descriptor.label = View(label);
  descriptor.size = buffer.bytes;
  descriptor.usage = usage;
  buffer.handle = wgpu_.DeviceCreateBuffer(device_, &descriptor);
  return id;
}

ShaderId NativeDevice::CreateShader(std::string_view wgsl, std::string_view label) {
  LibraryCall call(library_allocations_);
  ++created_.shaders;
  shaders_.push_back(nullptr);
  if (Begin("shader", label)) {
    WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
    source.code = View(wgsl);
    WGPUShaderModuleDescriptor descriptor = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
    descriptor.nextInChain = &source.chain;
    descriptor.label = View(label);
    shaders_.back() = wgpu_.DeviceCreateShaderModule(device_, &descriptor);
  }
  return ShaderId{static_cast<uint32_t>(shaders_.size() - 1)};
}

PipelineId NativeDevice::CreatePipeline(ShaderId shader, std::span<const Binding> bindings,
                                        std::string_view label) {
  LibraryCall call(library_allocations_);
  ++created_.pipelines;
  Pipeline& pipeline = pipelines_.emplace_back();
  pipeline.bindings.assign(bindings.begin(), bindings.end());
  if (Begin("pipeline", label)) {
    std::vector<WGPUBindGroupLayoutEntry> entries;
    for (size_t i = 0; i < bindings.size(); ++i) {
      WGPUBindGroupLayoutEntry& entry = entries.emplace_back();
      entry = WGPU_BIND_GROUP_LAYOUT_ENTRY_INIT;
      entry.binding = static_cast<uint32_t>(i);
      entry.visibility = WGPUShaderStage_Compute;
      entry.buffer.type = bindings[i] == Binding::kUniform ? WGPUBufferBindingType_Uniform
                                                           : WGPUBufferBindingType_Storage;
    }
    WGPUBindGroupLayoutDescriptor layout = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
    layout.entryCount = entries.size();
    layout.entries = entries.data();
    pipeline.layout = wgpu_.DeviceCreateBindGroupLayout(device_, &layout);
    WGPUPipelineLayoutDescriptor outer = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
    outer.bindGroupLayoutCount = 1;
    outer.bindGroupLayouts = &pipeline.layout;
    pipeline.pipeline_layout = wgpu_.DeviceCreatePipelineLayout(device_, &outer);
    WGPUComputePipelineDescriptor descriptor = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
    descriptor.label = View(label);
    descriptor.layout = pipeline.pipeline_layout;
    descriptor.compute.module = shaders_[Index(shader)];
    descriptor.compute.entryPoint = View("main");
    if (error_.ok()) pipeline.handle = wgpu_.DeviceCreateComputePipeline(device_, &descriptor);
  }
  return PipelineId{static_cast<uint32_t>(pipelines_.size() - 1)};
}

GroupId NativeDevice::CreateGroup(PipelineId pipeline, std::span<const BoundRange> ranges,
                                  std::string_view label) {
  LibraryCall call(library_allocations_);
  ++created_.groups;
  groups_.push_back(nullptr);
  if (Begin("bind group", label)) {
    std::vector<WGPUBindGroupEntry> entries;
    for (size_t i = 0; i < ranges.size(); ++i) {
      WGPUBindGroupEntry& entry = entries.emplace_back();
      entry = WGPU_BIND_GROUP_ENTRY_INIT;
      entry.binding = static_cast<uint32_t>(i);
      entry.buffer = buffers_[Index(ranges[i].buffer)].handle;
      entry.offset = ranges[i].offset;
      entry.size = ranges[i].bytes;
    }
    WGPUBindGroupDescriptor descriptor = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
    descriptor.label = View(label);
    descriptor.layout = pipelines_[Index(pipeline)].layout;
    descriptor.entryCount = entries.size();
    descriptor.entries = entries.data();
    groups_.back() = wgpu_.DeviceCreateBindGroup(device_, &descriptor);
  }
  return GroupId{static_cast<uint32_t>(groups_.size() - 1)};
}

void NativeDevice::CreateTimestamps(uint32_t dispatches) {
  const uint64_t bytes = uint64_t{dispatches} * 16;
  query_values_ =
      MakeBuffer(bytes, WGPUBufferUsage_QueryResolve | WGPUBufferUsage_CopySrc, "timestamps");
  query_readback_ = CreateBuffer(bytes, BufferUse::kReadback, "timestamps");
  LibraryCall call(library_allocations_);
  if (!Begin("query set", "timestamps") || dispatches == 0) return;
  if (!features_.timestamps)
    return Report(WGPUErrorType_Validation, "this device was opened without timestamps");
  WGPUQuerySetDescriptor descriptor = WGPU_QUERY_SET_DESCRIPTOR_INIT;
  descriptor.type = WGPUQueryType_Timestamp;
  descriptor.count = dispatches * 2;
  queries_ = wgpu_.DeviceCreateQuerySet(device_, &descriptor);
  query_capacity_ = dispatches;
}

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

}  // namespace

Result<std::vector<AdapterInfo>> ListAdapters() {
  LS_ASSIGN_OR_RETURN(const Library* wgpu, native::LoadLibrary());
  LS_ASSIGN_OR_RETURN(auto adapters, native::Adapters(*wgpu));
  std::vector<AdapterInfo> infos;
  for (const native::Adapter& adapter : adapters) infos.push_back(adapter.info());
  return infos;
}

Result<std::unique_ptr<Device>> OpenDevice(const DeviceOptions& options) {
  LS_ASSIGN_OR_RETURN(const Library* wgpu, native::LoadLibrary());
  LS_ASSIGN_OR_RETURN(auto adapters, native::Adapters(*wgpu));
  LS_ASSIGN_OR_RETURN(const size_t chosen, native::ChooseAdapter(adapters, options.adapter));
  auto device = std::make_unique<NativeDevice>(*wgpu, adapters[chosen].info());
  LS_RETURN_IF_ERROR(device->Open(adapters[chosen].handle(), options));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace liveshape::gpu
