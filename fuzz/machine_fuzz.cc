// Any text as a machine description or an attribute file: an error, or a struct that keeps every rule; an attribute
// file that is read can be written and read again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "backends/npu/machine/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace liveshape::npu;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto machine = ReadMachine(text, "fuzz"); machine.ok())
    if (!(machine->PeakBytesPerCycle() > 0) || machine->PeakMacsPerCycle() < 1) std::abort();
  if (auto attributes = ReadAttributes(text, "fuzz"); attributes.ok()) {
    auto again = ReadAttributes(ToYaml(*attributes), "again");
    if (!again.ok() || !(*again == *attributes)) {
      std::fprintf(stderr, "%s", ToYaml(*attributes).c_str());
      std::abort();
    }
  }
  return 0;
}
