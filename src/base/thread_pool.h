// One pool a session; work is split by live work, nothing is spawned or allocated per call.
//
//   ThreadPool pool(2);                                    // the caller plus one worker
//   pool.ParallelFor(rows, /*grain=*/64, [&](int64_t begin, int64_t end, int worker) {
//     for (int64_t r = begin; r < end; ++r) Softmax(r);
//   });
//
// `body` gets disjoint ranges that cover [0, count); each range is a multiple of `grain` long except the
// last. Which worker runs which range varies, so a kernel must not let its result depend on the split:
// that is how results stay independent of the thread count. `worker` is in [0, size()) and indexes
// per-worker scratch. Without threads (wasm) everything runs on the caller. ParallelFor does not nest.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace liveshape {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // 0: one per core
  ~ThreadPool();
  int size() const { return size_; }

  template <typename Body>
  void ParallelFor(int64_t count, int64_t grain, Body&& body) {
    if (count <= 0) return;
    if (size_ == 1 || count <= grain) return static_cast<void>(body(int64_t{0}, count, 0));
    Dispatch(
        count, grain,
        [](void* b, int64_t begin, int64_t end, int worker) {
          (*static_cast<std::remove_reference_t<Body>*>(b))(begin, end, worker);
        },
        &body);
  }

 private:
  using Trampoline = void (*)(void* body, int64_t begin, int64_t end, int worker);
  void Dispatch(int64_t count, int64_t grain, Trampoline call, void* body);

  int size_ = 1;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace liveshape
