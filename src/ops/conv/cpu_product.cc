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
  const float* next;  // [depth][16] that comes next: fetched into L2. Any address
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
  const float* next = args.next;
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
    __builtin_prefetch(next, 0, 2);
    next += 16;
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
  int64_t least, wider;  // vectors of a tile; the first `wider` have one more
  explicit PixelTiles(int64_t pixels)
      : count(pixels),
        vectors((pixels + kPixelLanes - 1) / kPixelLanes),
        tiles((vectors + kTileVectors - 1) / kTileVectors),
        least(vectors / tiles),
        wider(vectors % tiles) {}
  int64_t Begin(int64_t tile) const {  // in vectors; without a division, it is asked in inner loops
    return tile * least + (tile < wider ? tile : wider);
  }
  int64_t columns() const { return vectors * kPixelLanes; }
};

// Rows [k0, k0 + depth) of the patches, tile by tile: [tile][depth][vectors].
template <typename T>
void PackPatches(const ConvCall& call, const ConvTask& task, const PixelTiles& tiles, int64_t k0,
                 int64_t depth, float* image, float* line, float* to) {
  const Lane d;
  const int64_t* strides = call.x_strides;
  const int64_t first_channel = task.row_begin / call.group_rows() * call.channels;
  const T* const planes =
      reinterpret_cast<const T*>(call.x) + task.image * strides[0] + first_channel * strides[1];
  const int64_t width = task.right - task.left, height = task.bottom - task.top;
  const int64_t row_step = ImageLine(call.w, width) * call.h.stride;
  // A pixel's patch is the pixel, and whole vectors of them lie side by side: nothing to lay out.
  const bool in_place = std::is_same_v<T, float> && call.is_pointwise() && strides[3] == 1 &&
                        height == 1 && task.left + tiles.columns() <= call.width;
  int64_t channel = k0 / call.taps(), p = k0 % call.taps() / call.w.size, q = k0 % call.w.size;
  for (int64_t k = 0; k < depth; ++k) {
    const T* const plane = planes + channel * strides[1];
    const float* from = line;
    if (in_place) {
      from = reinterpret_cast<const float*>(plane + task.top * strides[2] + task.left);
    } else {
      if (k == 0 || (p == 0 && q == 0))
        LayOut(call, plane, task.top, task.bottom, task.left, task.right, image);
      from = image + TapOffset(call, width, p, q);
      if (height > 1) {  // rows side by side; what a vector has beyond one, the next overwrites
        for (int64_t i = 0; i < height; ++i)
          for (int64_t j = 0; j < width; j += kPixelLanes)
            hn::StoreU(hn::LoadU(d, from + i * row_step + j), d, line + i * width + j);
        from = line;
      }
    }
    for (int64_t t = 0; t < tiles.tiles; ++t) {
      const int64_t begin = tiles.Begin(t), wide = tiles.Begin(t + 1) - begin;
      const float* const tile = from + begin * kPixelLanes;
      float* const row = to + (begin * depth + k * wide) * kPixelLanes;
      hn::StoreU(hn::LoadU(d, tile), d, row);
      if (wide > 1) hn::StoreU(hn::LoadU(d, tile + kPixelLanes), d, row + kPixelLanes);
      if (wide > 2) hn::StoreU(hn::LoadU(d, tile + 2 * kPixelLanes), d, row + 2 * kPixelLanes);
    }
    if (++q < call.w.size) continue;
    q = 0;
    if (++p < call.h.size) continue;
    p = 0;
    ++channel;
  }
}

// Sums of a block of pixels, complete or to be added to: rows `ld` apart, whole vectors if `padded`.
struct Sums {
  float* data;
  int64_t ld;
  bool padded;
};

