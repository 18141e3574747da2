#include "backends/npu/machine/attributes.h"

#include <fmt/ranges.h>

namespace liveshape::npu {
namespace {

// A double-quoted YAML scalar: any UTF-8 name survives. Beyond ASCII it is escaped, since some characters there are line
// breaks to YAML, which a reader folds.
std::string YamlString(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    if (first < 0x80) {
      ++i;
      if (first == '"' || first == '\\')
        out += {'\\', static_cast<char>(first)};
      else if (first < 0x20 || first == 0x7f)
        out += fmt::format("\\x{:02x}", first);
      else
        out += static_cast<char>(first);
      continue;
    }
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    uint32_t code = first & (0xffu >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k)
      code = code << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3fu);
    out += fmt::format("\\U{:08x}", code);
    i += length;
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
