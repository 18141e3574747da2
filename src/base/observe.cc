#include "base/observe.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#if __has_include(<execinfo.h>) && !defined(__wasi__)
#include <execinfo.h>
#define LS_HAS_BACKTRACE 1
#endif

namespace liveshape {
namespace {

std::atomic<bool> observed{false};

// Constant-initialised, so that malloc may look at them on a thread that has only just begun.
constinit thread_local AllocationFrame* current = nullptr;
constinit thread_local int paused = 0;

// Without stdio, which allocates.
class Line {
 public:
  Line& operator<<(const char* text) {
    const size_t n = std::min(std::strlen(text), sizeof(buffer_) - used_);
    std::memcpy(buffer_ + used_, text, n);
    used_ += n;
    return *this;
  }
  Line& operator<<(size_t value) {
    char digits[24];
    char* at = digits + sizeof(digits) - 1;
    *at = '\0';
    do *--at = static_cast<char>('0' + value % 10);
    while ((value /= 10) != 0);
    return *this << at;
  }
  void Write() const {
    for (size_t done = 0; done < used_;) {
      const ssize_t n = write(STDERR_FILENO, buffer_ + done, used_ - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }

 private:
  char buffer_[256];
  size_t used_ = 0;
};

[[noreturn]] void AbortOnAllocation(const char* function, size_t bytes) {
  ++paused;  // what follows may allocate; it is the end anyway
  Line line;
  line << "liveshape: strict: " << function << " of " << bytes
       << " bytes inside bind or run; nothing may be allocated after load (X1)\n";
  line.Write();
#if defined(LS_HAS_BACKTRACE)
  void* stack[32];
  backtrace_symbols_fd(stack, backtrace(stack, 32), STDERR_FILENO);
#endif
  std::abort();
}

}  // namespace

bool AllocationsObserved() { return observed.load(std::memory_order_relaxed); }
void AnnounceAllocationObserver() { observed.store(true, std::memory_order_relaxed); }

AllocationScope::AllocationScope(bool strict) {
  frame_.parent = current;
  frame_.strict = strict;
  current = &frame_;
}
AllocationScope::~AllocationScope() { current = frame_.parent; }

AllocationPause::AllocationPause() { ++paused; }
AllocationPause::~AllocationPause() { --paused; }

void* CurrentAllocationFrame() { return current; }
void SetAllocationFrame(void* frame) { current = static_cast<AllocationFrame*>(frame); }

void OnAllocation(const char* function, size_t bytes) {
  if (current == nullptr || paused != 0) return;
  for (AllocationFrame* frame = current; frame != nullptr; frame = frame->parent) {
    if (frame->count.fetch_add(1, std::memory_order_relaxed) == 0) {
      frame->first_function.store(function, std::memory_order_relaxed);
      frame->first_bytes.store(bytes, std::memory_order_relaxed);
    }
    if (frame->strict) AbortOnAllocation(function, bytes);
  }
}

}  // namespace liveshape
