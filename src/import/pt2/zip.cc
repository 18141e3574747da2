#include "import/pt2/zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace liveshape::pt2 {
namespace {

using Bytes = std::span<const std::byte>;

// Record layouts: APPNOTE.TXT of PKWARE, sections 4.3.7, 4.3.12, 4.3.14-16, 4.5.3.
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kZip64EndSignature = 0x06064b50;
constexpr uint32_t kZip64LocatorSignature = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kZip64EndBytes = 56,
                   kZip64LocatorBytes = 20, kMaxComment = 0xFFFF;
constexpr uint16_t kZip64Extra = 0x0001;
constexpr uint16_t kEncryptedFlag = 0x0001;
constexpr uint32_t kInZip64 = 0xFFFFFFFF;  // the true value stands in the Zip64 extra field

// Little-endian, at any alignment. The caller has checked the range.
template <typename T>
T Load(Bytes bytes, uint64_t offset) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value =
        static_cast<T>(value | static_cast<T>(std::to_integer<T>(bytes[offset + i]) << (8 * i)));
  return value;
}

bool Contains(uint64_t end, uint64_t offset, uint64_t length) {
  return offset <= end && length <= end - offset;
}

std::string_view View(Bytes bytes, uint64_t offset, uint64_t length) {
  return {reinterpret_cast<const char*>(bytes.data()) + offset, static_cast<size_t>(length)};
}

struct Directory { uint64_t offset = 0, length = 0, entries = 0; };

// The end record is the last thing in the file but for a comment whose length it states.
std::optional<uint64_t> FindEndRecord(Bytes file) {
  if (file.size() < kEndBytes) return std::nullopt;
  const uint64_t last = file.size() - kEndBytes;
  for (uint64_t back = 0; back <= std::min(last, kMaxComment); ++back) {
    const uint64_t at = last - back;
    if (Load<uint32_t>(file, at) == kEndSignature && Load<uint16_t>(file, at + 20) == back)
      return at;
  }
  return std::nullopt;
}

Result<Directory> FindDirectory(Bytes file) {
  const std::optional<uint64_t> end = FindEndRecord(file);
  if (!end)
    return DataLoss("not a zip archive, or truncated: no end-of-directory record in its {} bytes",
                    file.size());
  Directory directory{.offset = Load<uint32_t>(file, *end + 16),
                      .length = Load<uint32_t>(file, *end + 12),
                      .entries = Load<uint16_t>(file, *end + 10)};
  uint64_t limit = *end;
  if (*end >= kZip64LocatorBytes &&
      Load<uint32_t>(file, *end - kZip64LocatorBytes) == kZip64LocatorSignature) {
    const uint64_t locator = *end - kZip64LocatorBytes;
    const uint64_t record = Load<uint64_t>(file, locator + 8);
    if (!Contains(locator, record, kZip64EndBytes) ||
        Load<uint32_t>(file, record) != kZip64EndSignature)
      return DataLoss("zip64 end record at byte {} is missing or outside of the file ({} bytes)",
                      record, file.size());
    directory = {.offset = Load<uint64_t>(file, record + 48),
                 .length = Load<uint64_t>(file, record + 40),
                 .entries = Load<uint64_t>(file, record + 32)};
    limit = record;
  }
  if (!Contains(limit, directory.offset, directory.length))
    return DataLoss("zip directory (bytes {} + {}) lies outside of the file ({} bytes)",
                    directory.offset, directory.length, file.size());
  // A count that the directory's bytes cannot hold must not size anything.
  if (directory.entries > directory.length / kCentralBytes)
    return DataLoss("zip directory of {} bytes cannot hold {} entries", directory.length,
                    directory.entries);
  return directory;
}

// Replaces the fields that the 32-bit entry marks as too large, in the order the format fixes.
Status ReadZip64Extra(Bytes extra, std::string_view path, std::array<uint64_t*, 3> fields) {
  if (std::ranges::none_of(fields, [](uint64_t* field) { return *field == kInZip64; })) return {};
  for (uint64_t at = 0; Contains(extra.size(), at, 4);) {
    const uint16_t id = Load<uint16_t>(extra, at), length = Load<uint16_t>(extra, at + 2);
    at += 4;
    if (!Contains(extra.size(), at, length)) break;
    if (id == kZip64Extra) {
      const uint64_t end = at + length;
      for (uint64_t* field : fields) {
        if (*field != kInZip64) continue;
        if (!Contains(end, at, 8))
          return DataLoss("zip member `{}`: zip64 field is too short", path);
        *field = Load<uint64_t>(extra, at);
        at += 8;
      }
      return {};
    }
    at += length;
  }
  return {};  // no such field: then 0xFFFFFFFF is the value, and the range checks judge it
}

// Where a member starts (its local header) and ends, to find overlaps.
struct Extent {
  uint64_t begin, end;
  std::string_view path;
};

