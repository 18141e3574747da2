#include "backends/cpu/simd/isa.h"

#include <array>
#include <atomic>

namespace liveshape::cpu {
namespace {

constexpr const char* kNames[kIsaCount] = {"portable", "avx2", "avx512", "neon", "wasm"};

// Exactly the features that Highway's target strings switch on for AVX2 and AVX3 (PCLMUL and AES are
// disabled in dispatch.h). __builtin_cpu_supports also asks XGETBV whether the OS saves the registers.
bool Has(Isa isa) {
  switch (isa) {
    case Isa::kPortable: return true;
#if defined(__x86_64__)
    case Isa::kAvx2:
      return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("avx2") &&
             __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
             __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
#if !defined(LS_WITHOUT_AVX512)
    case Isa::kAvx512:
      return Has(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512bw");
#endif
#elif defined(__aarch64__)
    case Isa::kNeon: return true;
#elif defined(__wasm_simd128__)
    case Isa::kWasm: return true;
#endif
    default: return false;
  }
}

struct Detected {
  std::array<Isa, kIsaCount> isas;
  size_t count = 0;

  Detected() {
    for (int i = 0; i < kIsaCount; ++i) {
      if (Has(static_cast<Isa>(i))) isas[count++] = static_cast<Isa>(i);
    }
  }
};

const Detected& Machine() {
  static const Detected detected;
  return detected;
}

bool TakesTwoTurns() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amdfam19h");
#else
  return false;
#endif
}

struct Choice {
  std::atomic<Isa> active{BestIsa()};
  std::atomic<Isa> stream{BestIsa() == Isa::kAvx512 ? Isa::kAvx2 : BestIsa()};
  std::atomic<Isa> memory{TakesTwoTurns() ? stream.load() : BestIsa()};
};
Choice& Chosen() {
  static Choice choice;
  return choice;
}

}  // namespace

const char* Name(Isa isa) { return kNames[static_cast<int>(isa)]; }

std::optional<Isa> IsaFromName(std::string_view name) {
  for (int i = 0; i < kIsaCount; ++i) {
    if (name == kNames[i]) return static_cast<Isa>(i);
  }
  return std::nullopt;
}

std::span<const Isa> AvailableIsas() { return {Machine().isas.data(), Machine().count}; }

Isa BestIsa() { return Machine().isas[Machine().count - 1]; }

Isa ActiveIsa() { return Chosen().active.load(std::memory_order_relaxed); }
Isa StreamIsa() { return Chosen().stream.load(std::memory_order_relaxed); }
Isa MemoryIsa() { return Chosen().memory.load(std::memory_order_relaxed); }

bool SetIsa(Isa isa) {
  if (!Has(isa)) return false;
  Chosen().active.store(isa, std::memory_order_relaxed);
  Chosen().memory.store(isa, std::memory_order_relaxed);
  Chosen().stream.store(isa, std::memory_order_relaxed);
  return true;
}

}  // namespace liveshape::cpu
