#include "base/thread_pool.h"

#include "base/observe.h"
#include "base/status.h"

#if !defined(__wasi__)
#define LS_THREADS 1
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif
#else
#define LS_THREADS 0
#endif

namespace liveshape {

#if LS_THREADS
namespace {

void CpuRelax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// 0.2 to 0.5 ms of `pause`, then the thread sleeps in a futex. That covers what a caller does between two runs (a step
// of decoding, the next batch), not only the gap between two kernels: a worker that sleeps is woken in 5-50 us on an
// idle machine, and on a busy one is queued behind the caller, so that short runs end before it comes. A run does not
// wait for workers that have not come (see `state`).
constexpr int kSpins = 8000;
// A caller that waits for workers inside: some ms of that, yielding in between to one that has no core of its own.
constexpr int kTurns = 20;

// While it lives, the thread that made it may not run on `core`, and leaves it at once. Whoever wakes a sleeping worker
// stays busy on its own core; schedulers queue the worker behind it all the same, on two cores most of the time, and see
// only tens of ms later that another core is idle. Runs of 0.4 ms after pauses of 10 ms had one thread then, not two.
//
// A mask that somebody else sets meanwhile stays, with two limits. One that is just what the sleeper has (every core but
// `core`) is taken for ours and undone. And where a cpuset changes, the thread keeps its request for all but `core`, even if
// the cpuset holds `core` later. Nothing tells who set a mask, and the caller's says nothing about its workers: it may have
// pinned itself alone.
#if defined(__linux__)
class AwayFrom {
 public:
  explicit AwayFrom(int core) {
    if (core < 0 || sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return;
    others_ = allowed_;
    CPU_CLR(core, &others_);
    moved_ = sched_setaffinity(0, sizeof others_, &others_) == 0;  // fails if there are no others
  }
  ~AwayFrom() {
    cpu_set_t now;
    if (moved_ && sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &others_))
      sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  static int Here() { return sched_getcpu(); }

 private:
  cpu_set_t allowed_, others_;
  bool moved_ = false;
};
#else
class AwayFrom {
 public:
  explicit AwayFrom(int) {}
  ~AwayFrom() {}  // not trivial: what lives for this alone is used
  static int Here() { return -1; }
};
#endif

// `state`: job number in the high half, kClosed, and how many workers are inside. A worker may enter
// while the job is open, by one compare-exchange; the caller closes the job when nothing is left to
// claim and waits only for those inside. So the fields of a job are never written while one may read them.
constexpr uint32_t kClosed = 1u << 15;
constexpr uint32_t kInside = kClosed - 1;
constexpr uint32_t kJob = ~(kClosed | kInside);
constexpr uint32_t kOneJob = 1u << 16;

}  // namespace

struct ThreadPool::Impl {
  alignas(64) std::atomic<uint32_t> state{kClosed};
  alignas(64) std::atomic<uint32_t> opened{0};  // jobs so far: what idle workers sleep on
  // A worker claims its own stretch of the chunks first, then what others have left of theirs: what it had in its caches
  // after the last kernel, or the last run, it gets again.
  struct alignas(64) Stretch { std::atomic<int64_t> next{0}; };  // first chunk not claimed
  std::vector<Stretch> stretches;                                // by worker
  std::atomic<bool> stop{false};
  std::atomic<int> caller_core{-1};  // of the last job
  std::atomic<int> came{0};          // workers so far
  bool spin = true;

  int64_t count = 0;
  int64_t grain = 0, grains = 0, chunks = 0;
  Trampoline call = nullptr;
  void* body = nullptr;
  void* allocation_frame = nullptr;  // workers' allocations count for the run that they serve

  std::vector<std::thread> workers;

  int64_t FirstOf(int64_t chunk) const { return std::min(grains * chunk / chunks * grain, count); }
  int64_t FirstChunk(size_t stretch) const {
    return static_cast<int64_t>(stretch) * chunks / static_cast<int64_t>(stretches.size());
  }

  void RunChunks(int worker) {
    for (size_t i = 0; i < stretches.size(); ++i) {
      const size_t stretch = (static_cast<size_t>(worker) + i) % stretches.size();
      const int64_t end = FirstChunk(stretch + 1);
      for (;;) {
        const int64_t at = stretches[stretch].next.fetch_add(1, std::memory_order_relaxed);
        if (at >= end) break;
        call(body, FirstOf(at), FirstOf(at + 1), worker);
      }
    }
  }

