// Memory that is reserved at the maximum and touched at the live shape, and files seen through a map.
//
//   LS_ASSIGN_OR_RETURN(Reservation arena, Reservation::Make(plan.arena_bytes));
//   Use(arena.data());                       // zero pages until touched; the address never moves
//   arena.Resident();                        // bytes that are physical now
//   arena.Release(live_end, arena.size());   // give pages back, keep the address (trim)
//
//   LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open("model.live"));   // shared_ptr: an owner for spans
//   file->bytes();
//
// On a platform without mmap both fall back to plain allocation, and Resident() is size().
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"

namespace liveshape {

class Reservation {
 public:
  static Result<Reservation> Make(size_t bytes);  // rounded up to pages; 0 is legal
  Reservation() = default;
  Reservation(Reservation&& other) noexcept { *this = std::move(other); }
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  size_t Resident() const;
  // Drops the physical pages that lie wholly inside [begin, end); they read as zero afterwards.
  void Release(size_t begin, size_t end);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  // The pages of this range were read and will not be needed soon: lets a compile of a large model keep
  // its resident set near one copy of the weights.
  void Forget(std::span<const std::byte> range) const;

 private:
  MappedFile() = default;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// Writes beside `path`, then renames: nothing is ever half-written. Where the file system can, what is written has no
// name until it is whole, so that a process that is killed leaves nothing behind.
//   AtomicFile file; LS_RETURN_IF_ERROR(file.Create(path)); file.Write(bytes); return file.Commit();
class AtomicFile {
 public:
  AtomicFile() = default;
  ~AtomicFile();  // removes the temporary unless committed
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  Status Create(const std::string& path);
  Status Write(std::span<const std::byte> bytes);
  Status PadTo(size_t alignment);
  size_t offset() const { return offset_; }
  Status Commit();

 private:
  // Finds a temporary name that `make` can make; it returns 0 or an errno.
  template <typename Make>
  int MakeTemporary(Make&& make);
  std::string path_, temporary_;  // no temporary name yet: an unnamed file
  int fd_ = -1;
  size_t offset_ = 0;
};

}  // namespace liveshape
