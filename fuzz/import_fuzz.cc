// Any bytes as a .pt2, all the way to our IR: an error, or a graph that verifies.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "import/import.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace liveshape;
  // The checksums would keep every mutation out.
  auto archive =
      pt2::Pt2Archive::Open({reinterpret_cast<const std::byte*>(data), size}, {.check_crc = false});
  if (!archive.ok()) return 0;
  auto imported = ImportPt2(*archive, nullptr);
  if (!imported.ok()) return 0;
  if (Status verified = ir::Verify(*imported->graph); !verified.ok()) {
    std::fprintf(stderr, "%s\n", verified.message().c_str());
    std::abort();
  }
  return 0;
}
