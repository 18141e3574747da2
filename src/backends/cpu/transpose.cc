#include "backends/cpu/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/transpose.cc"
#include "backends/cpu/simd/dispatch.h"

#include "hwy/foreach_target.h"

#include "hwy/highway.h"

#include "backends/cpu/simd/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void Columns(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch, int64_t begin,
             int64_t end) {
  for (int64_t c = begin; c < end; ++c)
    for (int64_t r = 0; r < 4; ++r) to[r * pitch + c] = from[r + c * stride];
}

#if HWY_TARGET == HWY_SCALAR
void TransposeStrip(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch,
                    int64_t columns) {
  Columns(from, stride, to, pitch, 0, columns);
}

void Transpose(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch) {
  for (int64_t r = 0; r < kTransposeBlock; ++r)
    for (int64_t c = 0; c < kTransposeBlock; ++c) to[r * pitch + c] = from[r + c * stride];
}
#else
// Squares of 4 x 4 in vectors of 128 bits, which every target but the scalar one has.
HWY_INLINE void Square(const uint32_t* x, int64_t stride, uint32_t* y, int64_t pitch) {
  const hn::FixedTag<uint32_t, 4> d;
  TransposeBlocks(d, hn::LoadU(d, x), hn::LoadU(d, x + stride), hn::LoadU(d, x + 2 * stride),
                  hn::LoadU(d, x + 3 * stride), y, pitch);
}

void TransposeStrip(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch,
                    int64_t columns) {
  int64_t c = 0;
  for (; c + 4 <= columns; c += 4) Square(from + c * stride, stride, to + c, pitch);
  if (c == columns) return;
  if (columns < 4) return Columns(from, stride, to, pitch, 0, columns);
  Square(from + (columns - 4) * stride, stride, to + columns - 4, pitch);  // some of them again
}

void Transpose(const uint32_t* from, int64_t stride, uint32_t* to, int64_t pitch) {
  for (int64_t r = 0; r < kTransposeBlock; r += 4)
    for (int64_t c = 0; c < kTransposeBlock; c += 4)
      Square(from + r + c * stride, stride, to + r * pitch + c, pitch);
}
#endif

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Transpose);
LS_SIMD_TABLE(TransposeStrip);
}  // namespace

TransposeFn FindTranspose() { return LS_SIMD(Transpose); }
TransposeStripFn FindTransposeStrip() { return LS_SIMD(TransposeStrip); }

}  // namespace liveshape::cpu
#endif
