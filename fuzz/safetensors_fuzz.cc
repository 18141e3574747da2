// Any bytes as a safetensors file: an error, or tensors that lie within them.
#include <cstdint>
#include <cstdlib>

#include "cli/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  auto tensors = liveshape::cli::ParseSafetensors({begin, size});
  if (!tensors.ok()) return 0;
  size_t total = 0;
  for (const auto& [name, tensor] : *tensors) {
    const auto* first = static_cast<const std::byte*>(tensor.data);
    const size_t bytes = tensor.bytes();
    if (first < begin + 8 || first + bytes > begin + size) std::abort();
    total += bytes;
  }
  if (total > size) std::abort();
  return 0;
}
