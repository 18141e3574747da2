#include "backends/webgpu/device/native_device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "backends/webgpu/device/probe.h"

namespace liveshape::gpu {
namespace native {

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

namespace {

// On a device of its own, so that a session's counts are its own; once a process and adapter, which does not change.
uint32_t SubgroupSize(const Library& wgpu, const Adapter& adapter) {
  static std::mutex mutex;
  static std::map<std::string, uint32_t> known;
  std::lock_guard lock(mutex);
  auto [size, added] = known.try_emplace(adapter.info().name + adapter.info().driver);
  if (added) {
    NativeDevice device(wgpu, adapter.info());
    if (device.Open(adapter.handle(), {}).ok()) size->second = ProbeSubgroupSize(device);
  }
  return size->second;
}

}  // namespace
}  // namespace native

using native::Library;

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
  auto device = std::make_unique<native::NativeDevice>(*wgpu, adapters[chosen].info());
  LS_RETURN_IF_ERROR(device->Open(adapters[chosen].handle(), options));
  if (device->features().subgroups)
    device->RelyOnSubgroups(native::SubgroupSize(*wgpu, adapters[chosen]));
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace liveshape::gpu
