// What is made once, at load; each is counted.
#include "backends/webgpu/device/native_device.h"

#include <algorithm>

namespace liveshape::gpu::native {
namespace {

// Everything is checked but that loops end: ours do by construction, and a counter beside every loop keeps drivers from
// unrolling it (8 % of a prefill on an H200).
constexpr WGPUShaderRuntimeChecks kChecks = WGPUShaderRuntimeChecks_BoundsChecks |
                                            WGPUShaderRuntimeChecks_RayQueryInitializationTracking |
                                            WGPUShaderRuntimeChecks_TaskShaderDispatchTracking |
                                            WGPUShaderRuntimeChecks_MeshShaderPrimitiveIndicesClamp;

}  // namespace

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
    shaders_.back() = wgpu_.DeviceCreateShaderModuleTrusted(device_, &descriptor, kChecks);
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

}  // namespace liveshape::gpu::native
