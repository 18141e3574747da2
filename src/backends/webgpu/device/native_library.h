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
// clang-format off
#define LS_WGPU_FUNCTIONS(X) \
  X(CreateInstance) X(InstanceEnumerateAdapters) X(InstanceProcessEvents) X(InstanceRelease) \
  X(AdapterGetInfo) X(AdapterInfoFreeMembers) X(AdapterGetLimits) X(AdapterHasFeature) \
  X(AdapterRequestDevice) X(AdapterRelease) X(DeviceGetQueue) X(DeviceGetLimits) \
  X(DeviceHasFeature) X(DevicePoll) X(DeviceDestroy) X(DeviceRelease) X(DeviceCreateBuffer) \
  X(DeviceCreateShaderModuleTrusted) X(DeviceCreateBindGroupLayout) X(DeviceCreatePipelineLayout) \
  X(DeviceCreateComputePipeline) X(DeviceCreateBindGroup) X(DeviceCreateCommandEncoder) \
  X(DeviceCreateQuerySet) X(QueueWriteBuffer) X(QueueSubmit) X(QueueGetTimestampPeriod) \
  X(QueueRelease) X(CommandEncoderBeginComputePass) X(CommandEncoderCopyBufferToBuffer) \
  X(CommandEncoderClearBuffer) X(CommandEncoderResolveQuerySet) X(CommandEncoderFinish) \
  X(CommandEncoderRelease) X(CommandBufferRelease) X(ComputePassEncoderSetPipeline) \
  X(ComputePassEncoderSetBindGroup) X(ComputePassEncoderDispatchWorkgroups) \
  X(ComputePassEncoderEnd) X(ComputePassEncoderRelease) X(BufferMapAsync) \
  X(BufferGetConstMappedRange) X(BufferUnmap) X(BufferRelease) X(ShaderModuleRelease) \
  X(BindGroupLayoutRelease) X(PipelineLayoutRelease) X(ComputePipelineRelease) \
  X(BindGroupRelease) X(QuerySetRelease) X(GetVersion) X(SetLogCallback) X(SetLogLevel)
// clang-format on

struct Library {
#define LS_MEMBER(name) decltype(&::wgpu##name) name = nullptr;
  LS_WGPU_FUNCTIONS(LS_MEMBER)
#undef LS_MEMBER
};

Result<const Library*> LoadLibrary();

}  // namespace liveshape::gpu::native
