// Loads that widen f16 and bf16 to f32 in registers, and stores that round once: simd/half-inl.h by type.
#if defined(LIVESHAPE_CPU_ELEMENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CPU_ELEMENT_INL_H_
#undef LIVESHAPE_CPU_ELEMENT_INL_H_
#else
#define LIVESHAPE_CPU_ELEMENT_INL_H_
#endif

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/simd/half-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// gcc would rather read a vector from memory again for every use: a load port's time each.
template <class V>
HWY_INLINE void KeepInRegister([[maybe_unused]] V& v) {
#if HWY_COMPILER_GCC_ACTUAL && HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
  asm("" : "+v"(v.raw));
#endif
}

HWY_INLINE const float* Bits(const float* p) { return p; }
HWY_INLINE const uint16_t* Bits(const Half* p) { return &p->bits; }
HWY_INLINE const uint16_t* Bits(const BFloat* p) { return &p->bits; }
HWY_INLINE float* Bits(float* p) { return p; }
HWY_INLINE uint16_t* Bits(Half* p) { return &p->bits; }
HWY_INLINE uint16_t* Bits(BFloat* p) { return &p->bits; }
HWY_INLINE F32 KindOf(const float*) { return {}; }
HWY_INLINE F16 KindOf(const Half*) { return {}; }
HWY_INLINE BF16 KindOf(const BFloat*) { return {}; }

template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadAsFloat(D d, const T* from) {
  return LoadF32(KindOf(from), d, Bits(from));
}

// Whole rows, dense.
template <typename T>
HWY_INLINE void WidenRow(const T* from, int64_t count, float* to) {
  RowToF32(KindOf(from), Bits(from), to, count);
}
template <typename T>
HWY_INLINE void NarrowRow(const float* from, int64_t count, T* to) {
  RowFromF32(KindOf(to), from, Bits(to), count);
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
