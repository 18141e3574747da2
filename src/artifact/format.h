// The bytes around the FlatBuffer of a `model.live` (docs/artifact.md, schema/liveshape.fbs):
//
//   header, 64 bytes | FlatBuffer | zeros to a multiple of 64 | constant segment
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"

namespace liveshape::artifact {

// Version policy: newer is refused, older loads. The minor number counts additions (a field, an enum
// value, an op); the major one would mark a file that this layout cannot describe.
inline constexpr uint16_t kMajor = 1;
inline constexpr uint16_t kMinor = 2;

inline constexpr size_t kHeaderSize = 64;
inline constexpr size_t kAlignment = 64;

// FlatBuffers 2.0 addresses with signed 32 bits.
inline constexpr uint64_t kMaxGraphBytes = (uint64_t{1} << 31) - 1;
// Far beyond any size that an export gave (depths of tens). They keep every walk over an expression short:
// parts may be shared, and written out as a tree such an expression can be exponential.
inline constexpr uint32_t kMaxExprDepth = 512;
inline constexpr uint32_t kMaxExprTree =
    65536;  // nodes, shared parts counted as often as they occur
inline constexpr size_t kMaxExprArgs = 4096;
inline constexpr size_t kMaxRank = 64;

struct Header {
  uint16_t major = kMajor;
  uint16_t minor = kMinor;
  uint64_t file_size = 0;
  uint64_t graph_offset = kHeaderSize;
  uint64_t graph_size = 0;
  uint64_t constants_offset = 0;
  uint64_t constants_size = 0;
  uint64_t checksum = 0;  // of the header without this field, then of the FlatBuffer

  std::array<std::byte, kHeaderSize> Encode() const;
  static Header Decode(std::span<const std::byte, kHeaderSize> bytes);  // believes everything
};

// Reads the header and checks everything that it says against `file`: magic, version, sizes, offsets, and
// the checksum, so that later code may take graph and constants as spans without another thought.
Result<Header> ReadHeader(std::span<const std::byte> file);

uint64_t ChecksumOf(const Header& header, std::span<const std::byte> graph);

constexpr uint64_t AlignUp(uint64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace liveshape::artifact
