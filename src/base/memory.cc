#include "base/memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if !defined(__wasi__)
#include <sys/mman.h>
#endif

namespace liveshape {
namespace {

std::string Reason(int error) { return std::strerror(error); }

#if defined(__wasi__)
// No mmap: plain zeroed memory, all of it resident. Pages are a fiction kept for Release's contract.
constexpr size_t kPage = 4096;
size_t PageSize() { return kPage; }
#else
size_t PageSize() {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return page;
}
#endif

// The pages that lie wholly inside [begin, end) of a mapping that starts on a page.
struct PageRange {
  size_t begin, end;
  bool empty() const { return begin >= end; }
};
PageRange WholePages(size_t begin, size_t end) {
  const size_t mask = PageSize() - 1;
  return {begin > SIZE_MAX - mask ? end : (begin + mask) & ~mask, end & ~mask};
}

}  // namespace

Result<Reservation> Reservation::Make(size_t bytes) {
  Reservation made;
  if (bytes == 0) return made;
  const size_t page = PageSize();
  if (bytes > SIZE_MAX - page)
    return ResourceExhausted("cannot reserve {} bytes: more than the address space", bytes);
  const size_t size = (bytes + page - 1) / page * page;
#if defined(__wasi__)
  void* data = std::aligned_alloc(page, size);
  if (data == nullptr) return ResourceExhausted("cannot allocate {} bytes of arena", size);
  std::memset(data, 0, size);
#else
  void* data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) {
    return ResourceExhausted(
        "cannot reserve {} bytes of address space: {} (compile with a smaller --bound, or raise "
        "ulimit -v)",
        size, Reason(errno));
  }
  // A huge page would make 2 MB resident for one live row (X5). Not fatal: a kernel without them says
  // EINVAL.
#if defined(MADV_NOHUGEPAGE)
  (void)madvise(data, size, MADV_NOHUGEPAGE);
#endif
#endif
  made.data_ = static_cast<std::byte*>(data);
  made.size_ = size;
  return made;
}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Reservation::~Reservation() {
  if (data_ == nullptr) return;
#if defined(__wasi__)
  std::free(data_);
#else
  munmap(data_, size_);
#endif
}

#if !defined(__wasi__)
namespace {

// Above this mincore is too slow: it looks at every page, and of 100 TB that takes a minute.
constexpr size_t kFewPages = size_t{256} << 30;

// Physical bytes of mappings that overlap [begin, end), by the kernel's own count, which skips what nobody touched;
// `none` where it cannot be read. A neighbour that the kernel merged with the mapping counts too. Through the stack:
// this may be asked inside an allocation scope.
size_t ResidentBySmaps(uintptr_t begin, uintptr_t end, size_t none) {
  const int fd = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return none;
  char buffer[8192];
  size_t have = 0, total = 0;
  bool inside = false;
  for (ssize_t got; (got = read(fd, buffer + have, sizeof(buffer) - 1 - have)) > 0;) {
    have += static_cast<size_t>(got);
    buffer[have] = 0;
    char* line = buffer;
    for (char* stop; (stop = std::strchr(line, '\n')) != nullptr; line = stop + 1) {
      unsigned long long first = 0, last = 0, kilobytes = 0;
      if (std::sscanf(line, "%llx-%llx ", &first, &last) == 2)
        inside = first < end && last > begin;
      else if (inside && std::sscanf(line, "Rss: %llu kB", &kilobytes) == 1)
        total += kilobytes * 1024;
    }
    have -= static_cast<size_t>(line - buffer);
    if (have == sizeof(buffer) - 1) have = 0;  // no line of interest is so long
    std::memmove(buffer, line, have);
  }
  close(fd);
  return total;
}

}  // namespace
#endif

size_t Reservation::Resident() const {
#if defined(__wasi__)
  return size_;
#else
  if (size_ > kFewPages) {
    const auto begin = reinterpret_cast<uintptr_t>(data_);
    return std::min(size_, ResidentBySmaps(begin, begin + size_, size_));
  }
  // In pieces through the stack: this may be asked inside an allocation scope.
  unsigned char resident[4096];
  const size_t page = PageSize();
  size_t pages = 0;
  for (size_t at = 0; at < size_; at += sizeof(resident) * page) {
    const size_t length = std::min(size_ - at, sizeof(resident) * page);
    if (mincore(data_ + at, length, resident) != 0) return size_;
    for (size_t i = 0; i < length / page; ++i) pages += resident[i] & 1;
  }
  return pages * page;
#endif
}

void Reservation::Release(size_t begin, size_t end) {
  const PageRange pages = WholePages(begin, std::min(end, size_));
  if (pages.empty()) return;
#if defined(__wasi__)
  std::memset(data_ + pages.begin, 0, pages.end - pages.begin);
#else
  LS_CHECK(madvise(data_ + pages.begin, pages.end - pages.begin, MADV_DONTNEED) == 0);
#endif
}

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kInvalidArgument;
    return Status(code, fmt::format("cannot open `{}`: {}", path, Reason(errno)));
  }
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};

  struct stat info;
  if (fstat(fd, &info) != 0) return InvalidArgument("cannot stat `{}`: {}", path, Reason(errno));
  if (!S_ISREG(info.st_mode))
    return InvalidArgument("`{}` is not a regular file: it cannot be mapped", path);
  if (static_cast<uint64_t>(info.st_size) > SIZE_MAX)
    return ResourceExhausted("`{}` has {} bytes: more than the address space", path, info.st_size);

  std::shared_ptr<MappedFile> file(new MappedFile());
  const size_t size = static_cast<size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(std::move(file));
