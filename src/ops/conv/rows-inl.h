// Rows of an image as f32, laid out for the taps of a window (ImageLine in cpu_call.h).
#if defined(LIVESHAPE_CONV_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_ROWS_INL_H_
#undef LIVESHAPE_CONV_ROWS_INL_H_
#else
#define LIVESHAPE_CONV_ROWS_INL_H_
#endif

#include <cstdint>
#include <type_traits>

#include "backends/cpu/gemm/element-inl.h"
#include "hwy/highway.h"
#include "ops/conv/cpu_call.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Vectors run along pixels.
using Lane = hn::ScalableTag<float>;
constexpr int kPixelLanes = static_cast<int>(hn::MaxLanes(Lane()));

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
  const Lane d;
  constexpr int64_t lanes = kPixelLanes;
  if (step == 1 && count >= lanes) {
    hn::StoreU(LoadAsFloat(d, from), d, to);
    // From the next whole vector of memory on: stores that cross lines take twice as long.
    i = lanes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float) % lanes);
    for (; i + lanes <= count; i += lanes) hn::StoreU(LoadAsFloat(d, from + i), d, to + i);
    hn::StoreU(LoadAsFloat(d, from + count - lanes), d, to + count - lanes);
    return;
  }
  if (step == 2 && count >= lanes) {
    for (; i + lanes < count; i += lanes) {
      const auto low = LoadAsFloat(d, from + 2 * i), high = LoadAsFloat(d, from + 2 * i + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, to + i);
    }
    // The last vector must not read beyond the last even element: what is even there is odd one before.
    i = count - lanes;
    const auto high = LoadAsFloat(d, from + 2 * i + lanes - 1);
    if (i > 0) {
      const auto low = LoadAsFloat(d, from + 2 * i - 1);
      hn::StoreU(hn::ConcatOdd(d, high, low), d, to + i);
    } else {
      const auto even = hn::ConcatEven(d, high, LoadAsFloat(d, from));
      hn::StoreU(hn::ConcatUpperLower(d, hn::ConcatOdd(d, high, high), even), d, to);
    }
    return;
  }
#endif
  for (; i < count; ++i) to[i] = ToFloat(from[i * step]);
}

// At least `count` zeros, in whole vectors.
HWY_INLINE void FillZero(float* to, int64_t count) {
  const Lane d;
  constexpr int64_t lanes = kPixelLanes;
  for (int64_t i = 0; i < count; i += lanes) hn::StoreU(hn::Zero(d), d, to + i);
}

// Pixels of whole rows that move by one over an image as wide as they: rows [first, first + rows) of it, `shift` elements
// on, with zeros where a pixel would see beyond its row or the image. Whole vectors may be written behind the last row.
template <typename T>
HWY_INLINE void ShiftedRows(const ConvCall& call, const T* plane, int64_t first, int64_t rows,
                            int64_t shift, float* to) {
  const int64_t width = call.width;
  const auto within = [](int64_t v, int64_t low, int64_t high) HWY_ATTR {
    return v < low ? low : v > high ? high : v;
  };
  const int64_t begin = within(-first, 0, rows), end = within(call.height - first, begin, rows);
  FillZero(to, begin * width);
  const T* const from = plane + (first + begin) * width;
  float* const inside = to + begin * width;
  const int64_t count = (end - begin) * width;
  const int64_t from_left = within(-shift, 0, width), to_right = within(width - shift, 0, width);
  if (from_left < to_right) {
    Gather(from + from_left + shift, 1, count - width + to_right - from_left, inside + from_left);
  }
  const auto clear = [&](int64_t left, int64_t right) HWY_ATTR {
    for (int64_t j = left; j < right; ++j)
      for (int64_t row = 0; row < count; row += width) inside[row + j] = 0;
  };
  clear(0, from_left);
  clear(to_right, width);
  FillZero(inside + count, (rows - end) * width);
}

// Where tap [p, q] of the first pixel lies in rows laid out for `width` pixels.
HWY_INLINE int64_t TapOffset(const ConvCall& call, int64_t width, int64_t p, int64_t q) {
  const int64_t stride = call.w.stride, line = ImageLine(call.w, width), x = q * call.w.dilation;
  const int64_t row = p * call.h.dilation * line;
  return stride == 1 ? row + x : row + x % stride * (line / stride) + x / stride;
}

// Columns first + i * stride of the image for i < count, of which [begin, end) are inside.
struct Phase {
  int64_t first, begin, end;
  Phase(const ConvCall& call, int64_t left, int64_t f, int64_t count) {
    const int64_t stride = call.w.stride;
    first = left * stride - call.w.before + f;
    begin = first >= 0 ? 0 : (-first + stride - 1) / stride;
    end = first >= call.width ? 0 : (call.width - 1 - first) / stride + 1;
    if (begin > count) begin = count;
    if (end > count) end = count;
    if (end < begin) end = begin;
  }
};

