// One kernel source, one function per instruction set, called through the active Isa. Highway is used as
// headers only: its foreach_target.h compiles the file once per target, the table and the choice are ours.
//
// The whole idiom, ops/example/cpu.cc:
//
//   #include "backends/cpu/kernel.h"                    // headers without SIMD come first
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "ops/example/cpu.cc"     // this file, as seen from src/
//   #include "backends/cpu/simd/dispatch.h"             // before any hwy header: it chooses the targets
//   #include "hwy/foreach_target.h"                     // includes this file again per target
//   #include "hwy/highway.h"
//
//   HWY_BEFORE_NAMESPACE();
//   namespace liveshape::cpu::HWY_NAMESPACE {
//   namespace {                                         // two files may both have a `Scale`
//   namespace hn = hwy::HWY_NAMESPACE;
//
//   void Scale(const float* x, float* y, int64_t n, float by) {
//     const hn::ScalableTag<float> d;
//     const int64_t lanes = hn::Lanes(d);
//     int64_t i = 0;
//     for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, by)), d, y + i);
//     for (; i < n; ++i) y[i] = x[i] * by;
//   }
//
//   }  // namespace
//   }  // namespace liveshape::cpu::HWY_NAMESPACE
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE                                        // once a file: what is not SIMD
//   namespace liveshape::cpu {
//   namespace {
//   LS_SIMD_TABLE(Scale);
//   Status Run(const KernelArgs& args) {
//     const auto scale = LS_SIMD(Scale);                // the pointer for the active Isa: read it once,
//     args.pool.ParallelFor(..., [&](int64_t b, int64_t e, int) { scale(...); });  // outside the loop
//     return {};
//   }
//   }  // namespace
//   extern const CpuKernel kExampleKernel = {.op = &ops::kExample, .run = Run};
//   }  // namespace liveshape::cpu
//   #endif
//
// Traps, each met: kPortable is HWY_SCALAR under gcc 12.2 (EMU128 is miscompiled there), which has one
// lane and no shuffles, so an algorithm uses only lane-wise ops, reductions by storing to an array, and
// loads. A lambda in the SIMD part needs HWY_ATTR before its body. A function template of std that a
// SIMD function calls is compiled for the baseline: keep such calls out of inner loops. Multiply-add:
// hn::MulAdd is fused on AVX2/AVX-512/NEON and not on portable or wasm, so ISAs agree to rounding only.
// hn::Ne of floats is false at NaN on AVX2 (use Not(Eq)); hn::Max and Min of NaN differ by ISA (math-inl.h has
// MaxNaN). A type that both parts use goes into a header, or behind an include guard of its own.
#pragma once

#if defined(HWY_HIGHWAY_INCLUDED) || defined(HIGHWAY_HWY_DETECT_TARGETS_H_)
#error "include backends/cpu/simd/dispatch.h before any hwy header"
#endif

// Portable + AVX2 + AVX-512 (Highway's AVX3) on x86, portable + NEON on Arm, portable + simd128 on wasm.
// Every enabled target costs 1.7 s of compile time a file. AVX3_DL says avxvnni, which traps on CPUs that
// have only avx512-vnni.
#include "hwy/base.h"
#ifdef HWY_MAJOR  // since 1.0.5; newer Highways know more targets
#define LS_SIMD_NEWER_TARGETS (HWY_SSE2 | HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#else
#define LS_SIMD_NEWER_TARGETS 0
#endif
// A sanitizer build takes a third longer with AVX-512, which has hardly any code of its own: see isa.cc too.
#ifdef LS_WITHOUT_AVX512
#define LS_SIMD_LEFT_OUT HWY_AVX3
#else
#define LS_SIMD_LEFT_OUT 0
#endif
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLED_TARGETS                                                              \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | \
   LS_SIMD_NEWER_TARGETS | LS_SIMD_LEFT_OUT)
#define HWY_DISABLE_PCLMUL_AES

#include "backends/cpu/simd/isa.h"
#include "hwy/detect_targets.h"

#if HWY_TARGETS & HWY_EMU128
#define LS_SIMD_PORTABLE(function) &N_EMU128::function
#else
#define LS_SIMD_PORTABLE(function) &N_SCALAR::function
#endif
#if HWY_TARGETS & HWY_AVX2
#define LS_SIMD_AVX2(function) &N_AVX2::function
#else
#define LS_SIMD_AVX2(function) nullptr
#endif
#if HWY_TARGETS & HWY_AVX3
#define LS_SIMD_AVX512(function) &N_AVX3::function
#else
#define LS_SIMD_AVX512(function) nullptr
#endif
#if HWY_TARGETS & HWY_NEON
#define LS_SIMD_NEON(function) &N_NEON::function
#else
#define LS_SIMD_NEON(function) nullptr
#endif
#if HWY_TARGETS & HWY_WASM
#define LS_SIMD_WASM(function) &N_WASM::function
#else
#define LS_SIMD_WASM(function) nullptr
#endif

// In namespace liveshape::cpu (or inside an anonymous one there), under HWY_ONCE. The order is Isa's.
#define LS_SIMD_TABLE(function)                                                                    \
  constexpr decltype(LS_SIMD_PORTABLE(function)) function##PerIsa[::liveshape::cpu::kIsaCount] = { \
      LS_SIMD_PORTABLE(function), LS_SIMD_AVX2(function), LS_SIMD_AVX512(function),                \
      LS_SIMD_NEON(function), LS_SIMD_WASM(function)}

#define LS_SIMD(function) (function##PerIsa[static_cast<int>(::liveshape::cpu::ActiveIsa())])
#define LS_SIMD_FOR_MEMORY(function) \
  (function##PerIsa[static_cast<int>(::liveshape::cpu::MemoryIsa())])
