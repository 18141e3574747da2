// The convolution as a product: weight [rows, depth] times patches [depth, pixels], where a patch column is
// what one pixel sees. Patches exist only in blocks that fit L2. Vectors run along pixels, so results land
// where they belong, and weights are broadcast out of their panels.
//
// One order of summation for every tile, split and thread count: blocks of kPatchDepth in ascending order,
// each a chain of multiply-adds that starts at 0; bias comes last.
#include "ops/conv/cpu_call.h"

#include <array>
#include <cstring>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv/cpu_product.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backends/cpu/gemm/micro-inl.h"
#include "ops/conv/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using Lane = hn::ScalableTag<float>;
constexpr int kPixelLanes = static_cast<int>(hn::MaxLanes(Lane()));
// 12 accumulators, 3 of pixels and a broadcast are AVX2's 16 registers; the others have 32. Both divide a
// panel's 16 rows.
constexpr int kTileVectors = 3;
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 8 : 4;

struct TileArgs {
  int64_t depth;
  const float* weight;  // [depth][16], from the tile's first row
  const float* pixels;  // [depth][vectors]
  float* c;             // [rows][vectors], rows `ldc` apart
  int64_t ldc;
  bool accumulate;    // c += sum, else c = sum
  const float* bias;  // of the rows, or null: added last
};

template <int kRows, int kWide>
void Tile(const TileArgs& args) {
  const Lane d;
  using V = hn::Vec<Lane>;
  V sum[kRows][kWide];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int v = 0; v < kWide; ++v) sum[r][v] = hn::Zero(d);
  }
  const float* weight = args.weight;
  const float* pixels = args.pixels;
  for (int64_t k = 0; k < args.depth; ++k) {
    V p[kWide];
    HWY_UNROLL(3)
    for (int v = 0; v < kWide; ++v) p[v] = hn::LoadU(d, pixels + v * kPixelLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const V w = hn::Set(d, weight[r]);
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) sum[r][v] = hn::MulAdd(w, p[v], sum[r][v]);
    }
    weight += 16;
    pixels += kWide * kPixelLanes;
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(3)
    for (int v = 0; v < kWide; ++v) {
      float* const c = args.c + r * args.ldc + v * kPixelLanes;
      if (args.accumulate) sum[r][v] = hn::Add(hn::LoadU(d, c), sum[r][v]);
      if (args.bias != nullptr) sum[r][v] = hn::Add(sum[r][v], hn::Set(d, args.bias[r]));
      hn::StoreU(sum[r][v], d, c);
    }
  }
}

using TileFn = void (*)(const TileArgs& args);
template <int... kIndex>
constexpr std::array<TileFn, sizeof...(kIndex)> TileTable(std::integer_sequence<int, kIndex...>) {
  return {&Tile<kIndex / kTileVectors + 1, kIndex % kTileVectors + 1>...};
}
constexpr auto kTiles = TileTable(std::make_integer_sequence<int, kTileRows * kTileVectors>());
constexpr TileFn TileOf(int64_t rows, int64_t vectors) {
  return kTiles[(rows - 1) * kTileVectors + vectors - 1];
}

// A block of pixels, cut into tiles of up to kTileVectors as even as can be.
struct PixelTiles {
  int64_t count, vectors, tiles;
  explicit PixelTiles(int64_t pixels)
      : count(pixels),
        vectors((pixels + kPixelLanes - 1) / kPixelLanes),
        tiles((vectors + kTileVectors - 1) / kTileVectors) {}
  int64_t Begin(int64_t tile) const { return vectors * tile / tiles; }  // in vectors
  int64_t columns() const { return vectors * kPixelLanes; }
};

// Rows [k0, k0 + depth) of the patches, tile by tile: [tile][depth][vectors]. `line` has a row's floats.
template <typename T>
void PackPatches(const ConvCall& call, const ConvTask& task, const PixelTiles& tiles, int64_t k0,
                 int64_t depth, float* line, float* to) {
  const Lane d;
  const int64_t* strides = call.x_strides;
  const int64_t first_channel = task.row_begin / call.group_rows() * call.channels;
  const T* const image = reinterpret_cast<const T*>(call.x) + task.image * strides[0];
  // A pixel's patch is the pixel, and pixels lie side by side: nothing to gather.
  const bool in_place = std::is_same_v<T, float> && call.taps() == 1 && call.h.stride == 1 &&
                        call.w.stride == 1 && call.out_height == call.height &&
                        call.out_width == call.width && strides[3] == 1 &&
                        strides[2] == call.width &&
                        task.pixel_begin + tiles.columns() <= call.pixels();
  FillZero(line + tiles.count, tiles.columns() - tiles.count);
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t channel = (k0 + k) / call.taps(), tap = (k0 + k) % call.taps();
    const T* const plane = image + (first_channel + channel) * strides[1];
    const float* from = line;
    if (in_place) {
      from = reinterpret_cast<const float*>(plane) + task.pixel_begin;
    } else {
      int64_t row = task.pixel_begin / call.out_width, column = task.pixel_begin % call.out_width;
      const int64_t down = tap / call.w.size * call.h.dilation - call.h.before;
      const int64_t right = tap % call.w.size * call.w.dilation - call.w.before;
      for (int64_t at = 0; at < tiles.count; ++row, column = 0) {
        const int64_t left = tiles.count - at, run = call.out_width - column;
        const int64_t count = run < left ? run : left;
        const int64_t y = row * call.h.stride + down;
        if (y < 0 || y >= call.height) {
          FillZero(line + at, count);
        } else {
          PaddedRow(plane + y * strides[2], call.width, strides[3],
                    column * call.w.stride + right, call.w.stride, count, line + at);
        }
        at += count;
      }
    }
    for (int64_t t = 0; t < tiles.tiles; ++t) {
      const int64_t begin = tiles.Begin(t), wide = tiles.Begin(t + 1) - begin;
      float* const row = to + (begin * depth + k * wide) * kPixelLanes;
      for (int64_t v = 0; v < wide; ++v)
        hn::StoreU(hn::LoadU(d, from + (begin + v) * kPixelLanes), d, row + v * kPixelLanes);
    }
  }
}

