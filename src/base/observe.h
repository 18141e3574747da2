// Allocations seen while a session binds or runs (X1). Counting is real or it is not claimed: the
// counters move only if an observer is linked into the process (the CLI and the test binaries link
// base/interpose.cc; sanitizer builds use the sanitizer's hooks).
//
//   AllocationScope scope;                   // this thread is inside bind or run
//   ...                                      // every malloc, mmap ... of this thread is counted
//   scope.count();
//
// Worker threads of the pool inherit the scope of the run that they serve:
//
//   void* frame = CurrentAllocationFrame();  // on the thread that hands out work
//   SetAllocationFrame(frame);               // on the worker, while it works; null afterwards
//
// Scopes nest: an allocation counts in each of them. A scope outlives the work handed to others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace liveshape {

// True once an observer has announced itself.
bool AllocationsObserved();

struct AllocationFrame {
  std::atomic<uint64_t> count{0};
  AllocationFrame* parent = nullptr;
  bool strict = false;
  std::atomic<const char*> first_function{nullptr};  // the first allocation, for the message
  std::atomic<size_t> first_bytes{0};
};

class AllocationScope {
 public:
  // strict: an allocation inside the scope prints `what` it was (malloc 4096 bytes ...) and aborts.
  explicit AllocationScope(bool strict = false);
  ~AllocationScope();
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;
  uint64_t count() const { return frame_.count.load(std::memory_order_relaxed); }
  const char* first_function() const {
    return frame_.first_function.load(std::memory_order_relaxed);
  }
  size_t first_bytes() const { return frame_.first_bytes.load(std::memory_order_relaxed); }

 private:
  AllocationFrame frame_;
};

// Suspends counting on this thread, e.g. while an error message is built.
class AllocationPause {
 public:
  AllocationPause();
  ~AllocationPause();
  AllocationPause(const AllocationPause&) = delete;
  AllocationPause& operator=(const AllocationPause&) = delete;
};

// For the thread pool: see above. The frame is opaque; null means "in no scope".
void* CurrentAllocationFrame();
void SetAllocationFrame(void* frame);

// Called by observers only.
void AnnounceAllocationObserver();
void OnAllocation(const char* function, size_t bytes);

}  // namespace liveshape
