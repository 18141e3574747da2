// A zip archive read in place: no member is copied, unpacked or allocated for.
//
//   LS_ASSIGN_OR_RETURN(ZipArchive zip, ZipArchive::Open(bytes));
//   const ZipMember* model = zip.Find("models/model.json");   // below the root folder
//   if (model) Parse(zip.Text(*model));
//
// Only what `.pt2` archives contain is read: stored members, with or without data descriptors and
// Zip64. The caller owns `bytes` and keeps them alive and unchanged; names and data point into them.
// Every offset and length is checked against the file before it is used, members may not overlap, and
// the number of members is bounded by the directory's own bytes, so a hostile file cannot make us
// allocate more than a small multiple of its size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace liveshape::pt2 {

struct ZipMember {
  std::string_view path;            // as stored: `model/data/weights/weight_0`
  std::span<const std::byte> data;  // the bytes in place
  uint32_t crc32 = 0;               // as the central directory states it; see CheckCrc
};

class ZipArchive {
 public:
  static Result<ZipArchive> Open(std::span<const std::byte> bytes);

  // The first entry's first path component: torch names it after the file, which may since have been
  // renamed. Empty if the first entry is not in a folder.
  std::string_view root() const { return root_; }

  // In the order of the central directory.
  const std::vector<ZipMember>& members() const { return members_; }

  // `path` is relative to root(); null if there is no such member.
  const ZipMember* Find(std::string_view path) const;

  // The member's path below root(); empty if it lies outside of it.
  std::string_view RelativePath(const ZipMember& member) const;

  static std::string_view Text(const ZipMember& member) {
    return {reinterpret_cast<const char*>(member.data.data()), member.data.size()};
  }

  // Reads the whole member: JSON is always checked, weights only where the caller reads them anyway.
  static Status CheckCrc(const ZipMember& member);

 private:
  std::string_view root_;
  std::vector<ZipMember> members_;
  std::unordered_map<std::string_view, size_t> by_relative_path_;
};

}  // namespace liveshape::pt2
