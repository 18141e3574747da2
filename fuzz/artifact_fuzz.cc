// The loader of a .live: as the bytes are, and behind a header made right, since few mutations pass a
// checksum. What loads must hold, print, be described, and be written and read again as the same graph.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "artifact/load.h"
#include "artifact/testing.h"
#include "artifact/write.h"

namespace {

using liveshape::artifact::LoadGraph;

void Load(std::span<const std::byte> bytes) {
  auto graph = LoadGraph(bytes, nullptr);
  if (!graph.ok()) return;
  const std::string text = liveshape::ir::Print(**graph);
  auto written = liveshape::artifact::SerializeArtifact(**graph);
  if (!written.ok()) return;  // simplified beyond what a file holds
  auto again = LoadGraph(*written, nullptr);
  if (!again.ok() || liveshape::ir::Print(**again) != text) {
    std::fprintf(
        stderr, "%s\nbecame\n%s\n", text.c_str(),
        again.ok() ? liveshape::ir::Print(**again).c_str() : again.status().message().c_str());
    std::abort();
  }
  (void)liveshape::Artifact::FromGraph(*std::move(graph));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  Load(file);
  if (liveshape::artifact::Reseal(file)) Load(file);
  return 0;
}
