// Pools, an output row at a time: taps are taken one by one over a run of pixels, so that the inner loop has
// neither bounds nor divisions. f16 and bf16 are computed in f32 and rounded once.
#include <limits>

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/rows.h"
#include "ops/ops.h"
#include "ops/pool/cpu_rows.h"
#include "ops/window.h"

namespace liveshape::cpu {
namespace {

constexpr int64_t kRun = 64;  // pixels at a time

// T is what memory holds, Wide what is computed in.
template <typename T>
struct Plain {
  using Wide = T;
  static T Load(T v) { return v; }
  static T Store(T v) { return v; }
};
template <typename T>
struct Narrow {
  using Wide = float;
  static float Load(T v) { return ToFloat(v); }
  static T Store(float v) { return FromFloat<T>(v); }
};
template <typename T>
using Of =
    std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat>, Narrow<T>, Plain<T>>;

struct Images {
  const View& x;
  const View& y;
  template <typename T>
  const T* Plane(int64_t plane) const {
    return x.as<const T>() + plane / x.dims[1] * x.strides[0] + plane % x.dims[1] * x.strides[1];
  }
  template <typename T>
  T* Row(int64_t plane, int64_t row) const {
    return y.as<T>() + (plane * y.dims[2] + row) * y.dims[3];
  }
};

struct PoolPrepared : Prepared {
  ops::Windows windows;
  bool max = false, count_padding = false;
  int64_t divisor = 0;
};

// How many elements of a window that begins at `begin` a mean divides by.
int64_t Counted(const ops::Window& w, int64_t begin, int64_t extent, bool padding) {
  int64_t end = std::min(begin + w.size, extent + w.after);
  if (padding) return end - begin;
  return std::min(end, extent) - std::max<int64_t>(begin, 0);
}

template <typename T>
void PoolRow(const PoolPrepared& pool, const Images& images, int64_t plane, int64_t row) {
  using Element = Of<T>;
  using Wide = typename Element::Wide;
  using Limits = std::numeric_limits<Wide>;
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  const int64_t height = images.x.dims[2], width = images.x.dims[3];
  const int64_t row_stride = images.x.strides[2], stride = images.x.strides[3];
  const T* const x = images.Plane<T>(plane);
  T* const y = images.Row<T>(plane, row);
  const int64_t top = row * h.stride - h.before;
  for (int64_t begin = 0; begin < images.y.dims[3]; begin += kRun) {
    const int64_t end = std::min(begin + kRun, images.y.dims[3]);
    Wide sums[kRun];
    const Wide lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    std::fill_n(sums, kRun, pool.max ? lowest : Wide{0});
    for (int64_t p = 0; p < h.size; ++p) {
      const int64_t at = top + p * h.dilation;
      if (at < 0 || at >= height) continue;
      for (int64_t q = 0; q < w.size; ++q) {
        // Pixels j whose tap j * stride + shift lies in the row.
        const int64_t shift = q * w.dilation - w.before;
        const int64_t first = std::max(begin, shift >= 0 ? 0 : (-shift + w.stride - 1) / w.stride);
        const int64_t last = std::min(end, shift >= width ? 0 : (width - 1 - shift) / w.stride + 1);
        const T* from = x + at * row_stride + (first * w.stride + shift) * stride;
        Wide* to = sums + (first - begin);
        const int64_t step = w.stride * stride, count = last - first;
        if (pool.max) {
          for (int64_t j = 0; j < count; ++j) {
            const Wide v = Element::Load(from[j * step]);
            to[j] = v > to[j] || v != v ? v : to[j];  // NaN stays: nothing is above it
          }
        } else {
          for (int64_t j = 0; j < count; ++j) to[j] += Element::Load(from[j * step]);
        }
      }
    }
    const int64_t rows = Counted(h, top, height, pool.count_padding);
    for (int64_t j = begin; j < end; ++j) {
      Wide v = sums[j - begin];
      if (!pool.max) {
        const int64_t columns = Counted(w, j * w.stride - w.before, width, pool.count_padding);
        v /= static_cast<Wide>(pool.divisor ? pool.divisor : rows * columns);
      }
      y[j] = Element::Store(v);
    }
  }
}

// A row of f32 whose window fits `kSpan`: what PoolRow does, vectorised.
constexpr int64_t kSpan = 1024;
constexpr int64_t kRowsAtOnce = 8;
int64_t SpanOf(const ops::Window& w, int64_t pixels) {
  return (pixels - 1) * w.stride + (w.size - 1) * w.dilation + 1;
}

void PoolRowF32(const PoolPrepared& pool, const PoolRows& steps, const Images& images,
                int64_t plane, int64_t row) {
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  const int64_t height = images.x.dims[2], width = images.x.dims[3];
  const float* const x = images.Plane<float>(plane);
  float* const y = images.Row<float>(plane, row);
  const int64_t top = row * h.stride - h.before;
  const float neutral = pool.max ? -std::numeric_limits<float>::infinity() : 0.0f;
  float line[kSpan + kPoolSlack];
  for (int64_t begin = 0; begin < images.y.dims[3]; begin += kRun) {
    const int64_t end = std::min(begin + kRun, images.y.dims[3]);
    const int64_t left = begin * w.stride - w.before, span = SpanOf(w, end - begin);
    const int64_t from = std::clamp<int64_t>(left, 0, width);
    const int64_t to = std::clamp<int64_t>(left + span, from, width);
    float* const inside = line + (from - left);
    const float* rows[kRowsAtOnce];
    int64_t seen = 0;
    for (int64_t p = 0; p < h.size; ++p) {
      const int64_t at = top + p * h.dilation;
      if (at < 0 || at >= height) continue;
      rows[seen++] = x + at * images.x.strides[2] + from;
      if (seen < kRowsAtOnce) continue;
      steps.rows(rows, seen, to - from, inside);
      rows[0] = inside, seen = 1;
    }
    if (seen > 0) steps.rows(rows, seen, to - from, inside);
    if (seen == 0) std::fill_n(inside, to - from, neutral);
    std::fill_n(line, from - left, neutral);
    std::fill_n(line + (to - left), left + span - to, neutral);
    steps.taps(line, w.stride, w.size, w.dilation, end - begin, y + begin);
    if (pool.max) continue;
    const int64_t counted = Counted(h, top, height, pool.count_padding);
    for (int64_t j = begin; j < end; ++j) {
      const int64_t columns = Counted(w, j * w.stride - w.before, width, pool.count_padding);
      y[j] /= static_cast<float>(pool.divisor ? pool.divisor : counted * columns);
    }
  }
}

template <typename T>
void AdaptiveRow(const Images& images, int64_t plane, int64_t row) {
  using Element = Of<T>;
  using Wide = typename Element::Wide;
  const int64_t height = images.x.dims[2], width = images.x.dims[3];
  const int64_t rows = images.y.dims[2], columns = images.y.dims[3];
  const T* const x = images.Plane<T>(plane);
  T* const y = images.Row<T>(plane, row);
  const int64_t top = row * height / rows, bottom = ((row + 1) * height + rows - 1) / rows;
  for (int64_t j = 0; j < columns; ++j) {
    const int64_t left = j * width / columns, right = ((j + 1) * width + columns - 1) / columns;
    Wide sum = 0;
    for (int64_t p = top; p < bottom; ++p)
      for (int64_t q = left; q < right; ++q)
        sum += Element::Load(x[p * images.x.strides[2] + q * images.x.strides[3]]);
    y[j] = Element::Store(sum / static_cast<Wide>(bottom - top) / static_cast<Wide>(right - left));
  }
}

// Calls f with an element of the dtype.
template <typename F>
void WithDType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF32: return f(float{});
    case DType::kF16: return f(Half{});
    case DType::kBF16: return f(BFloat{});
    case DType::kF64: return f(double{});
    case DType::kI64: return f(int64_t{});
    case DType::kI32: return f(int32_t{});
    case DType::kI16: return f(int16_t{});
    case DType::kI8: return f(int8_t{});
    default: return f(uint8_t{});
  }
}

