#include "backends/webgpu/device/limits.h"

#include <charconv>

namespace liveshape::gpu {
namespace {

// false: no limit has this name, or cannot hold the value.
bool Set(Limits& limits, std::string_view name, uint64_t value) {
  if (name == "buffer_bytes") return limits.buffer_bytes = value, true;
  if (name == "binding_bytes") return limits.binding_bytes = value, true;
  const std::pair<std::string_view, uint32_t*> words[] = {
      {"uniform_bytes", &limits.uniform_bytes},
      {"storage_buffers", &limits.storage_buffers},
      {"workgroup_bytes", &limits.workgroup_bytes},
      {"workgroup_invocations", &limits.workgroup_invocations},
      {"workgroup_count", &limits.workgroup_count},
      {"offset_alignment", &limits.offset_alignment},
  };
  for (const auto& [known, field] : words)
    if (known == name && value <= UINT32_MAX) return *field = static_cast<uint32_t>(value), true;
  return false;
}

}  // namespace

Result<Limits> ParseLimits(std::string_view text) {
  Limits limits;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    if (item == "smallest") {
      limits = kSmallestLimits;
      continue;
    }
    const size_t equals = item.find('=');
    uint64_t value = 0;
    const std::string_view digits = equals == item.npos ? "" : item.substr(equals + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size() || value == 0 ||
        !Set(limits, item.substr(0, equals), value))
      return InvalidArgument(
          "webgpu: `{}` is no limit: `smallest`, or NAME=NUMBER with a name of `liveshape devices`",
          item);
  }
  // Slots begin at multiples of 256: a smaller binding would hold none.
  if (limits.binding_bytes != 0 && limits.binding_bytes < 256)
    return InvalidArgument("webgpu: binding_bytes={}: at least 256", limits.binding_bytes);
  return limits;
}

}  // namespace liveshape::gpu
