// The observer behind base/observe.h, for executables: the CLI, the test binaries. Link the object library
// liveshape_interpose and say so once:
//
//   int main() { liveshape::InstallAllocationObserver(); ... }
//
// With glibc it stands before malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign, mmap and
// mremap; in a sanitizer build it uses the sanitizer's hooks (which do not see mmap; TSan's see
// malloc and operator new only); elsewhere it does nothing, and AllocationsObserved() stays false.
#pragma once

namespace liveshape {

void InstallAllocationObserver();  // may be called again

}  // namespace liveshape
