#include "backends/cpu/stream.h"

#include <cstdint>
#include <cstring>

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
}  // namespace

StreamFn FindStream() { return LS_SIMD(Stream); }
void FlushStreams() { hwy::FlushStream(); }

}  // namespace liveshape::cpu
#endif