// Reads the directory entry at `at` and moves it past the entry.
Result<ZipMember> ReadEntry(Bytes file, const Directory& directory, uint64_t& at,
                            std::vector<Extent>& extents) {
  const uint64_t end = directory.offset + directory.length;
  if (!Contains(end, at, kCentralBytes) || Load<uint32_t>(file, at) != kCentralSignature)
    return DataLoss("zip directory entry {} at byte {} is truncated or corrupt", extents.size(),
                    at);
  const uint16_t flags = Load<uint16_t>(file, at + 8), method = Load<uint16_t>(file, at + 10);
  const uint64_t name_bytes = Load<uint16_t>(file, at + 28),
                 extra_bytes = Load<uint16_t>(file, at + 30),
                 comment_bytes = Load<uint16_t>(file, at + 32);
  if (!Contains(end, at, kCentralBytes + name_bytes + extra_bytes + comment_bytes))
    return DataLoss("zip directory entry {} at byte {} runs past the directory", extents.size(),
                    at);
  const std::string_view path = View(file, at + kCentralBytes, name_bytes);
  uint64_t stored = Load<uint32_t>(file, at + 20), length = Load<uint32_t>(file, at + 24),
           local = Load<uint32_t>(file, at + 42);
  LS_RETURN_IF_ERROR(ReadZip64Extra(file.subspan(at + kCentralBytes + name_bytes, extra_bytes),
                                    path, {&length, &stored, &local}));
  ZipMember member{.path = path, .data = {}, .crc32 = Load<uint32_t>(file, at + 16)};
  at += kCentralBytes + name_bytes + extra_bytes + comment_bytes;

  if (flags & kEncryptedFlag) return Unsupported("zip member `{}` is encrypted", path);
  if (method != 0)
    return Unsupported(
        "zip member `{}` is compressed (method {}): only stored members are read, as torch writes "
        "them",
        path, method);
  if (stored != length)
    return DataLoss("zip member `{}` is stored, yet its two sizes differ ({} and {})", path, stored,
                    length);
  // The local header has its own name and extra lengths: torch pads there to align the data.
  if (!Contains(directory.offset, local, kLocalBytes) ||
      Load<uint32_t>(file, local) != kLocalSignature)
    return DataLoss("zip member `{}`: no local header at byte {}", path, local);
  const uint64_t local_name_bytes = Load<uint16_t>(file, local + 26),
                 local_extra_bytes = Load<uint16_t>(file, local + 28);
  const uint64_t header_bytes = kLocalBytes + local_name_bytes + local_extra_bytes;
  if (!Contains(directory.offset, local, header_bytes) ||
      !Contains(directory.offset, local + header_bytes, length))
    return DataLoss("zip member `{}`: its {} bytes at {} run past the data of the file ({} bytes)",
                    path, length, local, file.size());
  if (View(file, local + kLocalBytes, local_name_bytes) != path)
    return DataLoss("zip member `{}`: the local header at byte {} has another name", path, local);
  member.data = file.subspan(local + header_bytes, length);
  extents.push_back({local, local + header_bytes + length, path});
  return member;
}

Status CheckDisjoint(std::vector<Extent>& extents) {
  std::ranges::sort(extents, {}, &Extent::begin);
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      return DataLoss("zip members `{}` and `{}` overlap", extents[i - 1].path, extents[i].path);
  return {};
}

// Slicing by 8: table[k][b] advances byte b past k more zero bytes.
constexpr std::array<std::array<uint32_t, 256>, 8> MakeCrcTables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte)
    for (size_t k = 1; k < 8; ++k)
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xFF];
  return tables;
}

uint32_t Crc32(Bytes bytes) {
  static constexpr auto kTables = MakeCrcTables();
  uint32_t crc = 0xFFFFFFFF;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint32_t low = crc ^ Load<uint32_t>(bytes, i), high = Load<uint32_t>(bytes, i + 4);
    crc = kTables[7][low & 0xFF] ^ kTables[6][(low >> 8) & 0xFF] ^ kTables[5][(low >> 16) & 0xFF] ^
          kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][(high >> 8) & 0xFF] ^
          kTables[1][(high >> 16) & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; i < bytes.size(); ++i)
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<uint32_t>(bytes[i])) & 0xFF];
  return ~crc;
}

}  // namespace

Result<ZipArchive> ZipArchive::Open(std::span<const std::byte> bytes) {
  LS_ASSIGN_OR_RETURN(const Directory directory, FindDirectory(bytes));
  ZipArchive zip;
  zip.members_.reserve(directory.entries);
  std::vector<Extent> extents;
  extents.reserve(directory.entries);
  uint64_t at = directory.offset;
  for (uint64_t entry = 0; entry < directory.entries; ++entry) {
    LS_ASSIGN_OR_RETURN(ZipMember member, ReadEntry(bytes, directory, at, extents));
    zip.members_.push_back(member);
  }
  LS_RETURN_IF_ERROR(CheckDisjoint(extents));
  if (zip.members_.empty()) return DataLoss("zip archive has no members");

  const std::string_view first = zip.members_.front().path;
  if (size_t slash = first.find('/'); slash != first.npos) zip.root_ = first.substr(0, slash);
  for (size_t i = 0; i < zip.members_.size(); ++i) {
    const std::string_view relative = zip.RelativePath(zip.members_[i]);
    if (relative.empty()) continue;
    if (!zip.by_relative_path_.emplace(relative, i).second)
      return DataLoss("zip member `{}` appears twice", zip.members_[i].path);
  }
  return zip;
}

const ZipMember* ZipArchive::Find(std::string_view path) const {
  auto found = by_relative_path_.find(path);
  return found == by_relative_path_.end() ? nullptr : &members_[found->second];
}

std::string_view ZipArchive::RelativePath(const ZipMember& member) const {
  if (root_.empty()) return member.path;
  if (member.path.size() <= root_.size() || !member.path.starts_with(root_) ||
      member.path[root_.size()] != '/')
    return {};
  return member.path.substr(root_.size() + 1);
}

Status ZipArchive::CheckCrc(const ZipMember& member) {
  const uint32_t found = Crc32(member.data);
  if (found == member.crc32) return {};
  return DataLoss("zip member `{}` is corrupt: its CRC-32 is {:08x}, the directory says {:08x}",
                  member.path, found, member.crc32);
}

}  // namespace liveshape::pt2
