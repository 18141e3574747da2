// Which instruction set the SIMD kernels use: the best one that this machine has, chosen once by our own
// CPUID table, or the one that a test forces.
//
//   for (Isa isa : AvailableIsas()) {          // always kPortable first
//     SetIsa(isa);
//     EXPECT_EQ(Run(model), expected);
//   }
//   SetIsa(BestIsa());
//
// How a kernel is compiled once per ISA and called through this choice: simd/dispatch.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace liveshape::cpu {

// In ascending order of preference on each architecture.
enum class Isa : uint8_t {
  kPortable,  // no intrinsics: one lane at a time, or what the compiler makes of it
  kAvx2,      // with FMA and F16C
  kAvx512,    // F, VL, DQ, BW
  kNeon,
  kWasm,  // simd128
};
inline constexpr int kIsaCount = 5;

const char* Name(Isa isa);  // "portable", "avx2", "avx512", "neon", "wasm"
std::optional<Isa> IsaFromName(std::string_view name);

std::span<const Isa> AvailableIsas();  // of this build on this machine
Isa BestIsa();
Isa ActiveIsa();
// For kernels that wait for memory, not for their arithmetic: the active one, but half of AVX-512 where nobody asked for
// it and the processor takes it in two turns (Zen 4). Sums, maxima and products of two tensors are 5 to 10 % faster so.
Isa MemoryIsa();
// As that, for results that are written past the caches (stream.h), on every processor: whole vectors of AVX-512 took three
// times as long on Zen 4; a sum of 32 MB takes 0.58 ms where it took 0.70 (Zen 5). Intel has not been measured.
Isa StreamIsa();
// Process-wide; takes effect at the next kernel call. False, and no change, if the machine lacks it.
bool SetIsa(Isa isa);

}  // namespace liveshape::cpu
