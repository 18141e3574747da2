// A lock for the few places that need one; without threads (wasm) it is nothing.
//
//   MutexLock lock(mutex_);
#pragma once

#if !defined(__wasi__)
#include <mutex>
#endif

namespace liveshape {

#if defined(__wasi__)
struct Mutex {};
struct MutexLock {
  explicit MutexLock(Mutex&) {}
};
#else
using Mutex = std::mutex;
using MutexLock = std::lock_guard<std::mutex>;
#endif

}  // namespace liveshape
