#include "ops/conv/cpu_winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv/cpu_winograd.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "ops/conv/rows-inl.h"
#include "ops/conv/tile-inl.h"
#include "ops/conv/winograd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kSumBlock = 128;  // terms of one chain of multiply-adds, at most

void WinogradWeight(const ConvCall& call, int64_t panel, float* points) {
  call.w.stride == 1 ? WeightPoints<1>(call, panel, points) : WeightPoints<2>(call, panel, points);
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

// How a block lies in scratch. Points are an odd number of cache lines apart: several are written and read together, and
// would meet in one set of L1 if they were whole pages apart.
struct Block {
  int64_t tiles;
  int64_t line = OddLines(tiles + kVectorSlack);
  int64_t point_step, sum_step;
  Block(int64_t tiles, int64_t channels)
      : tiles(tiles), point_step(OddLines(channels * line)), sum_step(OddLines(16 * line)) {}
};

// The products of one panel. points: [point][channel][line], sums: [sum][16][line]; offsets of the channels of one point
// and of the next.
template <int kStride>
void PanelSums(const ConvCall& call, const float* weight, const float* points, const Block& block,
               const int64_t* offsets, float* sums) {
  const PixelTiles cut(1, block.tiles);
  TileArgs args;
  args.ldc = block.line;
  args.bias = nullptr;
  args.repeats = 16 / kTileRows;
  // `depth` terms, from these on.
  const auto add = [&](const float* from, const float* by, int64_t depth, float* to) HWY_ATTR {
    const int64_t blocks = (depth + kSumBlock - 1) / kSumBlock;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t k0 = depth * i / blocks;
      args.depth = depth * (i + 1) / blocks - k0;
      args.offsets = offsets + k0;
      args.weight = by + k0 * 16;
      args.next = args.weight + args.depth * 16;
      int64_t at = 0;
      for (int64_t t = 0; t < cut.tiles; ++t) {
        const int64_t wide = cut.least + (t < cut.wider ? 1 : 0);
        for (int64_t v = 0; v < wide; ++v, at += kPixelLanes) {
          args.pixels[v] = from + at;
          args.c[v] = to + at;
        }
        TileOf(kTileRows, wide, t == 0)(args);
      }
      args.accumulate = true;
    }
  };
  constexpr int64_t kPoints = WinogradFormOf(kStride).points;
  for (const Terms& down : Form<kStride>::kTerms) {
    for (const Terms& across : Form<kStride>::kTerms) {
      args.accumulate = false;
      for (int64_t p = 0; p < down.count; ++p) {
        const int64_t point = (down.point + p) * kPoints + across.point;
        const int64_t by = (down.weight + p) * kWeightPoints + across.weight;
        add(points + point * block.point_step, weight + by * call.channels * 16,
            across.count * call.channels, sums);
      }
      sums += block.sum_step;
    }
  }
}

template <int kStride>
bool BlockOf(const ConvCall& call, const WinogradTask& task) {
  constexpr WinogradForm kForm = WinogradFormOf(kStride);
  const int64_t columns = task.right - task.left, channels = call.channels;
  const Block block((task.end - task.begin) * columns, channels);
  const int64_t beyond = call.out_width - 2 * task.left;
  const int64_t width = beyond < 2 * columns ? beyond : 2 * columns;
  ConvCall windows = call;  // down, a tile as a pixel; across, all that tiles see
  windows.h = {.size = kForm.seen, .stride = kForm.move(), .before = call.h.before};
  windows.w = {.size = 1, .before = call.w.before};
  const int64_t left = kForm.move() * task.left;
  const int64_t right = left + kForm.move() * (columns - 1) + kForm.seen;
  int64_t* const offsets = reinterpret_cast<int64_t*>(task.scratch);
  float* const points = task.scratch + OddLines(4 * channels);
  float* const sums = points + kForm.image_points() * block.point_step;
  float* const rows = sums + kForm.tile_sums() * block.sum_step;
  for (int64_t c = 0; c < channels; ++c) {
    offsets[c] = c * block.line;
    offsets[channels + c] = block.point_step + c * block.line;
  }

  bool finite = true;
  ForEachImage(call, task, [&](int64_t n, int64_t top, int64_t count, int64_t at) HWY_ATTR {
    const TileImage image = {rows, count, columns, ImageLine(windows.w, right - left)};
    for (int64_t c = 0; c < channels && finite; ++c) {
      const float* plane =
          reinterpret_cast<const float*>(call.x) + n * call.x_strides[0] + c * call.x_strides[1];
      LayOut(windows, plane, top, top + count, left, right, rows);
      finite = ImageToPoints<kStride>(image, points + c * block.line + at, block.point_step);
    }
  });
  if (!finite) return false;

  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    PanelSums<kStride>(call, task.weight + panel * PanelPoints(channels), points, block, offsets,
                       sums);
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
          SumsToPixels<kStride>(sums + r * block.line + at + i * columns, block.sum_step, columns,
                                width, bias, upper,
                                y + 1 < call.out_height ? upper + call.out_width : nullptr);
        }
      }
    });
  }
  return true;
}

bool WinogradBlock(const ConvCall& call, const WinogradTask& task) {
  return call.w.stride == 1 ? BlockOf<1>(call, task) : BlockOf<2>(call, task);
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