#if HWY_TARGET != HWY_SCALAR
// Both phases of a stride of 2 from one reading: even[i] = from[2 * i], odd[i] = from[2 * i + 1], each inside its
// own range.
template <typename T>
HWY_INLINE void GatherPairs(const T* from, const Phase& first, const Phase& second, float* even,
                            float* odd) {
  const Lane d;
  constexpr int64_t lanes = kPixelLanes;
  int64_t i = first.begin < second.begin ? second.begin : first.begin;
  const int64_t end = first.end < second.end ? first.end : second.end;
  for (int64_t k = first.begin; k < i && k < first.end; ++k) even[k] = ToFloat(from[2 * k]);
  for (int64_t k = second.begin; k < i && k < second.end; ++k) odd[k] = ToFloat(from[2 * k + 1]);
  if (end - i >= lanes) {
    const auto split = [&](int64_t at) HWY_ATTR {
      const auto low = LoadAsFloat(d, from + 2 * at), high = LoadAsFloat(d, from + 2 * at + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, even + at);
      hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + at);
    };
    for (; i + lanes <= end; i += lanes) split(i);
    if (i < end) split(end - lanes);
    i = end;
  }
  for (int64_t k = i; k < first.end; ++k) even[k] = ToFloat(from[2 * k]);
  for (int64_t k = i; k < second.end; ++k) odd[k] = ToFloat(from[2 * k + 1]);
}
#endif

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// The same for i < count where from[first] is the first of a row of `width`, which may begin before it: zeros where there
// is nothing. In whole vectors, also of rows shorter than one: masked loads touch nothing outside.
HWY_INLINE void SplitRow(const float* from, int64_t first, int64_t width, int64_t count,
                         float* even, float* odd) {
  const Lane d;
  constexpr int64_t lanes = kPixelLanes;
  const auto load = [&](int64_t at) HWY_ATTR {
    if (at >= 0 && at + lanes <= width) return hn::LoadU(d, from + at);
    const auto before = hn::FirstN(d, at < 0 ? -at : 0);
    const auto inside = hn::FirstN(d, at < width ? width - at : 0);
    return hn::MaskedLoad(hn::AndNot(before, inside), d, from + at);
  };
  for (int64_t i = 0; i < count; i += lanes) {
    const auto low = load(first + 2 * i), high = load(first + 2 * i + lanes);
    hn::StoreU(hn::ConcatEven(d, high, low), d, even + i);
    hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + i);
  }
}
#endif

// The part of one channel that the pixels [top, bottom) x [left, right) see; rows and phases that no tap reads
// are left out.
template <typename T>
void LayOut(const ConvCall& call, const T* plane, int64_t top, int64_t bottom, int64_t left,
            int64_t right, float* to) {
  const int64_t line = ImageLine(call.w, right - left), stride = call.w.stride;
  const int64_t phase = line / stride, count = right - left + PhaseBeyond(call.w);
  const int64_t rows = (bottom - top - 1) * call.h.stride + call.h.span();
  const int64_t column_step = call.x_strides[3], row_step = call.x_strides[2];
  const int64_t first_row = top * call.h.stride - call.h.before;
  // f(row of the image or null, row of `to`) for those that a tap reads.
  const auto for_rows = [&](float* row, auto&& f) HWY_ATTR {
    for (int64_t r = 0, turn = 0; r < rows; ++r, row += line) {
      const bool read = turn < call.h.span();
      if (++turn == call.h.stride) turn = 0;
      const bool inside = first_row + r >= 0 && first_row + r < call.height;
      if (read) f(inside ? plane + (first_row + r) * row_step : nullptr, row);
    }
  };
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  if constexpr (std::is_same_v<T, float>) {
    if (stride == 2 && column_step == 1 && call.w.span() > 1) {
      return for_rows(to, [&](const float* from, float* row) HWY_ATTR {
        if (from == nullptr) return FillZero(row, phase + count);
        SplitRow(from, 2 * left - call.w.before, call.width, count, row, row + phase);
      });
    }
  }
#endif
#if HWY_TARGET != HWY_SCALAR
  if (stride == 2 && column_step == 1 && call.w.span() > 1) {
    const Phase even(call, left, 0, count), odd(call, left, 1, count);
    return for_rows(to, [&](const T* from, float* row) HWY_ATTR {
      if (from == nullptr) return FillZero(row, phase + count);
      FillZero(row, even.begin);
      FillZero(row + even.end, phase + odd.begin - even.end);
      GatherPairs(from + even.first, even, odd, row, row + phase);
      FillZero(row + phase + odd.end, count - odd.end);
    });
  }
#endif
  for (int64_t f = 0; f < stride && f < call.w.span(); ++f) {
    const Phase p(call, left, f, count);
    for_rows(to + f * phase, [&](const T* from, float* row) HWY_ATTR {
      if (from == nullptr || p.begin == p.end) return FillZero(row, count);
      FillZero(row, p.begin);
      Gather(from + (p.first + p.begin * stride) * column_step, stride * column_step,
             p.end - p.begin, row + p.begin);
      FillZero(row + p.end, count - p.end);
    });
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
