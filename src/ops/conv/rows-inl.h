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

// to[i] = from[i * step] for i < count. The last vector overlaps the one before.
template <typename T>
HWY_INLINE void Gather(const T* from, int64_t step, int64_t count, float* to) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  if (step == 1 && count >= lanes) {
    for (; i + lanes <= count; i += lanes) hn::StoreU(LoadAsFloat(d, from + i), d, to + i);
    hn::StoreU(LoadAsFloat(d, from + count - lanes), d, to + count - lanes);
    return;
  }
  if (step == 2 && count > lanes) {
    // The second vector ends one beyond its last even element: stop before the row does.
    const auto even = [&](int64_t at) HWY_ATTR {
      const auto low = LoadAsFloat(d, from + 2 * at), high = LoadAsFloat(d, from + 2 * at + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, to + at);
    };
    for (; i + lanes < count; i += lanes) even(i);
    even(count - 1 - lanes);
    i = count - 1;
  }
#endif
  for (; i < count; ++i) to[i] = ToFloat(from[i * step]);
}

// At least `count` zeros, in whole vectors.
HWY_INLINE void FillZero(float* to, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = hn::Lanes(d);
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(hn::Zero(d), d, to + i);
}

// Where tap [p, q] of the first pixel lies in rows laid out for `width` pixels.
HWY_INLINE int64_t TapOffset(const ConvCall& call, int64_t width, int64_t p, int64_t q) {
  const int64_t stride = call.w.stride, line = ImageLine(call.w, width), x = q * call.w.dilation;
  const int64_t row = p * call.h.dilation * line;
  return stride == 1 ? row + x : row + x % stride * (line / stride) + x / stride;
}

// The part of one channel that the pixels [top, bottom) x [left, right) see; rows and phases that no tap reads
// are left out.
template <typename T>
void LayOut(const ConvCall& call, const T* plane, int64_t top, int64_t bottom, int64_t left,
            int64_t right, float* to) {
  const int64_t line = ImageLine(call.w, right - left), stride = call.w.stride;
  const int64_t phase = line / stride, count = phase - kVectorSlack;
  const int64_t rows = (bottom - top - 1) * call.h.stride + call.h.span();
  const int64_t column_step = call.x_strides[3], row_step = call.x_strides[2];
  const int64_t first_row = top * call.h.stride - call.h.before;
  for (int64_t f = 0; f < stride && f < call.w.span(); ++f) {
    // Columns first + i * stride for i < count, of which [begin, end) are inside the image.
    const int64_t first = left * stride - call.w.before + f;
    int64_t begin = first >= 0 ? 0 : (-first + stride - 1) / stride;
    int64_t end = first >= call.width ? 0 : (call.width - 1 - first) / stride + 1;
    if (begin > count) begin = count;
    if (end > count) end = count;
    if (end < begin) end = begin;
    int64_t from = (first + begin * stride) * column_step + first_row * row_step;
    float* row = to + f * phase;
    for (int64_t r = 0, turn = 0; r < rows; ++r, from += row_step, row += line) {
      const bool read = turn < call.h.span();
      if (++turn == call.h.stride) turn = 0;
      if (!read) continue;
      if (first_row + r < 0 || first_row + r >= call.height || begin == end) {
        FillZero(row, count);
        continue;
      }
      FillZero(row, begin);
      Gather(plane + from, stride * column_step, end - begin, row + begin);
      FillZero(row + end, count - end);
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
