// Results too large for any cache to keep until they are read: written past the caches, a line is not read first to be
// overwritten whole, and what lies in the caches stays there. A third less traffic for a sum of two tensors.
//
//   if (bytes read and written >= kStreamBytes) {
//     const StreamFn stream = FindStream();
//     for (...) stream(tile, to, tile_bytes);   // tiles that were just computed, so in L1
//     FlushStreams();                           // once, before another thread may read
//   }
#pragma once

#include <cstddef>

namespace liveshape::cpu {

// From here on a result and its operands are beyond the L3 that a core can count on: what was written first is gone
// before anybody reads it.
inline constexpr size_t kStreamBytes = size_t{24} << 20;

// As memcpy.
using StreamFn = void (*)(const std::byte* from, std::byte* to, size_t bytes);
StreamFn FindStream();  // for the active ISA

void FlushStreams();

}  // namespace liveshape::cpu
