// Results too large for any cache to keep until they are read: written past the caches, a line is not read first to be
// overwritten whole, and what lies in the caches stays there. A third less traffic for a sum of two tensors.
//
//   if (bytes read and written >= StreamBytes()) {
//     const StreamFn stream = FindStream();
//     for (...) stream(tile, to, tile_bytes);   // tiles that were just computed, so in L1
//     FlushStreams();                           // once, before another thread may read
//   }
#pragma once

#include <cstddef>

namespace liveshape::cpu {

// From here on a result and its operands are beyond the L3 that a core can count on: what was written first is gone
// before anybody reads it. Three quarters of an L3, 24 MB where it is smaller or unknown: of 32 MB on Zen 4, a layer norm
// of 24 MB takes two thirds of the time so, where a Xeon with an L3 of 300 MB takes an eighth longer.
size_t StreamBytes();
void SetStreamBytes(size_t bytes);  // for tests, process-wide; 0: as the machine has it

// As memcpy.
using StreamFn = void (*)(const std::byte* from, std::byte* to, size_t bytes);
StreamFn FindStream();  // for the active ISA

void FlushStreams();

}  // namespace liveshape::cpu
