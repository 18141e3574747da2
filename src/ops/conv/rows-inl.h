// Rows of an image as f32, laid out for the taps of a window (ImageLine in cpu_call.h).
#if defined(LIVESHAPE_CONV_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_ROWS_INL_H_
#undef LIVESHAPE_CONV_ROWS_INL_H_
#else
#define LIVESHAPE_CONV_ROWS_INL_H_
#endif

#include <cstdint>

#include "backends/cpu/gemm/element-inl.h"
#include "hwy/highway.h"
#include "ops/conv/cpu_call.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// Calls f with a null pointer of the element type.
template <typename F>
HWY_INLINE void WithElement(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF16: return f(static_cast<const Half*>(nullptr));
    case DType::kBF16: return f(static_cast<const BFloat*>(nullptr));
    default: return f(static_cast<const float*>(nullptr));
  }
}

// to[i] = from[i * step] for i < count.
template <typename T>
HWY_INLINE void Gather(const T* from, int64_t step, int64_t count, float* to) {
  if (step == 1) return WidenRow(from, count, to);
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  if (step ==
      2) {  // the second vector ends one beyond its last even element: stop before the row does
    const hn::ScalableTag<float> d;
    const int64_t lanes = hn::Lanes(d);
    for (; i + lanes < count; i += lanes) {
      const auto low = LoadAsFloat(d, from + 2 * i), high = LoadAsFloat(d, from + 2 * i + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, to + i);
    }
  }
#endif
  for (; i < count; ++i) to[i] = ToFloat(from[i * step]);
}

HWY_INLINE void FillZero(float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = 0.0f;
}

// to[i] = row[first + i * step] for i < count, 0 where that is outside [0, width).
template <typename T>
HWY_INLINE void PaddedRow(const T* row, int64_t width, int64_t stride, int64_t first, int64_t step,
                          int64_t count, float* to) {
  int64_t begin = first >= 0 ? 0 : step == 1 ? -first : (-first + step - 1) / step;
  int64_t end = width - 1 < first ? 0 : step == 1 ? width - first : (width - 1 - first) / step + 1;
  if (begin > count) begin = count;
  if (end > count) end = count;
  if (end < begin) end = begin;
  FillZero(to, begin);
  if (begin < end)
    Gather(row + (first + begin * step) * stride, step * stride, end - begin, to + begin);
  FillZero(to + end, count - end);
}

// Where tap [p, q] of the first pixel lies in rows laid out for `width` pixels.
HWY_INLINE int64_t TapOffset(const ConvCall& call, int64_t width, int64_t p, int64_t q) {
  const int64_t stride = call.w.stride, line = ImageLine(call.w, width), x = q * call.w.dilation;
  const int64_t row = p * call.h.dilation * line;
  return stride == 1 ? row + x : row + x % stride * (line / stride) + x / stride;
}

// The part of one channel that the pixels [top, bottom) x [left, right) see.
template <typename T>
void LayOut(const ConvCall& call, const T* plane, int64_t top, int64_t bottom, int64_t left,
            int64_t right, float* to) {
  const int64_t line = ImageLine(call.w, right - left), phase = line / call.w.stride;
  const int64_t rows = (bottom - top - 1) * call.h.stride + call.h.span();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t y = top * call.h.stride - call.h.before + r;
    for (int64_t f = 0; f < call.w.stride; ++f) {
      float* const row = to + r * line + f * phase;
      if (y < 0 || y >= call.height) {
        FillZero(row, phase - kVectorSlack);
      } else {
        PaddedRow(plane + y * call.x_strides[2], call.width, call.x_strides[3],
                  left * call.w.stride - call.w.before + f, call.w.stride, phase - kVectorSlack,
                  row);
      }
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
