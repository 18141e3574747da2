// Tiles of a product whose weight comes in panels of 16 rows and whose other side is found by a table of offsets:
// vectors run along pixels, weights are broadcast. For pixels that fill no vector it is the other way round (LastPixels).
#if defined(LIVESHAPE_CONV_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_TILE_INL_H_
#undef LIVESHAPE_CONV_TILE_INL_H_
#else
#define LIVESHAPE_CONV_TILE_INL_H_
#endif

#include <array>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "ops/conv/cpu_call.h"
#include "ops/conv/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// 12 accumulators, 3 of pixels and a broadcast are AVX2's 16 registers; the others have 32. Both divide a
// panel's 16 rows.
constexpr int kTileVectors = 3;
constexpr int kTileRows = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 8 : 4;
// Terms of one chain of multiply-adds, about; and the panels of 16 rows that a tile takes one after another. AVX-512 reads
// its pixels from L2 half as often, and has more of that cache: longer chains and more panels at once save 3 % there, where
// AVX2 takes 12 % longer with such chains (1 x 1 of 256 channels on Zen 4).
constexpr int64_t kStepDepth = HWY_TARGET == HWY_AVX3 ? kMostPatchDepth : kPatchDepth;
constexpr int64_t kTilePanels = HWY_TARGET == HWY_AVX3 ? kMostRoom : 1;

struct TileArgs {
  int64_t depth;
  int64_t repeats;                    // tiles below one another, of the same pixels
  const float* weight;                // [depth][16], from the first tile's first row
  int64_t panel_step = 0;             // to the weight of 16 rows on, if there are so many
  const float* pixels[kTileVectors];  // what each vector's offset 0 is
  const int64_t* offsets;             // [depth]: from there to what this row of the patches holds
  float* c[kTileVectors];             // of each vector: the first row, others `ldc` apart
  int64_t ldc;
  bool accumulate;    // c += sum, else c = sum
  const float* bias;  // of the rows, or null: added last
  const float*
      next;  // `depth` lines that come next, next_step apart, for each panel: fetched into L2. Any address
  int64_t next_step = 16;
  // For CopyTileOf: where the vectors are read instead, rows `source_step` apart; they are left in `pixels`.
  const float* source[kTileVectors];
  int64_t source_step;
};

enum class TileKind {
  kPlain,
  kFetch,  // also fetches `next` into L2. A load port's time, so only one tile of a panel does
  kCopy,   // also copies the source
};

template <int kRows, int kWide, TileKind kKind>
void Tile(const TileArgs& args) {
  const Lane d;
  using V = hn::Vec<Lane>;
  const float* pixels[kWide];
  float* c[kWide];
  HWY_UNROLL(3)
  for (int v = 0; v < kWide; ++v) pixels[v] = args.pixels[v], c[v] = args.c[v];
  const int64_t* const offsets = args.offsets;
  const int64_t depth = args.depth, ldc = args.ldc;
  constexpr int64_t kAhead = 16;  // rows of the source on their way
  const float* bias = args.bias;
  for (int64_t repeat = 0; repeat < args.repeats; ++repeat) {
    V sum[kRows][kWide];
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) {
        sum[r][v] = hn::Zero(d);
        // The next tile's, far apart: no hardware sees them coming.
        __builtin_prefetch(c[v] + r * ldc + kWide * kPixelLanes, 1, 3);
      }
    }
    constexpr int64_t kOfPanel = 16 / kRows;
    const int64_t panel = repeat / kOfPanel * args.panel_step;
    const float* weight = args.weight + panel + repeat % kOfPanel * kRows;
    [[maybe_unused]] const float* next = args.next + panel;
    for (int64_t k = 0; k < depth; ++k) {
      V p[kWide];
      const int64_t offset = offsets[k];
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) {
        if constexpr (kKind == TileKind::kCopy) {
          const float* const source = args.source[v] + k * args.source_step;
          p[v] = hn::LoadU(d, source);
          __builtin_prefetch(source + kAhead * args.source_step, 0, 3);
          hn::StoreU(p[v], d, const_cast<float*>(pixels[v]) + offset);
        } else {
          p[v] = hn::LoadU(d, pixels[v] + offset);
        }
      }
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        const V w = hn::Set(d, weight[r]);
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v) sum[r][v] = hn::MulAdd(w, p[v], sum[r][v]);
      }
      if constexpr (kKind == TileKind::kFetch) {
        __builtin_prefetch(next, 0, 2);
        next += args.next_step;
      }
      weight += 16;
    }
    if (args.accumulate) {
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v)
          sum[r][v] = hn::Add(hn::LoadU(d, c[v] + r * ldc), sum[r][v]);
      }
    }
    if (bias != nullptr) {
      HWY_UNROLL(8)
      for (int r = 0; r < kRows; ++r) {
        HWY_UNROLL(3)
        for (int v = 0; v < kWide; ++v) sum[r][v] = hn::Add(sum[r][v], hn::Set(d, bias[r]));
      }
      bias += kRows;
    }
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(3)
      for (int v = 0; v < kWide; ++v) hn::StoreU(sum[r][v], d, c[v] + r * ldc);
    }
    HWY_UNROLL(3)
    for (int v = 0; v < kWide; ++v) c[v] += kRows * ldc;
  }
}

