// The adapters of this machine, as wgpu-native lists them.
#pragma once

#include <vector>

#include "backends/webgpu/device/device.h"
#include "backends/webgpu/device/native_library.h"

namespace liveshape::gpu::native {

// Owns one reference.
class Adapter {
 public:
  Adapter(const Library& wgpu, WGPUAdapter handle);
  Adapter(Adapter&& other) noexcept
      : wgpu_(other.wgpu_), handle_(std::exchange(other.handle_, nullptr)), info_(other.info_) {}
  Adapter& operator=(Adapter&&) = delete;
  ~Adapter();

  WGPUAdapter handle() const { return handle_; }
  const AdapterInfo& info() const { return info_; }

 private:
  const Library& wgpu_;
  WGPUAdapter handle_;
  AdapterInfo info_;
};

// At least one, or an error that says what to install.
Result<std::vector<Adapter>> Adapters(const Library& wgpu);
// See DeviceOptions::adapter.
Result<size_t> ChooseAdapter(const std::vector<Adapter>& adapters, const std::string& wanted);

WGPUInstance Instance(const Library& wgpu);  // one a process, made at the first call
Limits FromWgpu(const WGPULimits& limits);
inline WGPUStringView View(std::string_view text) { return {text.data(), text.size()}; }
inline std::string ToString(WGPUStringView text) {
  if (text.data == nullptr) return {};
  return text.length == WGPU_STRLEN ? std::string(text.data) : std::string(text.data, text.length);
}

// The standard name of subgroups is never reported by wgpu-native 29; its own is.
inline constexpr auto kSubgroups = static_cast<WGPUFeatureName>(WGPUNativeFeature_Subgroup);

}  // namespace liveshape::gpu::native
