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

constexpr int64_t kSumBlock = kStepDepth;  // terms of one chain of multiply-adds, at most

void WinogradWeight(const ConvCall& call, int64_t panel, float* points) {
  call.w.stride == 1 ? WeightPoints<1>(call, panel, points) : WeightPoints<2>(call, panel, points);
}

// One phase of one image: every dth row and column of what is read and written, as an image without dilation.
struct PhaseImage {
  const float* x;
  float* y;
  int64_t x_strides[4];
  ConvCall call;  // x_strides are these
  PhaseImage(const ConvCall& all, int64_t image, int64_t row, int64_t column)
      : x(reinterpret_cast<const float*>(all.x) + image * all.x_strides[0]),
        y(reinterpret_cast<float*>(all.y) + image * all.rows * all.pixels() + row * all.out_width +
          column),
        x_strides{all.x_strides[0], all.x_strides[1], all.x_strides[2] * all.h.dilation,
                  all.x_strides[3] * all.w.dilation},
        call(all) {
    // The first pixel's first tap is `first` in the image: which of its phases, and how many of that lie before it.
    const auto phase = [](ops::Window& v, int64_t pixel, int64_t& extent, int64_t& out) {
      const int64_t d = v.dilation, first = pixel - v.before;
      const int64_t before = first < 0 ? DivideUp(-first, d) : 0, begin = first + before * d;
      v = {.size = v.size, .stride = v.stride, .before = before};
      extent = extent > begin ? DivideUp(extent - begin, d) : 0;
      out = out > pixel ? DivideUp(out - pixel, d) : 0;
      return begin;
    };
    x += phase(call.h, row, call.height, call.out_height) * all.x_strides[2];
    x += phase(call.w, column, call.width, call.out_width) * all.x_strides[3];
    call.x_strides = x_strides;
  }
};

