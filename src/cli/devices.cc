// liveshape devices: the adapters that WebGPU finds on this machine, with what matters of their limits.
#include "backends/webgpu/device/device.h"
#include "cli/common.h"
#include "cli/options.h"

namespace liveshape::cli {
namespace {

std::string Mebibytes(uint64_t bytes) { return fmt::format("{}", bytes >> 20); }
std::string YesNo(bool yes) { return yes ? "yes" : "no"; }

void PrintText(const std::vector<gpu::AdapterInfo>& adapters) {
  Table table({"adapter", "name", "backend", "kind", "f16", "subgroups", "timestamps", "buffer MiB",
               "binding MiB", "bindings", "workgroup", "shared KiB"});
  for (size_t i = 0; i < adapters.size(); ++i) {
    const gpu::AdapterInfo& a = adapters[i];
    table.Add({fmt::format("{}", i), a.name, a.backend, a.kind, YesNo(a.features.f16),
               YesNo(a.features.subgroups), YesNo(a.features.timestamps),
               Mebibytes(a.limits.buffer_bytes), Mebibytes(a.limits.binding_bytes),
               fmt::format("{}", a.limits.storage_buffers),
               fmt::format("{}", a.limits.workgroup_invocations),
               fmt::format("{}", a.limits.workgroup_bytes >> 10)});
  }
  fmt::print("{}", table.ToString());
}

void PrintJson(const std::vector<gpu::AdapterInfo>& adapters) {
  JsonWriter json;
  json.Object([&] {
    json.Key("adapters").Array([&] {
      for (const gpu::AdapterInfo& a : adapters)
        json.Object([&] {
          json.Field("name", a.name).Field("driver", a.driver).Field("backend", a.backend);
          json.Field("kind", a.kind);
          json.Key("features").Object([&] {
            json.Field("f16", a.features.f16).Field("subgroups", a.features.subgroups);
            json.Field("timestamps", a.features.timestamps);
          });
          json.Key("limits").Object([&] {
            json.Field("buffer_bytes", a.limits.buffer_bytes);
            json.Field("binding_bytes", a.limits.binding_bytes);
            json.Field("uniform_bytes", a.limits.uniform_bytes);
            json.Field("storage_buffers", a.limits.storage_buffers);
            json.Field("workgroup_bytes", a.limits.workgroup_bytes);
            json.Field("workgroup_invocations", a.limits.workgroup_invocations);
            json.Field("workgroup_count", a.limits.workgroup_count);
            json.Field("offset_alignment", a.limits.offset_alignment);
          });
        });
    });
  });
  fmt::print("{}\n", json.text());
}

}  // namespace

int RunDevices(const DevicesOptions& options) {
  auto adapters = gpu::ListAdapters();
  if (!adapters.ok()) return Fail("devices", adapters.status(), options.json);
  options.json ? PrintJson(*adapters) : PrintText(*adapters);
  return kGood;
}

}  // namespace liveshape::cli
