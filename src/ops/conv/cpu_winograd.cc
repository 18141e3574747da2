#include "ops/conv/cpu_winograd.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv/cpu_winograd.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/conv/rows-inl.h"
#include "ops/conv/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using Vec = hn::Vec<Lane>;
constexpr int64_t kSumBlock = 128;  // channels of one chain of multiply-adds

// Along one dim, three weights become four points.
HWY_INLINE void WeightPoints(Vec a, Vec b, Vec c, Vec (&to)[4]) {
  const auto half = hn::Set(Lane(), 0.5f);
  const auto ends = hn::Add(a, c);
  to[0] = a;
  to[1] = hn::Mul(half, hn::Add(ends, b));
  to[2] = hn::Mul(half, hn::Sub(ends, b));
  to[3] = c;
}

void WinogradWeight(const ConvCall& call, int64_t panel, float* points) {
  const Lane d;
  const float* from = call.panels + panel * call.depth() * 16;
  for (int64_t c = 0; c < call.channels; ++c, from += 9 * 16) {
    for (int64_t lane = 0; lane < 16; lane += kPixelLanes) {
      Vec across[3][4];
      for (int p = 0; p < 3; ++p) {
        const float* row = from + p * 3 * 16 + lane;
        WeightPoints(hn::LoadU(d, row), hn::LoadU(d, row + 16), hn::LoadU(d, row + 32), across[p]);
      }
      for (int q = 0; q < 4; ++q) {
        Vec down[4];
        WeightPoints(across[0][q], across[1][q], across[2][q], down);
        for (int p = 0; p < 4; ++p)
          hn::StoreU(down[p], d, points + ((p * 4 + q) * call.channels + c) * 16 + lane);
      }
    }
  }
}

// What LayOut gives for windows of 4 that move by 2: of each row, even columns and odd ones.
struct TileImage {
  float* data;
  int64_t rows, columns;  // tiles
  int64_t line;
  int64_t phase() const { return line / 2; }
  int64_t image_rows() const { return 2 * rows + 2; }
};

bool AllFinite(const TileImage& image) {
  const Lane d;
  Vec any = hn::Zero(d);
  float rest = 0;
  for (int64_t r = 0; r < 2 * image.image_rows(); ++r) {
    const float* row = image.data + r * image.phase();
    const int64_t count = image.columns + 1;
    int64_t i = 0;
    for (; i + kPixelLanes <= count; i += kPixelLanes)
      any = hn::MulAdd(hn::LoadU(d, row + i), hn::Zero(d), any);
    for (; i < count; ++i) rest += row[i] * 0.0f;
  }
  HWY_ALIGN float lanes[kPixelLanes];
  hn::Store(any, d, lanes);
  for (const float lane : lanes) rest += lane;
  return rest == 0;
}

HWY_INLINE void ImagePoints(Vec a, Vec b, Vec c, Vec e, Vec (&to)[4]) {
  to[0] = hn::Sub(a, c);
  to[1] = hn::Add(b, c);
  to[2] = hn::Sub(c, b);
  to[3] = hn::Sub(b, e);
}

// Points of one channel, each `step` from the next, tiles side by side. A row's last vector ends with it, or, where rows
// are shorter than a vector, is overwritten by the next row's.
void ImageToPoints(const TileImage& image, float* points, int64_t step) {
  const Lane d;
  for (int64_t t = 0; t < image.columns; t += kPixelLanes) {
    if (t > 0 && t + kPixelLanes > image.columns) t = image.columns - kPixelLanes;
    const auto row = [&](int64_t r, Vec(&to)[4]) HWY_ATTR {
      const float* even = image.data + r * image.line + t;
      const float* odd = even + image.phase();
      ImagePoints(hn::LoadU(d, even), hn::LoadU(d, odd), hn::LoadU(d, even + 1),
                  hn::LoadU(d, odd + 1), to);
    };
    Vec r0[4], r1[4], r2[4], r3[4];
    row(0, r0), row(1, r1);
    for (int64_t i = 0; i < image.rows; ++i) {
      row(2 * i + 2, r2), row(2 * i + 3, r3);
      float* to = points + i * image.columns + t;
      HWY_UNROLL(4)
      for (int q = 0; q < 4; ++q) {
        Vec down[4];
        ImagePoints(r0[q], r1[q], r2[q], r3[q], down);
        HWY_UNROLL(4)
        for (int p = 0; p < 4; ++p) hn::StoreU(down[p], d, to + (p * 4 + q) * step);
        r0[q] = r2[q], r1[q] = r3[q];
      }
    }
  }
}

