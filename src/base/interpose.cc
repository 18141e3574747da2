#include "base/interpose.h"

#include <cstddef>
#include <cstdlib>

#include "base/observe.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define LS_SANITIZER 1
#endif
#endif

#if defined(LS_SANITIZER)

// gcc 12 does not ship sanitizer/allocator_interface.h.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void*,
                                                                             size_t),
                                                         void (*free_hook)(const volatile void*));

namespace liveshape {

void InstallAllocationObserver() {
  static const bool installed =
      __sanitizer_install_malloc_and_free_hooks(
          [](const volatile void*, size_t bytes) { OnAllocation("allocation", bytes); },
          [](const volatile void*) {}) > 0;
  if (installed) AnnounceAllocationObserver();
}

}  // namespace liveshape

#elif defined(__GLIBC__)

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>

namespace liveshape {

void InstallAllocationObserver() { AnnounceAllocationObserver(); }

}  // namespace liveshape

// The real ones under glibc's own names, so that there is no dlsym, which allocates itself. The heap stays
// glibc's: free and malloc_usable_size need no substitute.
extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) noexcept {
  liveshape::OnAllocation("malloc", bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) noexcept {
  liveshape::OnAllocation("calloc", count * bytes);
  return __libc_calloc(count, bytes);
}

void* realloc(void* old, size_t bytes) noexcept {
  liveshape::OnAllocation("realloc", bytes);
  return __libc_realloc(old, bytes);
}

void* reallocarray(void* old, size_t count, size_t bytes) noexcept {
  size_t total;
  if (__builtin_mul_overflow(count, bytes, &total)) return errno = ENOMEM, nullptr;
  liveshape::OnAllocation("reallocarray", total);
  return __libc_realloc(old, total);
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  liveshape::OnAllocation("memalign", bytes);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  liveshape::OnAllocation("aligned_alloc", bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** out, size_t alignment, size_t bytes) noexcept {
  liveshape::OnAllocation("posix_memalign", bytes);
  if (alignment % sizeof(void*) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
    return EINVAL;
  const int before = errno;
  void* made = __libc_memalign(alignment, bytes);
  errno = before;
  if (made == nullptr) return ENOMEM;
  *out = made;
  return 0;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  liveshape::OnAllocation("mmap", bytes);
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, fd, offset));
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int fd,
             off64_t offset) noexcept {
  return mmap(address, bytes, protection, flags, fd, offset);
}

void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) noexcept {
  liveshape::OnAllocation("mremap", bytes);
  va_list rest;
  va_start(rest, flags);
  void* fixed = flags & MREMAP_FIXED ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  return reinterpret_cast<void*>(syscall(SYS_mremap, old, old_bytes, bytes, flags, fixed));
}

}  // extern "C"

#else

namespace liveshape {

void InstallAllocationObserver() {}

}  // namespace liveshape

#endif
