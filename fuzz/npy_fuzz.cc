// Any bytes as a .npy: an error, or a tensor that lies within them.
#include <cstdint>
#include <cstdlib>

#include "cli/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using liveshape::TensorRef;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  for (const bool bf16 : {false, true}) {
    auto tensor = liveshape::cli::ParseNpy({begin, size}, {.uint16_is_bf16 = bf16});
    if (!tensor.ok()) continue;
    size_t bytes = SizeOf(tensor->dtype);
    for (const int64_t dim : tensor->dims) bytes *= static_cast<size_t>(dim);
    if (static_cast<std::byte*>(tensor->data) + bytes != begin + size) std::abort();
  }
  return 0;
}