// 2 pixels of 4 sums.
HWY_INLINE void PixelPair(Vec a, Vec b, Vec c, Vec e, Vec& first, Vec& second) {
  first = hn::Add(hn::Add(a, b), c);
  second = hn::Sub(hn::Sub(b, c), e);
}

// Tiles [0, columns) of one tile row: sums `step` apart to pixels of two rows, of which `width` are in the image.
void SumsToPixels(const float* sums, int64_t step, int64_t columns, int64_t width, float bias,
                  float* upper, float* lower) {
  const Lane d;
  const auto b = hn::Set(d, bias);
  const auto store = [&](Vec even, Vec odd, int64_t t, float* to) HWY_ATTR {
    if (2 * (t + kPixelLanes) <= width)
      return hn::StoreInterleaved2(hn::Add(even, b), hn::Add(odd, b), d, to + 2 * t);
    HWY_ALIGN float edge[2 * kPixelLanes];
    hn::StoreInterleaved2(hn::Add(even, b), hn::Add(odd, b), d, edge);
    std::memcpy(to + 2 * t, edge, (width - 2 * t) * sizeof(float));
  };
  for (int64_t t = 0; t < columns; t += kPixelLanes) {
    if (t > 0 && t + kPixelLanes > columns) t = columns - kPixelLanes;
    Vec up[4], down[4], even, odd;
    HWY_UNROLL(4)
    for (int q = 0; q < 4; ++q) {
      const float* from = sums + q * step + t;
      PixelPair(hn::LoadU(d, from), hn::LoadU(d, from + 4 * step), hn::LoadU(d, from + 8 * step),
                hn::LoadU(d, from + 12 * step), up[q], down[q]);
    }
    PixelPair(up[0], up[1], up[2], up[3], even, odd);
    store(even, odd, t, upper);
    if (lower == nullptr) continue;
    PixelPair(down[0], down[1], down[2], down[3], even, odd);
    store(even, odd, t, lower);
  }
}

// f(image, first tile row in it, rows, tiles of the block before them): the images that a task sees.
template <typename F>
HWY_INLINE void ForEachImage(const ConvCall& call, const WinogradTask& task, F&& f) {
  const int64_t image_rows = (call.out_height + 1) / 2, columns = task.right - task.left;
  for (int64_t row = task.begin; row < task.end;) {
    const int64_t image = row / image_rows, top = row % image_rows;
    const int64_t rows = image_rows - top < task.end - row ? image_rows - top : task.end - row;
    f(image, top, rows, (row - task.begin) * columns);
    row += rows;
  }
}

// How a block lies in scratch. Points are an odd number of cache lines apart: 16 of them are written and read together,
// and would meet in one set of L1 if they were whole pages apart.
struct Block {
  int64_t tiles;
  int64_t line = OddLines(tiles + kVectorSlack);
  int64_t point_step, sum_step;
  Block(int64_t tiles, int64_t channels)
      : tiles(tiles), point_step(OddLines(channels * line)), sum_step(OddLines(16 * line)) {}
};

