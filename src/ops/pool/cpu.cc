// Pools, an output row at a time: taps are taken one by one over a run of pixels, so that the inner loop has
// neither bounds nor divisions. f16 and bf16 are computed in f32 and rounded once.
#include <limits>

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/rows.h"
#include "ops/ops.h"
#include "ops/pool/cpu_f32.h"

namespace liveshape::cpu {
namespace {

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
  for (int64_t begin = 0; begin < images.y.dims[3]; begin += kPoolRun) {
    const int64_t end = std::min(begin + kPoolRun, images.y.dims[3]);
    Wide sums[kPoolRun];
    const Wide lowest = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    std::fill_n(sums, kPoolRun, pool.max ? lowest : Wide{0});
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
  if (PoolF32Serves(pool, images)) {
    const PoolF32 f32(pool, images);
    const View& y = images.y;
    if (f32.stacked() && y.numel() > 0) {
      args.pool.ParallelFor(y.numel() / y.dims[3], RowGrain(y.dims[3] * (h.size + w.size)),
                            [&](int64_t begin, int64_t end, int) {
                              f32.Rows({begin, 0, begin * y.dims[3]}, end - begin);
                            });
      return {};
    }
    ForEachRowsOfAnImage(args, h.size + w.size,
                         [&](const OutputRow& out, int64_t count) { f32.Rows(out, count); });
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