// f(phase, first tile row in it, rows, tiles of the block before them): the images that a task sees.
template <typename F>
HWY_INLINE void ForEachImage(const ConvCall& call, const WinogradTask& task, F&& f) {
  const int64_t image_rows = Winograd(call.h, call.w).ImageRows(call.out_height);
  const int64_t columns = task.right - task.left, across = call.w.dilation;
  for (int64_t row = task.begin; row < task.end;) {
    const int64_t image = row / image_rows, top = row % image_rows;
    const int64_t rows = image_rows - top < task.end - row ? image_rows - top : task.end - row;
    const PhaseImage phase(call, image / (call.h.dilation * across),
                           image / across % call.h.dilation, image % across);
    f(phase, top, rows, (row - task.begin) * columns);
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

// The products of some panels. points: [point][part][channel][line], sums: [panel][sum][16][line]; offsets of the channels
// of one point and of the next.
template <int kStride>
void PanelSums(const Winograd& winograd, int64_t channels, const float* weight, int64_t panels,
               const float* points, const Block& block, const int64_t* offsets, float* sums) {
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
  constexpr WinogradForm kForm = WinogradFormOf(kStride);
  constexpr int64_t kPoints = kForm.points;
  const int64_t row_parts = winograd.across.count(), all = winograd.parts() * channels;
  const auto sum = [&](const Terms& down, const Terms& across, const float* weight,
                       float* sums) HWY_ATTR {
    args.accumulate = false;
    for (int64_t p = 0; p < down.count; ++p) {
      const int64_t point = (down.point + p) * kPoints + across.point;
      const int64_t by = (down.weight + p) * kWeightPoints + across.weight;
      // Parts that have a weight here: all at once, or those of each row of them.
      const int64_t some = winograd.across.count_at(across.weight);
      const int64_t rows = winograd.down.count_at(down.weight + p);
      const int64_t runs = some == row_parts ? 1 : rows, count = some * rows / runs;
      for (int64_t i = 0; i < runs; ++i) {
        const int64_t first = i * row_parts * channels;
        add(points + point * block.point_step + first * block.line,
            weight + (by * all + first) * 16, across.count * count * channels, sums);
      }
    }
    if (!args.accumulate) FillZero(sums, 16 * block.line);
  };
  for (const Terms& down : Form<kStride>::kTerms) {
    for (const Terms& across : Form<kStride>::kTerms) {
      for (int64_t i = 0; i < panels; ++i)
        sum(down, across, weight + i * winograd.PanelPoints(channels),
            sums + i * kForm.tile_sums() * block.sum_step);
      sums += block.sum_step;
    }
  }
}

template <int kStride>
bool BlockOf(const ConvCall& call, const WinogradTask& task) {
  constexpr WinogradForm kForm = WinogradFormOf(kStride);
  const Winograd winograd(call.h, call.w);
  const WindowParts &tall = winograd.down, &wide = winograd.across;
  const int64_t columns = task.right - task.left, channels = call.channels;
  const int64_t all = winograd.parts() * channels;
  const Block block((task.end - task.begin) * columns, all);
  const int64_t left = kForm.move() * task.left;
  const int64_t right = left + kForm.move() * (columns - 1) + winograd.seen(wide);
  int64_t* const offsets = reinterpret_cast<int64_t*>(task.scratch);
  float* const points = task.scratch + OddLines(4 * all);
  float* const sums = points + kForm.image_points() * block.point_step;
  const int64_t panel_sums = kForm.tile_sums() * block.sum_step,
                at_once = winograd.PanelsAtOnce(channels);
  float* const rows = sums + at_once * panel_sums;
  for (int64_t c = 0; c < all; ++c) {
    offsets[c] = c * block.line;
    offsets[all + c] = block.point_step + c * block.line;
  }

  bool finite = true;
  ForEachImage(
      call, task, [&](const PhaseImage& phase, int64_t top, int64_t count, int64_t at) HWY_ATTR {
        ConvCall windows = phase.call;  // down, a tile as a pixel; across, all that tiles see
        windows.h.size = winograd.seen(tall);
        windows.h.stride = kForm.move();
        windows.w.size = windows.w.stride = 1;
        const int64_t line = ImageLine(windows.w, right - left);
        for (int64_t c = 0; c < channels && finite; ++c) {
          LayOut(windows, phase.x + c * call.x_strides[1], top, top + count, left, right, rows);
          float* to = points + c * block.line + at;
          for (int64_t i = 0; i < tall.count(); ++i)
            for (int64_t j = 0; j < wide.count(); ++j, to += channels * block.line) {
              const float* const seen = rows + tall.begin(i) * line + wide.begin(j);
              finite &= ImageToPoints<kStride>({seen, count, columns, line}, to, block.point_step);
            }
        }
      });
  if (!finite) return false;

  for (int64_t panel = task.panel_begin, of = 0; panel < task.panel_end;
       ++panel, of = (of + 1) % at_once) {
    if (of == 0)
      PanelSums<kStride>(winograd, channels, task.weight + panel * winograd.PanelPoints(channels),
                         std::min(at_once, task.panel_end - panel), points, block, offsets, sums);
    const int64_t live = call.rows - panel * 16 < 16 ? call.rows - panel * 16 : 16;
    ForEachImage(
        call, task, [&](const PhaseImage& phase, int64_t top, int64_t count, int64_t at) HWY_ATTR {
          const int64_t width = phase.call.out_width - 2 * task.left, apart = call.w.dilation;
          const int64_t row_step = call.out_width * call.h.dilation;
          for (int64_t r = 0; r < live; ++r) {
            const int64_t row = panel * 16 + r;
            const float bias =
                call.bias ? reinterpret_cast<const float*>(call.bias)[row * call.bias_stride] : 0;
            float* const plane = phase.y + row * call.pixels() + 2 * task.left * apart;
            for (int64_t i = 0; i < count && 2 * (top + i) < phase.call.out_height; ++i) {
              const int64_t y = 2 * (top + i);
              float* const upper = plane + y * row_step;
              SumsToPixels<kStride>(sums + of * panel_sums + r * block.line + at + i * columns,
                                    block.sum_step, columns, width, bias, upper,
                                    y + 1 < phase.call.out_height ? upper + row_step : nullptr,
                                    apart);
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
