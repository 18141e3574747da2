// For tests: writes zip archives, good and bad, one field at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace liveshape::pt2 {

class ZipBuilder {
 public:
  // What a member's records say; by default the truth. A test overwrites what it wants to lie about.
  struct Entry {
    std::string name, data;
    bool data_descriptor =
        false;           // as torch writes: sizes 0 in the local header, and after the data
    bool zip64 = false;  // sizes and offset in the extra field
    uint16_t method = 0, flags = 0;
    std::string local_name;     // if not empty, instead of name
    std::string local_padding;  // extra field of the local header
    int64_t size_lie = -1;      // if not negative, instead of data.size(), in the directory
    int64_t offset_lie = -1;    // likewise, of the local header
    int64_t crc = -1;           // likewise; computed if negative
  };

  ZipBuilder& Add(std::string name, std::string data) {
    Entry entry;
    entry.name = std::move(name);
    entry.data = std::move(data);
    return Add(std::move(entry));
  }

  ZipBuilder& Add(Entry entry) {
    const std::string& local_name = entry.local_name.empty() ? entry.name : entry.local_name;
    const uint64_t local = out_.size();
    const uint32_t crc = entry.crc < 0 ? Crc(entry.data) : static_cast<uint32_t>(entry.crc);
    const uint32_t size = entry.data_descriptor ? 0 : static_cast<uint32_t>(entry.data.size());
    const uint16_t flags = entry.flags | (entry.data_descriptor ? 0x0808 : 0);
    Put(out_, 4, 0x04034b50), Put(out_, 2, 20), Put(out_, 2, flags), Put(out_, 2, entry.method);
    Put(out_, 4, 0), Put(out_, 4, entry.data_descriptor ? 0 : crc), Put(out_, 4, size);
    Put(out_, 4, size), Put(out_, 2, local_name.size()), Put(out_, 2, entry.local_padding.size());
    out_ += local_name + entry.local_padding + entry.data;
    if (entry.data_descriptor)
      Put(out_, 4, 0x08074b50), Put(out_, 4, crc), Put(out_, 8, entry.data.size()), Put(out_, 8, 0);

    const uint64_t stated =
        entry.size_lie < 0 ? entry.data.size() : static_cast<uint64_t>(entry.size_lie);
    const uint64_t offset = entry.offset_lie < 0 ? local : static_cast<uint64_t>(entry.offset_lie);
    std::string extra;
    if (entry.zip64)
      Put(extra, 2, 1), Put(extra, 2, 24), Put(extra, 8, stated), Put(extra, 8, stated),
          Put(extra, 8, offset);
    const uint64_t in_zip64 = 0xFFFFFFFF;
    Put(directory_, 4, 0x02014b50), Put(directory_, 2, 20), Put(directory_, 2, 20),
        Put(directory_, 2, flags);
    Put(directory_, 2, entry.method), Put(directory_, 4, 0), Put(directory_, 4, crc);
    Put(directory_, 4, entry.zip64 ? in_zip64 : stated),
        Put(directory_, 4, entry.zip64 ? in_zip64 : stated);
    Put(directory_, 2, entry.name.size()), Put(directory_, 2, extra.size()), Put(directory_, 2, 0);
    Put(directory_, 2, 0), Put(directory_, 2, 0), Put(directory_, 4, 0);
    Put(directory_, 4, entry.zip64 ? in_zip64 : offset);
    directory_ += entry.name + extra;
    ++entries_;
    return *this;
  }

  // `entries_lie`, if not negative, is the number of entries that the end record states.
  std::string Finish(bool zip64 = false, int64_t entries_lie = -1,
                     std::string_view comment = "") const {
    std::string file = out_ + directory_;
    const uint64_t entries = entries_lie < 0 ? entries_ : static_cast<uint64_t>(entries_lie),
                   end = file.size();
    if (zip64) {
      Put(file, 4, 0x06064b50), Put(file, 8, 44), Put(file, 2, 45), Put(file, 2, 45),
          Put(file, 4, 0), Put(file, 4, 0);
      Put(file, 8, entries), Put(file, 8, entries), Put(file, 8, directory_.size()),
          Put(file, 8, out_.size());
      Put(file, 4, 0x07064b50), Put(file, 4, 0), Put(file, 8, end), Put(file, 4, 1);
    }
    const uint64_t mark16 = 0xFFFF, mark32 = 0xFFFFFFFF;
    Put(file, 4, 0x06054b50), Put(file, 2, 0), Put(file, 2, 0);
    Put(file, 2, zip64 ? mark16 : entries), Put(file, 2, zip64 ? mark16 : entries);
    Put(file, 4, zip64 ? mark32 : directory_.size()), Put(file, 4, zip64 ? mark32 : out_.size());
    Put(file, 2, comment.size());
    return file.append(comment);
  }

  static void Put(std::string& to, int bytes, uint64_t value) {
    for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i));
  }

  // Bit by bit: shares nothing with the table code it checks.
  static uint32_t Crc(std::string_view text) {
    uint32_t crc = 0xFFFFFFFF;
    for (unsigned char c : text) {
      crc ^= c;
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
    }
    return ~crc;
  }

 private:
  std::string out_, directory_;
  uint64_t entries_ = 0;
};

// The bytes of `text`; a named string, since the archive points into it.
inline std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace liveshape::pt2