#if defined(__wasi__)
  // Page-aligned, so that 64-byte aligned segments of the file stay aligned.
  auto* data =
      static_cast<std::byte*>(std::aligned_alloc(kPage, (size + kPage - 1) / kPage * kPage));
  if (data == nullptr) return ResourceExhausted("cannot allocate {} bytes for `{}`", size, path);
  file->data_ = data;
  for (size_t done = 0; done < size;) {
    const ssize_t n = read(fd, data + done, size - done);
    if (n == 0) return DataLoss("`{}` shrank while it was read", path);
    if (n < 0) return DataLoss("cannot read `{}`: {}", path, Reason(errno));
    done += static_cast<size_t>(n);
  }
#else
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED)
    return ResourceExhausted("cannot map {} bytes of `{}`: {}", size, path, Reason(errno));
  file->data_ = static_cast<const std::byte*>(data);
#endif
  file->size_ = size;
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
#if defined(__wasi__)
  std::free(const_cast<std::byte*>(data_));
#else
  munmap(const_cast<std::byte*>(data_), size_);
#endif
}

void MappedFile::Forget(std::span<const std::byte> range) const {
#if !defined(__wasi__)
  if (range.empty()) return;
  const size_t begin = static_cast<size_t>(range.data() - data_);
  LS_CHECK(range.data() >= data_ && begin <= size_ && range.size() <= size_ - begin);
  const PageRange pages = WholePages(begin, begin + range.size());
  if (pages.empty()) return;
  // Clean pages of a read-only private map come back from the file when they are read again.
  (void)madvise(const_cast<std::byte*>(data_) + pages.begin, pages.end - pages.begin,
                MADV_DONTNEED);
#endif
}

namespace {

std::string NameOfOpenFile(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

// A file in the folder of `path` that has no name; negative where that, or naming it later, cannot be done.
int OpenUnnamed([[maybe_unused]] const std::string& path) {
#if defined(O_TMPFILE)
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  const int fd = open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0 || access(NameOfOpenFile(fd).c_str(), F_OK) == 0) return fd;
  close(fd);
#endif
  return -1;
}

}  // namespace

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

template <typename Make>
int AtomicFile::MakeTemporary(Make&& make) {
#if defined(__wasi__)
  const long id = 0;
#else
  const long id = getpid();
#endif
  int error = EEXIST;
  for (int attempt = 0; error == EEXIST && attempt < 1000; ++attempt) {
    temporary_ = fmt::format("{}.{}-{}.tmp", path_, id, attempt);
    error = make();
  }
  return error;
}

Status AtomicFile::Create(const std::string& path) {
  LS_CHECK(fd_ < 0);
  // A rename would replace a device or a pipe by a file: `-o /dev/null` as root must not.
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return InvalidArgument("cannot write `{}`: it exists and is not a regular file", path);

  path_ = path;
  temporary_.clear();
  offset_ = 0;
  if ((fd_ = OpenUnnamed(path)) >= 0) return {};
  const int error = MakeTemporary([&] {
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return fd_ < 0 ? errno : 0;
  });
  if (error != 0) return InvalidArgument("cannot create `{}`: {}", temporary_, Reason(error));
  return {};
}

Status AtomicFile::Write(std::span<const std::byte> bytes) {
  LS_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    // Linux writes at most 2 GiB - 4 KiB a call.
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return ResourceExhausted("cannot write {} bytes at offset {} of `{}`: {}", bytes.size(),
                               offset_, path_, Reason(errno));
    }
    offset_ += static_cast<size_t>(n);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status AtomicFile::PadTo(size_t alignment) {
  static constexpr std::byte kZeros[4096] = {};
  size_t missing = (alignment - offset_ % alignment) % alignment;
  while (missing > 0) {
    const size_t n = std::min(missing, sizeof(kZeros));
    LS_RETURN_IF_ERROR(Write({kZeros, n}));
    missing -= n;
  }
  return {};
}

Status AtomicFile::Commit() {
  LS_CHECK(fd_ >= 0);
  if (temporary_.empty()) {
    const int error = MakeTemporary([&] {
      return linkat(AT_FDCWD, NameOfOpenFile(fd_).c_str(), AT_FDCWD, temporary_.c_str(),
                    AT_SYMLINK_FOLLOW) < 0
                 ? errno
                 : 0;
    });
    if (error != 0) {
      close(std::exchange(fd_, -1));
      return InvalidArgument("cannot create `{}`: {}", temporary_, Reason(error));
    }
  }
  const int fd = std::exchange(fd_, -1);
  // close reports what a network file system could not write.
  const bool closed = close(fd) == 0;
  if (!closed || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    Status failed = ResourceExhausted("cannot finish `{}`: {}", path_, Reason(errno));
    unlink(temporary_.c_str());
    return failed;
  }
  return {};
}

}  // namespace liveshape