// One panel of the weight times the packed patches.
void PanelProduct(const ConvCall& call, const ConvTask& task, const PixelTiles& tiles,
                  int64_t panel, int64_t k0, int64_t depth, const float* packed, const Sums& sums) {
  const int64_t begin = panel * 16 < task.row_begin ? task.row_begin : panel * 16;
  const int64_t end = panel * 16 + 16 < task.row_end ? panel * 16 + 16 : task.row_end;
  HWY_ALIGN float bias[16] = {};
  const bool add_bias = call.bias != nullptr && k0 + depth == call.depth();
  if (add_bias) {
    WithElement(call.dtype, [&](auto type) HWY_ATTR {
      const auto* from = reinterpret_cast<decltype(type)>(call.bias);
      for (int64_t r = begin; r < end; ++r) bias[r - begin] = ToFloat(from[r * call.bias_stride]);
    });
  }
  const float* const weight = call.panels + (panel * call.depth() + k0) * 16;
  for (int64_t t = 0; t < tiles.tiles; ++t) {
    const int64_t column = tiles.Begin(t) * kPixelLanes;
    const int64_t wide = tiles.Begin(t + 1) - tiles.Begin(t);
    const bool whole = sums.padded || column + wide * kPixelLanes <= tiles.count;
    for (int64_t row = begin, rows; row < end; row += rows) {
      rows = end - row < kTileRows ? end - row : kTileRows;
      TileArgs args;
      args.depth = depth;
      args.weight = weight + row % 16;
      // While the first tile works, the next panel's block comes.
      args.next = t == 0 && row == begin ? weight + call.depth() * 16 : weight;
      args.pixels = packed + column * depth;
      args.accumulate = k0 > 0;
      args.bias = add_bias ? bias + (row - begin) : nullptr;
      args.c = sums.data + (row - task.row_begin) * sums.ld + column;
      args.ldc = sums.ld;
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
        std::memcpy(edge + r * args.ldc, c + r * sums.ld, live * sizeof(float));
      TileOf(rows, wide)(args);
      for (int64_t r = 0; r < rows; ++r)
        std::memcpy(c + r * sums.ld, edge + r * args.ldc, live * sizeof(float));
    }
  }
}

void Product(const ConvCall& call, const ConvTask& task) {
  const int64_t height = task.bottom - task.top, width = task.right - task.left;
  const PixelTiles tiles(height * width);
  const ProductScratch layout(call.h, call.w, height, width, call.depth(), call.dtype);
  float* const image = task.scratch;
  float* const line = image + layout.image;
  float* const packed = line + layout.line;
  const int64_t first_pixel = task.top * call.out_width + task.left;
  const auto y_offset = [&](int64_t row) {
    return (task.image * call.rows + row) * call.pixels() + first_pixel;
  };
  // Sums of f32 are kept in y itself, others beside it until they are complete.
  const bool f32 = call.dtype == DType::kF32;
  Sums sums = {packed + layout.packed, tiles.columns(), true};
  if (f32)
    sums = {reinterpret_cast<float*>(call.y) + y_offset(task.row_begin), call.pixels(), false};

  // Blocks of whole channels where one fits.
  const int64_t taps = call.taps();
  const int64_t most = taps < kPatchDepth ? kPatchDepth / taps * taps : kPatchDepth;
  for (int64_t k0 = 0; k0 < call.depth(); k0 += most) {
    const int64_t depth = call.depth() - k0 < most ? call.depth() - k0 : most;
    WithElement(call.dtype, [&](auto type) HWY_ATTR {
      using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
      PackPatches<T>(call, task, tiles, k0, depth, image, line, packed);
    });
    for (int64_t panel = task.row_begin / 16; panel * 16 < task.row_end; ++panel)
      PanelProduct(call, task, tiles, panel, k0, depth, packed, sums);
  }
  if (f32) return;
  WithElement(call.dtype, [&](auto type) HWY_ATTR {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    for (int64_t row = task.row_begin; row < task.row_end; ++row)
      NarrowRow(sums.data + (row - task.row_begin) * sums.ld, tiles.count,
                reinterpret_cast<T*>(call.y) + y_offset(row));
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
