#include "backends/npu/machine/attributes.h"

#include <fmt/ranges.h>

namespace liveshape::npu {
namespace {

// A double-quoted YAML scalar: any name survives.
std::string YamlString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += {'\\', c};
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

Result<std::vector<TensorAddress>> AssignAddresses(
    std::span<const std::pair<std::string, int64_t>> tensors, int64_t base) {
  constexpr int64_t kLimit = int64_t{1} << 62;
  std::vector<TensorAddress> addresses;
  for (const auto& [name, bytes] : tensors) {
    if (bytes < 0 || bytes > kLimit - base - kTensorAlignment)
      return OutOfRange("tensor `{}` of {} bytes does not fit in memory after address {}", name,
                        bytes, base);
    addresses.push_back({name, base, bytes});
    base += (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  }
  return addresses;
}

std::string ToYaml(const KernelAttributes& attributes) {
  std::string text = fmt::format(
      "kernel: {}\nshape_args: [{}]\naddress_info:{}\n", YamlString(attributes.kernel),
      fmt::join(attributes.shape_args, ", "), attributes.address_info.empty() ? " []" : "");
  for (const TensorAddress& a : attributes.address_info)
    text += fmt::format("  - {{tensor: {}, base: {}, bytes: {}}}\n", YamlString(a.tensor), a.base,
                        a.bytes);
  return text;
}

}  // namespace liveshape::npu
