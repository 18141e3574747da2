#include "backends/webgpu/device/native_adapters.h"

#include <algorithm>
#include <cstdlib>

namespace liveshape::gpu::native {
namespace {

const char* BackendName(WGPUBackendType type) {
  switch (type) {
    case WGPUBackendType_Vulkan: return "vulkan";
    case WGPUBackendType_Metal: return "metal";
    case WGPUBackendType_D3D12: return "d3d12";
    default: return "other";
  }
}

const char* KindName(WGPUAdapterType type) {
  switch (type) {
    case WGPUAdapterType_DiscreteGPU: return "discrete";
    case WGPUAdapterType_IntegratedGPU: return "integrated";
    case WGPUAdapterType_CPU: return "cpu";
    default: return "unknown";
  }
}

}  // namespace

Limits FromWgpu(const WGPULimits& limits) {
  static constexpr uint64_t kMost = UINT32_MAX;
  const auto narrow = [](uint64_t v) { return static_cast<uint32_t>(std::min(v, kMost)); };
  return {
      .buffer_bytes = limits.maxBufferSize,
      .binding_bytes = limits.maxStorageBufferBindingSize,
      .uniform_bytes = narrow(limits.maxUniformBufferBindingSize),
      .storage_buffers = limits.maxStorageBuffersPerShaderStage,
      .workgroup_bytes = limits.maxComputeWorkgroupStorageSize,
      .workgroup_invocations = limits.maxComputeInvocationsPerWorkgroup,
      .workgroup_count = limits.maxComputeWorkgroupsPerDimension,
      .offset_alignment =
          std::max(limits.minStorageBufferOffsetAlignment, limits.minUniformBufferOffsetAlignment),
  };
}

Adapter::Adapter(const Library& wgpu, WGPUAdapter handle) : wgpu_(wgpu), handle_(handle) {
  WGPUAdapterInfo info = WGPU_ADAPTER_INFO_INIT;
  if (wgpu_.AdapterGetInfo(handle_, &info) == WGPUStatus_Success) {
    info_.name = ToString(info.device);
    info_.driver = ToString(info.description);
    info_.backend = BackendName(info.backendType);
    info_.kind = KindName(info.adapterType);
    wgpu_.AdapterInfoFreeMembers(info);
  }
  WGPULimits limits = WGPU_LIMITS_INIT;
  wgpu_.AdapterGetLimits(handle_, &limits);
  info_.limits = FromWgpu(limits);
  info_.features = {
      .f16 = wgpu_.AdapterHasFeature(handle_, WGPUFeatureName_ShaderF16) != 0,
      .subgroups = wgpu_.AdapterHasFeature(handle_, kSubgroups) != 0,
      .timestamps = wgpu_.AdapterHasFeature(handle_, WGPUFeatureName_TimestampQuery) != 0};
}

Adapter::~Adapter() {
  if (handle_) wgpu_.AdapterRelease(handle_);
}

// Without debug and validation layers, and without GL: its compute would be another machine to test.
WGPUInstance Instance(const Library& wgpu) {
  static const WGPUInstance instance = [&] {
    // Mesa's device-select layer asks a Wayland server for its favourite and complains on stderr where none runs.
    setenv("NODEVICE_SELECT", "1", /*overwrite=*/0);
    WGPUInstanceExtras extras = {};
    extras.chain.sType = static_cast<WGPUSType>(WGPUSType_InstanceExtras);
    extras.backends =
        WGPUInstanceBackend_Vulkan | WGPUInstanceBackend_Metal | WGPUInstanceBackend_DX12;
    WGPUInstanceDescriptor descriptor = WGPU_INSTANCE_DESCRIPTOR_INIT;
    descriptor.nextInChain = &extras.chain;
    return wgpu.CreateInstance(&descriptor);
  }();
  return instance;
}

Result<std::vector<Adapter>> Adapters(const Library& wgpu) {
  const WGPUInstance instance = Instance(wgpu);
  std::vector<WGPUAdapter> handles(wgpu.InstanceEnumerateAdapters(instance, nullptr, nullptr));
  if (!handles.empty())
    handles.resize(std::min(handles.size(),
                            wgpu.InstanceEnumerateAdapters(instance, nullptr, handles.data())));
  if (handles.empty())
    return NotFound(
        "webgpu: this machine has no adapter; install the driver of its GPU, or a software one "
        "(Debian: mesa-vulkan-drivers)");
  std::vector<Adapter> adapters;
  for (WGPUAdapter handle : handles) adapters.emplace_back(wgpu, handle);
  return adapters;
}

Result<size_t> ChooseAdapter(const std::vector<Adapter>& adapters, const std::string& asked) {
  const char* environment = std::getenv("LIVESHAPE_ADAPTER");
  const std::string wanted = asked.empty() && environment ? environment : asked;
  if (wanted.empty()) {
    for (const char* kind : {"discrete", "integrated"})
      for (size_t i = 0; i < adapters.size(); ++i)
        if (adapters[i].info().kind == kind) return i;
    return size_t{0};
  }
  if (std::all_of(wanted.begin(), wanted.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
      wanted.size() < 4) {
    const size_t i = static_cast<size_t>(std::atoi(wanted.c_str()));
    if (i < adapters.size()) return i;
  }
  std::string known;
  for (size_t i = 0; i < adapters.size(); ++i) {
    if (adapters[i].info().name.find(wanted) != std::string::npos) return i;
    known += fmt::format("{}{} ({})", i ? ", " : "", i, adapters[i].info().name);
  }
  return NotFound("webgpu: no adapter `{}`; this machine has: {}", wanted, known);
}

}  // namespace liveshape::gpu::native
