// Any bytes as a .pt2: an error, or a program whose weights lie within the file and which prints. Bytes that start
// with `{` are a model.json instead: inside a zip, an edit that changes its length breaks the zip first.
#include <cstdint>
#include <cstdlib>

#include "import/pt2/archive.h"
#include "import/pt2/dump.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace liveshape::pt2;
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  if (size > 0 && data[0] == '{') {
    auto program = ParseProgram({reinterpret_cast<const char*>(data), size});
    if (!program.ok() && program.status().message().empty()) std::abort();
    return 0;
  }
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
