#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

namespace liveshape {
namespace {

TEST(ThreadPool, CoversEveryIndexOnceInMultiplesOfTheGrain) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t count : {0, 1, 2, 63, 64, 65, 1000, 4097}) {
      for (int64_t grain : {1, 7, 64, 5000}) {
        std::vector<std::atomic<int>> hits(count);
        std::atomic<bool> aligned{true};
        pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end, int worker) {
          if (begin % grain != 0 || (end != count && end % grain != 0)) aligned = false;
          if (worker < 0 || worker >= threads || begin >= end) aligned = false;
          for (int64_t i = begin; i < end; ++i) hits[i].fetch_add(1);
        });
        EXPECT_TRUE(aligned) << threads << " threads, " << count << " by " << grain;
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(hits[i].load(), 1) << i;
      }
    }
  }
}

// What a worker wrote is seen by the caller after ParallelFor, and by workers of the next call: checked
// with plain, unsynchronised memory (under tsan this is the test of the protocol).
TEST(ThreadPool, ManyShortCallsSynchronise) {
  ThreadPool pool(3);
  std::vector<int64_t> data(64, 0);
  for (int64_t round = 1; round <= 20000; ++round) {
    pool.ParallelFor(64, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) data[i] += i ^ round;
    });
    if (round % 5000 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(3));  // workers sleep
  }
  for (int64_t i = 0; i < 64; ++i) {
    int64_t expected = 0;
    for (int64_t round = 1; round <= 20000; ++round) expected += i ^ round;
    EXPECT_EQ(data[i], expected);
  }
}

TEST(ThreadPool, WorkersHelp) {
  ThreadPool pool(2);
  std::atomic<int> arrived{0};
  // Each half waits for the other: passes only if two threads are inside at once.
  pool.ParallelFor(2, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      arrived.fetch_add(1);
      while (arrived.load() < 2) std::this_thread::yield();
    }
  });
  EXPECT_EQ(arrived.load(), 2);
}

#if defined(__linux__)
// A sleeping worker may not be woken on the core of the caller, which is busy; awake it may run wherever it could. Where
// there is one core, or a sandbox denies a process its own mask, it keeps them all.
TEST(ThreadPool, SleepingWorkersKeepAwayFromTheCaller) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const bool may_move = CPU_COUNT(&mine) > 1 && sched_setaffinity(0, sizeof mine, &mine) == 0;
  const int cores_asleep = CPU_COUNT(&mine) - (may_move ? 1 : 0);
  constexpr int kThreads = 3;
  ThreadPool pool(kThreads);
  for (int round = 0; round < 10; ++round) {
    std::array<pid_t, kThreads> ids;
    std::array<cpu_set_t, kThreads> theirs;
    std::atomic<int> arrived{0};
    pool.ParallelFor(kThreads, 1, [&](int64_t, int64_t, int worker) {
      ids[static_cast<size_t>(worker)] = gettid();
      sched_getaffinity(0, sizeof(cpu_set_t), &theirs[static_cast<size_t>(worker)]);
      arrived.fetch_add(1);
      while (arrived.load() < kThreads) std::this_thread::yield();
    });
    for (const cpu_set_t& its : theirs) EXPECT_TRUE(CPU_EQUAL(&its, &mine)) << "round " << round;
    for (int worker = 1; worker < kThreads; ++worker) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
      cpu_set_t its;
      do {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ASSERT_EQ(sched_getaffinity(ids[static_cast<size_t>(worker)], sizeof its, &its), 0);
      } while (CPU_COUNT(&its) != cores_asleep && std::chrono::steady_clock::now() < end);
      ASSERT_EQ(CPU_COUNT(&its), cores_asleep) << "round " << round;
    }
  }
}
#endif

TEST(ThreadPool, PoolsLiveSideBySide) {
  std::vector<std::thread> sessions;
  std::atomic<int64_t> total{0};
  for (int s = 0; s < 3; ++s) {
    sessions.emplace_back([&] {
      ThreadPool pool(2);
      for (int round = 0; round < 200; ++round) {
        pool.ParallelFor(100, 3, [&](int64_t begin, int64_t end, int) { total += end - begin; });
      }
    });
  }
  for (std::thread& session : sessions) session.join();
  EXPECT_EQ(total.load(), 3 * 200 * 100);
}

}  // namespace
}  // namespace liveshape
