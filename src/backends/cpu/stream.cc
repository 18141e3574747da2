#include "backends/cpu/stream.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/stream.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Whole lines; what is before the first and behind the last is copied.
void Stream(const std::byte* from, std::byte* to, size_t bytes) {
  // A line in halves: whole ones took three times as long on Zen 4.
  const hn::CappedTag<float, 8> d;
  const size_t vector = hn::Lanes(d) * sizeof(float), line = 64;
  const size_t before = (line - reinterpret_cast<uintptr_t>(to) % line) % line;
  const size_t head = before < bytes ? before : bytes;
  std::memcpy(to, from, head);
  size_t i = head;
  for (; i + line <= bytes; i += line)
    for (size_t v = i; v < i + line; v += vector)
      hn::Stream(hn::LoadU(d, reinterpret_cast<const float*>(from + v)), d,
                 reinterpret_cast<float*>(to + v));
  std::memcpy(to + i, from + i, bytes - i);
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Stream);

// Of the L3 that this core is at, 0 if unknown. The C library's own answer was ten times the truth on Zen 4.
size_t L3Bytes() {
#if defined(__x86_64__)
  for (const unsigned leaf : {4u, 0x8000001du}) {  // Intel's and AMD's, of the same form
    unsigned a = 0, b = 0, c = 0, d = 0;
    for (unsigned cache = 0; __get_cpuid_count(leaf, cache, &a, &b, &c, &d) && (a & 31) != 0;
         ++cache) {
      if ((a >> 5 & 7) != 3) continue;
      const size_t ways = (b >> 22) + 1, partitions = (b >> 12 & 1023) + 1, line = (b & 4095) + 1;
      return ways * partitions * line * (size_t{c} + 1);
    }
  }
#endif
  return 0;
}

std::atomic<size_t>& Threshold() {
  static std::atomic<size_t> bytes{0};
  return bytes;
}
}  // namespace

size_t StreamBytes() {
  static const size_t machine = std::max(size_t{24} << 20, L3Bytes() / 4 * 3);
  const size_t set = Threshold().load(std::memory_order_relaxed);
  return set ? set : machine;
}
void SetStreamBytes(size_t bytes) { Threshold().store(bytes, std::memory_order_relaxed); }

StreamFn FindStream() { return LS_SIMD(Stream); }
void FlushStreams() { hwy::FlushStream(); }

}  // namespace liveshape::cpu
#endif
