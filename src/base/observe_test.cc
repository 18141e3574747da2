#include "base/observe.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstdlib>
#include <thread>

#include "base/interpose.h"

namespace liveshape {
namespace {

#if defined(__has_feature)
#define LS_FEATURE(x) __has_feature(x)
#else
#define LS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || LS_FEATURE(thread_sanitizer)
constexpr bool kThreadSanitizer = true, kSanitizer = true;
#elif defined(__SANITIZE_ADDRESS__) || LS_FEATURE(address_sanitizer)
constexpr bool kThreadSanitizer = false, kSanitizer = true;
#else
constexpr bool kThreadSanitizer = false, kSanitizer = false;
#endif

// The compiler may drop an allocation that nobody sees.
void* volatile sink;
void Keep(void* p) { sink = p; }

class Observe : public testing::Test {
 protected:
  void SetUp() override {
    InstallAllocationObserver();
    ASSERT_TRUE(AllocationsObserved());
  }
};

TEST_F(Observe, EveryAllocatorCountsOnce) {
  AllocationScope scope;
  uint64_t expected = 0;
  // TSan's hooks see malloc and operator new for sure, the others by version: `by_version` of them.
  uint64_t by_version = 0;
  const auto counts = [&](const char* what) {
    const uint64_t seen = scope.count();
    const AllocationPause pause;
    EXPECT_LE(seen, expected) << what;
    EXPECT_GE(seen, expected - (kThreadSanitizer ? by_version : 0)) << what;
  };
  void* p = malloc(10);
  Keep(p);
  counts((++expected, "malloc"));
  p = realloc(p, 100000);
  Keep(p);
  counts((++by_version, ++expected, "realloc"));
  free(p);
  counts("free");
  Keep(p = calloc(3, 5));
  counts((++by_version, ++expected, "calloc"));
  free(p);
  Keep(p = aligned_alloc(64, 128));
  counts((++by_version, ++expected, "aligned_alloc"));
  free(p);
  ASSERT_EQ(posix_memalign(&p, 64, 100), 0);
  Keep(p);
  counts((++by_version, ++expected, "posix_memalign"));
  free(p);
  Keep(p = memalign(32, 100));
  counts((++by_version, ++expected, "memalign"));
  free(p);
  Keep(p = ::operator new(24));
  counts((++expected, "operator new"));
  ::operator delete(p);
  Keep(p = ::operator new(24, std::align_val_t(64)));
  counts((++by_version, ++expected, "aligned operator new"));
  ::operator delete(p, std::align_val_t(64));
  if (!kSanitizer) {
    p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(p, MAP_FAILED);
    counts((++expected, "mmap"));
    p = mremap(p, 4096, 8192, MREMAP_MAYMOVE);
    ASSERT_NE(p, MAP_FAILED);
    counts((++expected, "mremap"));
    munmap(p, 8192);
  }
}

TEST_F(Observe, OnlyInsideAScopeAndNotWhilePaused) {
  AllocationScope outer;
  {
    AllocationScope inner;
    free((Keep(malloc(1)), sink));
    {
      AllocationPause pause;
      free((Keep(malloc(1)), sink));
    }
    EXPECT_EQ(inner.count(), 1u);
  }
  EXPECT_EQ(outer.count(), 1u);
  free((Keep(malloc(1)), sink));
  EXPECT_EQ(outer.count(), 2u);
}

TEST_F(Observe, OtherThreadsCountOnlyWhenTheyInherit) {
  AllocationScope scope;
  void* const frame = CurrentAllocationFrame();
  {
    AllocationPause pause;  // of the thread's own making
    std::thread([] { free((Keep(malloc(1)), sink)); }).join();
    EXPECT_EQ(scope.count(), 0u);
    std::thread([&] {
      SetAllocationFrame(frame);
      free((Keep(malloc(1)), sink));
      SetAllocationFrame(nullptr);
      free((Keep(malloc(1)), sink));
    }).join();
    EXPECT_EQ(scope.count(), 1u);
  }
}

using ObserveDeathTest = Observe;

TEST_F(ObserveDeathTest, StrictAborts) {
  EXPECT_DEATH(
      {
        AllocationScope scope(/*strict=*/true);
        Keep(malloc(4321));
      },
      "strict: (malloc|allocation) of 4321 bytes");
}

TEST_F(ObserveDeathTest, StrictOuterScopeCatchesAnInnerOne) {
  EXPECT_DEATH(
      {
        AllocationScope outer(/*strict=*/true);
        AllocationScope inner;
        Keep(::operator new(77));
      },
      "of 77 bytes");
}

TEST_F(Observe, StrictAllowsFreeAndPaused) {
  void* p = malloc(10);
  Keep(p);
  AllocationScope scope(/*strict=*/true);
  free(p);
  AllocationPause pause;
  free((Keep(malloc(1)), sink));
}

}  // namespace
}  // namespace liveshape
