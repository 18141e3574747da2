// What the tests and the fuzzer of the artifact share.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "artifact/format.h"
#include "ir/graph.h"

namespace liveshape::artifact {

// Makes the header right again after the bytes behind it were changed: a checksum keeps accidents out, and
// tests of what lies behind it want in. False where there is nothing to repair.
inline bool Reseal(std::vector<std::byte>& file) {
  if (file.size() < kHeaderSize) return false;
  Header header = Header::Decode(std::span(file).first<kHeaderSize>());
  header.major = kMajor;
  header.minor = kMinor;
  header.file_size = file.size();
  header.graph_offset = kHeaderSize;
  header.graph_size = std::min<uint64_t>(header.graph_size, file.size() - kHeaderSize);
  header.constants_offset = AlignUp(kHeaderSize + header.graph_size);
  if (header.constants_offset > file.size()) header.constants_offset = 0;
  header.constants_size = file.size() - header.constants_offset;
  header.checksum = ChecksumOf(header, std::span(file).subspan(kHeaderSize, header.graph_size));
  std::memcpy(file.data(), header.Encode().data(), kHeaderSize);
  return true;
}

// A file with everything that an artifact can hold, small enough to flip each of its bits.
std::unique_ptr<ir::Graph> SampleGraph();
// The same in little: one symbol, one input, one node.
std::unique_ptr<ir::Graph> TinyGraph();

}  // namespace liveshape::artifact
