// webgpu.h without linking: the functions that are used, found in wgpu-native at run time.
//
//   LS_ASSIGN_OR_RETURN(const native::Library* wgpu, native::LoadLibrary());   // once a process
//   WGPUInstance instance = wgpu->CreateInstance(&descriptor);
//
// Searched, in this order: $LIVESHAPE_WGPU_LIBRARY (then nothing else), build/deps beside the build folder, the
// Python package `wgpu` beside ours, and the loader's own path.
#pragma once

#include <wgpu.h>

#include <string>

#include "base/status.h"

namespace liveshape::gpu::native {

// Not here, because wgpu-native 29 aborts in them: InstanceWaitAny, DeviceCreateComputePipelineAsync,
// ShaderModuleGetCompilationInfo, BufferGetMapState, BufferSetLabel, DeviceGetAdapterInfo, GetProcAddress.
// clang-format off: it never settles on one form
#define LS_WGPU_FUNCTIONS(X) \
  X(CreateInstance) X(InstanceEnumerateAdapters) X(AdapterGetInfo) \
  X(AdapterInfoFreeMembers) X(AdapterGetLimits) X(AdapterHasFeature) X(AdapterRelease) \
  X(AdapterRequestDevice) X(DeviceGetQueue) X(DeviceGetLimits) X(DeviceHasFeature) \
  X(DeviceRelease) X(DeviceCreateBuffer) X(DeviceCreateShaderModule) \
  X(DeviceCreateBindGroupLayout) X(DeviceCreatePipelineLayout) \
  X(DeviceCreateComputePipeline) X(DeviceCreateBindGroup) X(DeviceCreateQuerySet) \
  X(DeviceCreateCommandEncoder) X(DevicePoll) X(DeviceDestroy) X(QueueRelease) \
  X(QueueWriteBuffer) X(QueueSubmit) X(QueueGetTimestampPeriod) \
  X(CommandEncoderClearBuffer) X(CommandEncoderCopyBufferToBuffer) \
  X(CommandEncoderResolveQuerySet) X(CommandEncoderFinish) X(CommandEncoderRelease) \
  X(CommandEncoderBeginComputePass) X(CommandBufferRelease) X(ComputePipelineRelease) \
  X(ComputePassEncoderSetPipeline) X(ComputePassEncoderSetBindGroup) \
  X(ComputePassEncoderDispatchWorkgroups) X(ComputePassEncoderEnd) \
  X(ComputePassEncoderRelease) X(BufferRelease) X(BufferMapAsync) \
  X(BufferGetConstMappedRange) X(BufferUnmap) X(ShaderModuleRelease) X(BindGroupRelease) \
  X(BindGroupLayoutRelease) X(PipelineLayoutRelease) X(QuerySetRelease) X(GetVersion) \
  X(SetLogLevel)
// clang-format on

struct Library {
#define LS_MEMBER(name) decltype(&::wgpu##name) name = nullptr;
  LS_WGPU_FUNCTIONS(LS_MEMBER)
#undef LS_MEMBER
};

Result<const Library*> LoadLibrary();

}  // namespace liveshape::gpu::native
