// Stands in for native_device.cc where webgpu.h was not there at build time.
#include "backends/webgpu/device/device.h"

namespace liveshape::gpu {
namespace {

Status Missing() {
  return Unsupported(
      "webgpu: this build has no WebGPU: webgpu.h was not found; run scripts/webgpu.sh and build "
      "again");
}

}  // namespace

Result<std::vector<AdapterInfo>> ListAdapters() { return Missing(); }
Result<std::unique_ptr<Device>> OpenDevice(const DeviceOptions&) { return Missing(); }

}  // namespace liveshape::gpu