  // Looks once in any case.
  template <typename Done>
  bool Spin(std::atomic<uint32_t>& word, Done done) {
    for (int i = 0; i == 0 || (spin && i < kSpins); ++i) {
      if (done(word.load(std::memory_order_acquire))) return true;
      CpuRelax();
    }
    return false;
  }
  template <typename Done>
  void Sleep(std::atomic<uint32_t>& word, Done done) {
    for (uint32_t v; !done(v = word.load(std::memory_order_acquire));) word.wait(v);
  }

  bool Enter() {
    uint32_t seen = state.load(std::memory_order_acquire);
    while (!(seen & kClosed)) {
      if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
    }
    return false;
  }

  void Leave() {
    const uint32_t before = state.fetch_sub(1, std::memory_order_release);
    if ((before & kClosed) && (before & kInside) == 1) state.notify_one();
  }

  void LeaveCaller() {
    const int core = caller_core.load(std::memory_order_relaxed);
    if (spin && core == AwayFrom::Here()) AwayFrom leave(core);
  }

  void Work(int worker) {
    LeaveCaller();
    came.fetch_add(1, std::memory_order_release);
    for (uint32_t seen = 0;;) {
      const auto next = [&](uint32_t now) { return now != seen; };
      if (!Spin(opened, next)) {
        const AwayFrom caller(caller_core.load(std::memory_order_relaxed));
        Sleep(opened, next);
      }
      seen = opened.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_acquire)) return;
      LeaveCaller();  // which was stopped and continued together with it, say
      if (!Enter()) continue;
      SetAllocationFrame(allocation_frame);
      RunChunks(worker);
      SetAllocationFrame(nullptr);
      Leave();
    }
  }
};

ThreadPool::ThreadPool(int threads) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  size_ = threads > 0 ? threads : cores;
  LS_CHECK(size_ < static_cast<int>(kInside));
  if (size_ == 1) return;
  impl_ = std::make_unique<Impl>();
  impl_->spin = size_ <= cores;  // spinning on a core that another worker needs helps nobody
  impl_->stretches = std::vector<Impl::Stretch>(static_cast<size_t>(size_));
  impl_->workers.reserve(size_ - 1);
  impl_->caller_core.store(AwayFrom::Here(), std::memory_order_relaxed);
  for (int w = 1; w < size_; ++w) impl_->workers.emplace_back([this, w] { impl_->Work(w); });
  // They begin on this core and leave it at once if they get to run: the first jobs would be over before they did.
  for (int i = 0; i < kTurns && impl_->came.load(std::memory_order_acquire) < size_ - 1; ++i)
    std::this_thread::yield();
}

ThreadPool::~ThreadPool() {
  if (!impl_) return;
  impl_->stop.store(true, std::memory_order_release);
  impl_->opened.fetch_add(1, std::memory_order_release);
  impl_->opened.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

void ThreadPool::Dispatch(int64_t count, int64_t grain, Trampoline call, void* body) {
  Impl& job = *impl_;
  const uint32_t closed = job.state.load(std::memory_order_acquire);
  LS_CHECK((closed & (kClosed | kInside)) == kClosed);  // ParallelFor does not nest
  grain = std::max<int64_t>(grain, 1);
  // Four claims a thread even out workers that come late. They are as long as one another to a grain, so that nobody waits
  // for the other's last: in claims of 4, 38 blocks of a convolution were 20 for one of two threads and 18 for the other.
  job.grain = grain;
  job.grains = (count + grain - 1) / grain;
  job.chunks = std::min<int64_t>(job.grains, int64_t{4} * size_);
  job.count = count;
  job.call = call;
  job.body = body;
  job.allocation_frame = CurrentAllocationFrame();
  job.caller_core.store(AwayFrom::Here(), std::memory_order_relaxed);
  for (size_t i = 0; i < job.stretches.size(); ++i)
    job.stretches[i].next.store(job.FirstChunk(i), std::memory_order_relaxed);
  job.state.store((closed + kOneJob) & kJob, std::memory_order_release);
  job.opened.fetch_add(1, std::memory_order_release);
  job.opened.notify_all();

  job.RunChunks(0);

  job.state.fetch_or(kClosed, std::memory_order_acq_rel);
  const auto left = [](uint32_t now) { return (now & kInside) == 0; };
  // A worker that wakes its caller has it put on its own core, where the next job begins with one of them waiting.
  for (int i = 0; i < kTurns; ++i, std::this_thread::yield())
    if (job.Spin(job.state, left)) return;
  job.Sleep(job.state, left);
}

#else  // one thread: everything runs on the caller

struct ThreadPool::Impl {};
ThreadPool::ThreadPool(int) {}
ThreadPool::~ThreadPool() = default;
void ThreadPool::Dispatch(int64_t count, int64_t, Trampoline call, void* body) {
  call(body, 0, count, 0);
}

#endif

}  // namespace liveshape
