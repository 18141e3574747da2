// Any bytes as a .pt2: an error, or a program whose weights lie within the file and which prints.
#include <cstdint>
#include <cstdlib>

#include "import/pt2/archive.h"
#include "import/pt2/dump.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace liveshape::pt2;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  // The checksums would keep every mutation out of the parsers.
  auto archive = Pt2Archive::Open({begin, size}, {.check_crc = false});
  if (!archive.ok()) {
    if (archive.status().message().empty()) std::abort();
    return 0;
  }
  for (const Storage& storage : archive->storages())
    if (!storage.bytes.empty() && (storage.bytes.data() < begin ||
                                   storage.bytes.data() + storage.bytes.size() > begin + size))
      std::abort();
  if (DumpText(*archive).empty() || DumpJson(*archive).empty()) std::abort();
  return 0;
}
