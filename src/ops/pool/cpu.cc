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
};

// A row of the output, and the image it is made of.
struct OutputRow {
  int64_t row;  // in its image
  int64_t x;    // offset of the image's first element
  int64_t y;    // offset of the row's
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
void PoolRow(const PoolPrepared& pool, const Images& images, const OutputRow& out) {
  using Element = Of<T>;
  using Wide = typename Element::Wide;
  using Limits = std::numeric_limits<Wide>;
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  const int64_t height = images.x.dims[2], width = images.x.dims[3];
  const int64_t row_stride = images.x.strides[2], stride = images.x.strides[3];
  const T* const x = images.x.as<const T>() + out.x;
  T* const y = images.y.as<T>() + out.y;
  const int64_t top = out.row * h.stride - h.before;
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

// What lies in `line` at first are numbers: `taps` computes on a few beyond its own.
void PoolRowF32(const PoolPrepared& pool, const PoolRows& steps, const Images& images,
                const OutputRow& out, float* line) {
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  const int64_t height = images.x.dims[2], width = images.x.dims[3];
  const float* const x = images.x.as<const float>() + out.x;
  float* const y = images.y.as<float>() + out.y;
  const int64_t top = out.row * h.stride - h.before;
  const float neutral = pool.max ? -std::numeric_limits<float>::infinity() : 0.0f;
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
    if (from > left) std::fill_n(line, from - left, neutral);
    if (to < left + span) std::fill_n(line + (to - left), left + span - to, neutral);
    const auto taps = [&](int64_t first, int64_t last, int64_t divisor) {
      const int64_t skip = (first - begin) * w.stride;
      const PoolTaps windows{line + skip, 1,      0,         kSpan + kPoolSlack - skip,
                             w.stride,    w.size, w.dilation};
      steps.taps(windows, 1, 0, last - first, static_cast<float>(divisor), y + first);
    };
    if (pool.max || pool.divisor) {
      taps(begin, end, pool.divisor);
      continue;
    }
    // Windows that reach beyond an end divide by less: those in between have one divisor.
    const int64_t rows_counted = Counted(h, top, height, pool.count_padding);
    const auto columns = [&](int64_t j) {
      return Counted(w, j * w.stride - w.before, width, pool.count_padding);
    };
    int64_t first = begin, last = end;
    for (; first < last && columns(first) != w.size; ++first)
      taps(first, first + 1, rows_counted * columns(first));
    for (; first < last && columns(last - 1) != w.size; --last)
      taps(last - 1, last, rows_counted * columns(last - 1));
    if (first < last) taps(first, last, rows_counted * w.size);
  }
}

// Windows that lie side by side, all of them in the image: each element is read once, as it lies.
bool Apart(const PoolPrepared& pool, const Images& images) {
  for (int k : {0, 1}) {
    const ops::Window& w = pool.windows[k];
    if (w.size > w.stride || w.before != 0 ||
        SpanOf(w, images.y.dims[2 + k]) > images.x.dims[2 + k])
      return false;
  }
  return true;
}

// `count` rows of one image, from `out` on.
void PoolRowsApart(const PoolPrepared& pool, const PoolRows& steps, const Images& images,
                   const OutputRow& out, int64_t count) {
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  const int64_t row_stride = images.x.strides[2], step = h.stride * row_stride;
  const int64_t divisor = pool.divisor ? pool.divisor : h.size * w.size;
  // Narrow rows are read beyond their end, as far as the images go.
  int64_t end = 1;
  for (int d = 0; d < 4; ++d) end += (images.x.dims[d] - 1) * images.x.strides[d];
  const int64_t first = out.x + out.row * step, row_step = h.dilation * row_stride;
  const PoolTaps windows{images.x.as<const float>() + first,
                         h.size,
                         row_step,
                         end - first - (h.size - 1) * row_step,
                         w.stride,
                         w.size,
                         w.dilation};
  steps.taps(windows, count, step, images.y.dims[3], static_cast<float>(divisor),
             images.y.as<float>() + out.y);
}

template <typename T>
void AdaptiveRow(const Images& images, const OutputRow& out) {
  using Element = Of<T>;
  using Wide = typename Element::Wide;
  const int64_t height = images.x.dims[2], width = images.x.dims[3];
  const int64_t rows = images.y.dims[2], columns = images.y.dims[3];
  const T* const x = images.x.as<const T>() + out.x;
  T* const y = images.y.as<T>() + out.y;
  const int64_t top = out.row * height / rows;
  const int64_t bottom = ((out.row + 1) * height + rows - 1) / rows;
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

// rows(out, count): `count` rows of one image, from `out` on.
template <typename F>
void ForEachRowsOfAnImage(const KernelArgs& args, int64_t reads, F&& rows) {
  const View &x = args.in(0), &y = args.out(0);
  if (y.numel() <= 0) return;
  const int64_t height = y.dims[2], width = y.dims[3];
  args.pool.ParallelFor(y.dims[0] * y.dims[1] * height, RowGrain(width * reads),
                        [&](int64_t begin, int64_t end, int) {
                          RowWalker<1> image(x.dims, 2, {x.strides}, begin / height);
                          for (int64_t r = begin, count; r < end; r += count, image.Next()) {
                            count = std::min(end - r, height - r % height);
                            rows(OutputRow{r % height, image.offset(0), r * width}, count);
                          }
                        });
}

template <typename F>
void ForEachOutputRow(const KernelArgs& args, int64_t reads, F&& row) {
  const int64_t width = args.out(0).dims[3];
  ForEachRowsOfAnImage(args, reads, [&](OutputRow out, int64_t count) {
    for (int64_t r = 0; r < count; ++r, ++out.row, out.y += width) row(out);
  });
}

Status RunPool(const KernelArgs& args) {
  const auto& pool = static_cast<const PoolPrepared&>(*args.prepared);
  const Images images{args.in(0), args.out(0)};
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  if (images.x.dtype == DType::kF32 && images.x.strides[3] == 1 && SpanOf(w, kRun) <= kSpan) {
    const PoolRows steps = FindPoolRows(pool.max);
    const bool apart = Apart(pool, images);
    ForEachRowsOfAnImage(args, h.size + w.size, [&](OutputRow out, int64_t count) {
      if (apart) return PoolRowsApart(pool, steps, images, out, count);
      float line[kSpan + kPoolSlack] = {};
      for (int64_t r = 0; r < count; ++r, ++out.row, out.y += images.y.dims[3])
        PoolRowF32(pool, steps, images, out, line);
    });
    return {};
  }
  WithDType(images.x.dtype, [&](auto type) {
    ForEachOutputRow(args, h.size * w.size,
                     [&](const OutputRow& out) { PoolRow<decltype(type)>(pool, images, out); });
  });
  return {};
}

Status RunAdaptive(const KernelArgs& args) {
  const Images images{args.in(0), args.out(0)};
  if (args.out(0).numel() <= 0) return {};
  const int64_t reads = images.x.dims[2] * images.x.dims[3] / (images.y.dims[2] * images.y.dims[3]);
  const auto run = [&](auto type) {
    ForEachOutputRow(args, reads + 1,
                     [&](const OutputRow& out) { AdaptiveRow<decltype(type)>(images, out); });
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