using TileFn = void (*)(const TileArgs& args);
template <TileKind kKind, int... kIndex>
constexpr std::array<TileFn, sizeof...(kIndex)> TileTable(std::integer_sequence<int, kIndex...>) {
  return {&Tile<kIndex / kTileVectors + 1, kIndex % kTileVectors + 1, kKind>...};
}
template <TileKind kKind>
constexpr auto kTiles =
    TileTable<kKind>(std::make_integer_sequence<int, kTileRows * kTileVectors>());
[[maybe_unused]] TileFn TileOf(int64_t rows, int64_t vectors, bool fetch) {
  const int64_t at = (rows - 1) * kTileVectors + vectors - 1;
  return fetch ? kTiles<TileKind::kFetch>[at] : kTiles<TileKind::kPlain>[at];
}
// Of kTileRows.
[[maybe_unused]] TileFn CopyTileOf(int64_t vectors) {
  constexpr TileFn kCopies[] = {&Tile<kTileRows, 1, TileKind::kCopy>,
                                &Tile<kTileRows, 2, TileKind::kCopy>,
                                &Tile<kTileRows, 3, TileKind::kCopy>};
  return kCopies[vectors - 1];
}

// A few pixels that fill no vector: there vectors run along the rows of the weight, as panels hold them, and pixels are
// broadcast. The sums of kPanels panels come as [panel][pixel][16].
constexpr int kMostLastPixels = kPixelLanes / 2;
template <int kPixels, int kPanels>
void LastPixels(const TileArgs& args, float* to) {
  constexpr int kVectors = 16 / kPixelLanes;  // of a panel
  const Lane d;
  using V = hn::Vec<Lane>;
  V sum[kPanels * kVectors][kPixels];
  HWY_UNROLL(16)
  for (int v = 0; v < kPanels * kVectors; ++v) {
    HWY_UNROLL(8)
    for (int j = 0; j < kPixels; ++j) sum[v][j] = hn::Zero(d);
  }
  const float* weight = args.weight;
  for (int64_t k = 0; k < args.depth; ++k, weight += 16) {
    const float* const pixels = args.pixels[0] + args.offsets[k];
    V p[kPixels];
    HWY_UNROLL(8)
    for (int j = 0; j < kPixels; ++j) p[j] = hn::Set(d, pixels[j]);
    HWY_UNROLL(16)
    for (int v = 0; v < kPanels * kVectors; ++v) {
      const V w =
          hn::LoadU(d, weight + v / kVectors * args.panel_step + v % kVectors * kPixelLanes);
      HWY_UNROLL(8)
      for (int j = 0; j < kPixels; ++j) sum[v][j] = hn::MulAdd(w, p[j], sum[v][j]);
    }
  }
  HWY_UNROLL(16)
  for (int v = 0; v < kPanels * kVectors; ++v) {
    HWY_UNROLL(8)
    for (int j = 0; j < kPixels; ++j)
      hn::StoreU(sum[v][j], d, to + (v / kVectors * kPixels + j) * 16 + v % kVectors * kPixelLanes);
  }
}

// As many panels at once as there are registers for: each sum is a chain, and several hide what one has to wait.
constexpr int kMostLastPanels = 8;
constexpr int kMostLastSums = kMostLastPanels * HWY_MAX(1, kMostLastPixels) * 16;
constexpr int LastPanels(int pixels) {
  constexpr int kSums = kTileRows * kTileVectors;
  int panels = 1;
  while (panels < kMostLastPanels && 2 * panels * pixels * (16 / kPixelLanes) <= kSums) panels *= 2;
  return panels;
}
using LastFn = void (*)(const TileArgs& args, float* to);
struct LastPixelsOf {
  LastFn some, one;
  int panels;  // of `some`
};
template <int... kIndex>
constexpr std::array<LastPixelsOf, sizeof...(kIndex)> LastTable(
    std::integer_sequence<int, kIndex...>) {
  return {LastPixelsOf{&LastPixels<kIndex + 1, LastPanels(kIndex + 1)>, &LastPixels<kIndex + 1, 1>,
                       LastPanels(kIndex + 1)}...};
}
[[maybe_unused]] constexpr auto kLastPixels =
    LastTable(std::make_integer_sequence<int, kMostLastPixels>());

// The pixels of a block as vectors: along each pixel row, or along all rows side by side (then `rows` is 1).
// Cut into tiles of up to kTileVectors as even as can be.
struct PixelTiles {
  int64_t rows, width;
  int64_t across;  // vectors of a row
  int64_t tiles;
  int64_t least, wider;  // vectors of a tile; the first `wider` have one more
  PixelTiles(int64_t rows, int64_t width)
      : rows(rows),
        width(width),
        across((width + kPixelLanes - 1) / kPixelLanes),
        tiles((rows * across + kTileVectors - 1) / kTileVectors),
        least(tiles == 0 ? 0 : rows * across / tiles),
        wider(tiles == 0 ? 0 : rows * across % tiles) {}
};

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