// The 16 products of one panel. points: [point][channel][line], sums: [point][16][line].
void PanelSums(const ConvCall& call, const float* weight, const float* points, const Block& block,
               const int64_t* offsets, float* sums) {
  const PixelTiles cut(1, block.tiles);
  TileArgs args;
  args.ldc = block.line;
  args.offsets = offsets;
  args.bias = nullptr;
  args.repeats = 16 / kTileRows;
  for (int64_t point = 0; point < kPoints; ++point) {
    for (int64_t k0 = 0; k0 < call.channels; k0 += kSumBlock) {
      args.depth = call.channels - k0 < kSumBlock ? call.channels - k0 : kSumBlock;
      args.accumulate = k0 > 0;
      args.weight = weight + (point * call.channels + k0) * 16;
      args.next = args.weight + call.channels * 16;
      int64_t at = 0;
      for (int64_t t = 0; t < cut.tiles; ++t) {
        const int64_t wide = cut.least + (t < cut.wider ? 1 : 0);
        for (int64_t v = 0; v < wide; ++v, at += kPixelLanes) {
          args.pixels[v] = points + point * block.point_step + k0 * block.line + at;
          args.c[v] = sums + point * block.sum_step + at;
        }
        TileOf(kTileRows, wide, t == 0)(args);
      }
    }
  }
}

bool WinogradBlock(const ConvCall& call, const WinogradTask& task) {
  const int64_t columns = task.right - task.left, channels = call.channels;
  const Block block((task.end - task.begin) * columns, channels);
  const int64_t beyond = call.out_width - 2 * task.left;
  const int64_t width = beyond < 2 * columns ? beyond : 2 * columns;
  ConvCall windows = call;  // tiles as pixels
  windows.h = {.size = 4, .stride = 2, .before = call.h.before};
  windows.w = {.size = 4, .stride = 2, .before = call.w.before};
  int64_t* const offsets = reinterpret_cast<int64_t*>(task.scratch);
  float* const points = task.scratch + OddLines(2 * channels);
  float* const sums = points + kPoints * block.point_step;
  float* const rows = sums + kPoints * block.sum_step;
  for (int64_t c = 0; c < channels; ++c) offsets[c] = c * block.line;

  bool finite = true;
  ForEachImage(call, task, [&](int64_t n, int64_t top, int64_t count, int64_t at) HWY_ATTR {
    const TileImage image = {rows, count, columns, ImageLine(windows.w, columns)};
    for (int64_t c = 0; c < channels && finite; ++c) {
      const float* plane =
          reinterpret_cast<const float*>(call.x) + n * call.x_strides[0] + c * call.x_strides[1];
      LayOut(windows, plane, top, top + count, task.left, task.right, image.data);
      finite = AllFinite(image);
      ImageToPoints(image, points + c * block.line + at, block.point_step);
    }
  });
  if (!finite) return false;

  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    PanelSums(call, task.weight + panel * kPoints * channels * 16, points, block, offsets, sums);
    const int64_t live = call.rows - panel * 16 < 16 ? call.rows - panel * 16 : 16;
    ForEachImage(call, task, [&](int64_t n, int64_t top, int64_t count, int64_t at) HWY_ATTR {
      for (int64_t r = 0; r < live; ++r) {
        const int64_t row = panel * 16 + r;
        const float bias =
            call.bias ? reinterpret_cast<const float*>(call.bias)[row * call.bias_stride] : 0;
        float* plane = reinterpret_cast<float*>(call.y) + (n * call.rows + row) * call.pixels();
        for (int64_t i = 0; i < count; ++i) {
          const int64_t y = 2 * (top + i);
          float* upper = plane + y * call.out_width + 2 * task.left;
          SumsToPixels(sums + r * block.line + at + i * columns, block.sum_step, columns, width,
                       bias, upper, y + 1 < call.out_height ? upper + call.out_width : nullptr);
        }
      }
    });
  }
  return true;
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(WinogradWeight);
LS_SIMD_TABLE(WinogradBlock);
}  // namespace

WinogradFns FindWinograd() { return {LS_SIMD(WinogradWeight), LS_SIMD(WinogradBlock)}; }

}  // namespace liveshape::cpu
#endif