template <typename F>
void ForEachOutputRow(const KernelArgs& args, int64_t reads, F&& row) {
  const View& y = args.out(0);
  if (y.numel() <= 0) return;
  args.pool.ParallelFor(y.dims[0] * y.dims[1] * y.dims[2], RowGrain(y.dims[3] * reads),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t r = begin; r < end; ++r) row(r / y.dims[2], r % y.dims[2]);
                        });
}

Status RunPool(const KernelArgs& args) {
  const auto& pool = static_cast<const PoolPrepared&>(*args.prepared);
  const Images images{args.in(0), args.out(0)};
  if (images.x.dtype == DType::kF32 && images.x.strides[3] == 1 &&
      SpanOf(pool.windows[1], kRun) <= kSpan) {
    const PoolRows steps = FindPoolRows(pool.max);
    ForEachOutputRow(
        args, pool.windows[0].size + pool.windows[1].size,
        [&](int64_t plane, int64_t row) { PoolRowF32(pool, steps, images, plane, row); });
    return {};
  }
  WithDType(images.x.dtype, [&](auto type) {
    ForEachOutputRow(
        args, pool.windows[0].size * pool.windows[1].size,
        [&](int64_t plane, int64_t row) { PoolRow<decltype(type)>(pool, images, plane, row); });
  });
  return {};
}

Status RunAdaptive(const KernelArgs& args) {
  const Images images{args.in(0), args.out(0)};
  if (args.out(0).numel() <= 0) return {};
  const int64_t reads = images.x.dims[2] * images.x.dims[3] / (images.y.dims[2] * images.y.dims[3]);
  const auto run = [&](auto type) {
    ForEachOutputRow(args, reads + 1, [&](int64_t plane, int64_t row) {
      AdaptiveRow<decltype(type)>(images, plane, row);
    });
  };
  switch (images.x.dtype) {
    case DType::kF32: run(float{}); break;
    case DType::kF16: run(Half{}); break;
    case DType::kBF16: run(BFloat{}); break;
    default: run(double{}); break;
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph&, const ir::Node& node) {
  auto prepared = std::make_unique<PoolPrepared>();
  LS_ASSIGN_OR_RETURN(prepared->windows, ops::ReadWindows(node));
  prepared->max = node.String("kind") == "max";
  prepared->count_padding = node.Int("count_padding") != 0;
  prepared->divisor = node.Int("divisor");
  return std::unique_ptr<Prepared>(std::move(prepared));
}

}  // namespace

extern const CpuKernel kPoolKernel = {.op = &ops::kPool, .run = RunPool, .prepare = Prepare};
extern const CpuKernel kAdaptiveMeanKernel = {.op = &ops::kAdaptiveMean, .run = RunAdaptive};

}  // namespace liveshape::cpu