void Product(const ConvCall& call, const ConvTask& task) {
  const PixelTiles tiles(task.pixel_end - task.pixel_begin);
  const int64_t depth = call.depth(), pixels = call.pixels();
  float* const line = task.scratch;
  float* const packed = line + tiles.columns();
  // Sums of f32 are kept in y itself, others beside it until they are complete.
  const bool f32 = call.dtype == DType::kF32;
  float* const sums = f32 ? reinterpret_cast<float*>(call.y) +
                                (task.image * call.rows + task.row_begin) * pixels + task.pixel_begin
                          : packed + tiles.columns() * (depth < kPatchDepth ? depth : kPatchDepth);
  const int64_t ldc = f32 ? pixels : tiles.columns();
  for (int64_t k0 = 0; k0 < depth; k0 += kPatchDepth) {
    const int64_t block = depth - k0 < kPatchDepth ? depth - k0 : kPatchDepth;
    WithElement(call.dtype, [&](auto type) HWY_ATTR {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
      PackPatches<T>(call, task, tiles, k0, block, line, packed);
    });
    // A tile's rows lie in one panel.
    int64_t rows;
    for (int64_t panel = task.row_begin / 16; panel * 16 < task.row_end; ++panel) {
      const int64_t panel_begin = panel * 16 < task.row_begin ? task.row_begin : panel * 16;
      const int64_t panel_end = panel * 16 + 16 < task.row_end ? panel * 16 + 16 : task.row_end;
      HWY_ALIGN float bias[16] = {};
      const bool add_bias = call.bias != nullptr && k0 + block == depth;
      if (add_bias) {
        WithElement(call.dtype, [&](auto type) HWY_ATTR {
          const auto* from = reinterpret_cast<decltype(type)>(call.bias);
          for (int64_t r = panel_begin; r < panel_end; ++r)
            bias[r - panel_begin] = ToFloat(from[r * call.bias_stride]);
        });
      }
      for (int64_t t = 0; t < tiles.tiles; ++t) {
        const int64_t begin = tiles.Begin(t), wide = tiles.Begin(t + 1) - begin;
        const int64_t column = begin * kPixelLanes;
        const bool whole = !f32 || column + wide * kPixelLanes <= tiles.count;
        for (int64_t row = panel_begin; row < panel_end; row += rows) {
          rows = panel_end - row < kTileRows ? panel_end - row : kTileRows;
          TileArgs args;
          args.depth = block;
          args.weight = call.panels + (panel * depth + k0) * 16 + row % 16;
          args.pixels = packed + column * block;
          args.accumulate = k0 > 0;
          args.bias = add_bias ? bias + (row - panel_begin) : nullptr;
          args.c = sums + (row - task.row_begin) * ldc + column;
          args.ldc = ldc;
          if (whole) {
            TileOf(rows, wide)(args);
            continue;
          }
          // The last pixels of a block of y: what lies behind them is another's.
          HWY_ALIGN float edge[kTileRows * kTileVectors * kPixelLanes];
          const int64_t live = tiles.count - column;
          float* const c = args.c;
          args.c = edge;
          args.ldc = kTileVectors * kPixelLanes;
          for (int64_t r = 0; args.accumulate && r < rows; ++r)
            std::memcpy(edge + r * args.ldc, c + r * ldc, live * sizeof(float));
          TileOf(rows, wide)(args);
          for (int64_t r = 0; r < rows; ++r)
            std::memcpy(c + r * ldc, edge + r * args.ldc, live * sizeof(float));
        }
      }
    }
  }
  if (f32) return;
  WithElement(call.dtype, [&](auto type) HWY_ATTR {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t row = task.row_begin; row < task.row_end; ++row)
      NarrowRow(sums + (row - task.row_begin) * ldc, tiles.count,
                reinterpret_cast<T*>(call.y) + (task.image * call.rows + row) * pixels +
                    task.pixel_begin);
  });
}

void PackWeight(const View& weight, int64_t panel, float* to) {
  const int64_t rows = weight.dims[0], depth = weight.dims[1], row = panel * 16;
  WithElement(weight.dtype, [&](auto type) HWY_ATTR {
    const auto* from = reinterpret_cast<decltype(type)>(weight.data);
    if (weight.layout == ir::ConstantLayout::kPanel16)
      return WidenRow(from + row * depth, depth * 16, to);
    PackPanel(from + row * weight.strides[0], weight.strides[1], weight.strides[0], depth,
              rows - row < 16 ? rows - row : 16, to);
  });
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {
LS_SIMD_TABLE(Product);
LS_SIMD_TABLE(PackWeight);
}  // namespace

ProductFn FindProduct() { return LS_SIMD(Product); }
PackWeightFn FindPackWeight() { return LS_SIMD(PackWeight); }

}  // namespace liveshape::cpu
#endif
