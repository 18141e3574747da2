// The convolution as a product: weight [rows, depth] times patches [depth, pixels], where a patch column is
// what one pixel sees. Patches are never written out: tiles find them in the laid-out image by a table of
// offsets, a block at a time that fits L2. Vectors run along pixels, so results land where they belong, and
// weights are broadcast out of their panels; but for the last few pixels of a block, where it is the other way round.
//
// One order of summation for every tile, split and thread count: blocks of PatchStep in ascending order,
// each a chain of multiply-adds that starts at 0; bias comes last.
#include "ops/conv/cpu_call.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv/cpu_product.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backends/cpu/gemm/micro-inl.h"
#include "ops/conv/patches-inl.h"
#include "ops/conv/rows-inl.h"
#include "ops/conv/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// Where pixels that see themselves alone lie in the image: pixel j at data[k * step + j].
struct Source {
  const float* data = nullptr;  // not null: still to be copied to the patches
  int64_t step = 0;
};

// What the block of pixels that comes next sees of the image, where every pixel sees one: tiles of this block fetch it into
// L2, each a line of as many channels as sums have terms. No hardware foresees where the rows go on that are read, and
// waiting for them took up to a seventh of the time if only every second one is (Zen 4, 256 channels of 56 x 56, four
// images).
class Ahead {
 public:
  Ahead() = default;
  Ahead(const float* from, int64_t channel_step, int64_t rows, int64_t row_step, int64_t row_floats)
      : channel_step(channel_step),
        from_(from),
        rows_(rows),
        row_step_(row_step),
        row_floats_(row_floats) {}
  int64_t lines() const { return rows_ * LinesOfRow(); }
  bool done() const { return row_ == rows_; }
  const float* Next() {
    const float* const line = from_ + row_ * row_step_ + std::min(column_, row_floats_ - 1);
    column_ += kLine;
    if (column_ >= LinesOfRow() * kLine) column_ = 0, ++row_;
    return line;
  }
  int64_t channel_step = 0;

 private:
  static constexpr int64_t kLine = 16;
  // Rows begin anywhere in a line: every 16th float of them and the last.
  int64_t LinesOfRow() const { return (row_floats_ + kLine - 2) / kLine + 1; }
  const float* from_ = nullptr;
  int64_t rows_ = 0, row_step_ = 0, row_floats_ = 0;
  int64_t row_ = 0, column_ = 0;  // of the next line
};

// Whether panels may all read the image itself, where pixels see themselves alone: a copy costs a panel half as much again,
// so a few save 4 % without (Zen 5, 256 -> 64 channels of 56 x 56). What the block sees must not meet in a few sets of L2,
// where channels begin far apart at a power of two. Registers of AVX-512 alone hold enough that a pass over as many pages
// as there are channels is not felt.
bool RepaysNoCopy(const ConvCall& call, const ConvTask& task) {
  const int64_t step = call.x_strides[1], rows = task.row_end - task.row_begin;
  return HWY_TARGET == HWY_AVX3 && rows <= 128 && (step & -step) <= task.right - task.left;
}

// What pixel [top, left] sees of a channel, if that is one pixel.
const float* SeenFrom(const ConvCall& call, const float* channel, int64_t top, int64_t left) {
  return channel + (top * call.h.stride - call.h.before) * call.x_strides[2] +
         (left * call.w.stride - call.w.before) * call.x_strides[3];
}

// After the channels before `next` of a task's group: the others, or what the task behind it in RunProduct sees.
Ahead AheadOf(const ConvCall& call, const ConvTask& task, const float* planes, int64_t next) {
  if (call.taps() > 1 || task.images > 1 || call.x_strides[3] != 1) return {};
  int64_t top = task.top, left = task.left;
  const float* channel = planes + next * call.x_strides[1];
  if (next == call.channels) {
    const bool group_ends = task.row_end % call.group_rows() == 0;
    left = task.right;
    if (left == call.out_width) left = 0, top = task.bottom;
    const bool all = top == call.out_height;
    if (all) top = 0;
    if (!all || !group_ends)
      channel = planes;  // else those of the next group, or of the next image
  }
  const int64_t rows = std::min(task.bottom - task.top, call.out_height - top);
  const int64_t row_floats = (task.right - task.left - 1) * call.w.stride + 1;
  return {SeenFrom(call, channel, top, left), call.x_strides[1], rows,
          call.h.stride * call.x_strides[2], row_floats};
}

// Sums of a block of pixels, complete or to be added to: rows `ld` apart.
struct Sums {
  float* data;
  int64_t ld;
  bool padded;  // a row has room for its last vector
};

float BiasOf(const ConvCall& call, int64_t row) {
  float bias = 0;
  WithElement(call.dtype, [&](auto type) HWY_ATTR {
    bias = ToFloat(reinterpret_cast<decltype(type)>(call.bias)[row * call.bias_stride]);
  });
  return bias;
}

// Rows [begin, end) of the weight times the patches: of one panel, or of some from the first one's first row on, which a tile
// takes one after another: kTilePanels, or more where sums are so short that the weight of several takes no more of L1.
void PanelProduct(const ConvCall& call, const ConvTask& task, const PixelTiles& tiles,
                  int64_t begin, int64_t end, int64_t k0, int64_t depth, const Patches& patches,
                  const Source& source, Ahead& ahead, const Sums& sums) {
  if (tiles.tiles == 0) return;
  HWY_ALIGN float bias[16 * kMostRoom];
  const bool add_bias = call.bias != nullptr && k0 + depth == call.depth();
  for (int64_t r = begin; add_bias && r < end; ++r) bias[r - begin] = BiasOf(call, r);
  const int64_t panel_step = call.depth() * 16;
  const float* const weight = call.panels + begin / 16 * panel_step + k0 * 16 + begin % 16;
  const int64_t rows = end - begin, first = (begin - task.row_begin) * sums.ld;
  TileArgs args;
  args.depth = depth;
  args.offsets = patches.offsets;
  args.accumulate = k0 > 0;
  args.panel_step = panel_step;
  int64_t i = 0, j = 0;  // of the next vector's first pixel
  for (int64_t t = 0; t < tiles.tiles; ++t) {
    const int64_t wide = tiles.least + (t < tiles.wider ? 1 : 0);
    float* c[kTileVectors];
    int64_t live[kTileVectors];
    bool whole = true;
    for (int64_t v = 0; v < wide; ++v) {
      args.pixels[v] = patches.data + i * patches.row_step + j;
      args.c[v] = c[v] = sums.data + first + i * tiles.width + j;
      const bool inside = sums.padded || tiles.width - j >= kPixelLanes;
      live[v] = inside ? kPixelLanes : tiles.width - j;
      whole = whole && live[v] == kPixelLanes;
      j += kPixelLanes;
      if (j >= tiles.width) j = 0, ++i;
    }
    args.ldc = sums.ld;
    // What lies behind the last pixels of a row is another's.
    HWY_ALIGN float edge[kTileVectors][16 * kMostRoom * kPixelLanes];
    if (!whole) {
      args.ldc = kPixelLanes;
      for (int64_t v = 0; v < wide; ++v) {
        args.c[v] = edge[v];
        for (int64_t r = 0; args.accumulate && r < rows; ++r)
          std::memcpy(edge[v] + r * kPixelLanes, c[v] + r * sums.ld, live[v] * sizeof(float));
      }
    }
    args.bias = add_bias ? bias : nullptr;
    int64_t left = rows;
    const auto run = [&](TileFn tile, int64_t tile_rows, int64_t repeats) HWY_ATTR {
      args.weight = weight + (rows - left) / 16 * panel_step + (rows - left) % 16;
      args.repeats = repeats;
      tile(args);
      const int64_t done = tile_rows * repeats;
      left -= done;
      if (add_bias) args.bias += done;
      for (int64_t v = 0; v < wide; ++v) args.c[v] += done * args.ldc;
    };
    if (source.data != nullptr) {
      for (int64_t v = 0; v < wide; ++v)
        args.source[v] = source.data + (args.pixels[v] - patches.data);
      args.source_step = source.step;
      run(CopyTileOf(wide), kTileRows, 1);
    }
    args.next_step = ahead.channel_step;
    for (; !ahead.done() && left >= kTileRows; run(TileOf(kTileRows, wide, true), kTileRows, 1))
      args.next = ahead.Next();
    args.next_step = 16;
    // While the first tile works, the next panel's block comes.
    args.next = weight + (rows + 15) / 16 * panel_step;
    // The rest of a panel that was begun, then whole ones.
    const TileFn tile = TileOf(kTileRows, wide, t == 0);
    const int64_t begun = (rows - left) % 16, rest = begun == 0 ? 0 : std::min(left, 16 - begun);
    if (rest >= kTileRows) run(tile, kTileRows, rest / kTileRows);
    if (left >= kTileRows) run(tile, kTileRows, left / kTileRows);
    if (left > 0) run(TileOf(left, wide, false), left, 1);
    if (!whole) {
      for (int64_t v = 0; v < wide; ++v)
        for (int64_t r = 0; r < rows; ++r)
          std::memcpy(c[v] + r * sums.ld, edge[v] + r * kPixelLanes, live[v] * sizeof(float));
    }
  }
}

// Pixels [first, first + count) of a strip, for all rows of the task.
void LastProduct(const ConvCall& call, const ConvTask& task, int64_t first, int64_t count,
                 int64_t k0, int64_t depth, const Patches& patches, const Sums& sums) {
  const LastPixelsOf& last = kLastPixels[count - 1];
  const bool add_bias = call.bias != nullptr && k0 + depth == call.depth();
  TileArgs args;
  args.depth = depth;
  args.offsets = patches.offsets;
  args.pixels[0] = patches.data + first;
  args.panel_step = call.depth() * 16;
  const int64_t end = (task.row_end + 15) / 16;
  for (int64_t panel = task.row_begin / 16, some; panel < end; panel += some) {
    some = end - panel >= last.panels ? last.panels : 1;
    args.weight = call.panels + panel * args.panel_step + k0 * 16;
    HWY_ALIGN float found[kMostLastSums];
    (some == 1 ? last.one : last.some)(args, found);
    for (int64_t row = std::max(task.row_begin, panel * 16);
         row < std::min(task.row_end, (panel + some) * 16); ++row) {
      float* const c = sums.data + (row - task.row_begin) * sums.ld + first;
      const float* const from = found + (row / 16 - panel) * count * 16 + row % 16;
      float bias = 0;
      if (add_bias) bias = BiasOf(call, row);
      for (int64_t j = 0; j < count; ++j) {
        float sum = from[j * 16];
        if (k0 > 0) sum = c[j] + sum;
        c[j] = add_bias ? sum + bias : sum;
      }
    }
  }
}

template <typename T>
void ProductTyped(const ConvCall& call, const ConvTask& task) {
  const PixelBlock block(call, task);
  const int64_t pixels = block.pixels(), taps = call.taps();
  const int64_t first_channel = task.row_begin / call.group_rows() * call.channels;
  const T* const planes = reinterpret_cast<const T*>(call.x) + task.image * call.x_strides[0] +
                          first_channel * call.x_strides[1];
  T* const y = reinterpret_cast<T*>(call.y) +
               (task.image * call.rows + task.row_begin) * call.pixels() +
               task.top * call.out_width + task.left;
  const int64_t most = PatchStep(call.depth(), taps);
  // Vectors along rows where few lanes are lost, and the rows need no more room than strips.
  const PixelTiles by_row(block.height, block.width), all(1, pixels);
  const int64_t channels = most < taps ? 2 : most / taps;
  const bool small = block.images > 1 || pixels <= kPatchPixels / 2;
  const bool in_rows = (!small || (block.images == 1 && block.width % kPixelLanes == 0)) &&
                       by_row.rows * by_row.across * 16 <= all.across * 17 &&
                       (channels < call.channels ? channels : call.channels) * block.layout.image <=
                           OddLines(pixels + kVectorSlack) * most;
  // Those that would fill at most half of a vector are left out of the tiles.
  const int64_t beyond = in_rows ? 0 : pixels % kPixelLanes;
  const int64_t last = beyond <= kMostLastPixels ? beyond : 0;
  const PixelTiles tiles = in_rows ? by_row : PixelTiles(1, pixels - last);
  // Sums of f32 are kept in y itself, if vectors do not reach beyond its rows too often, or the block is not small
  // (PixelsBeside); others beside it until they are complete.
  bool beside = true;
  Sums sums = {block.sums(), RoundUp16(pixels), !in_rows};
  if constexpr (std::is_same_v<T, float>) {
    beside = block.images > 1 || (small && !in_rows && last != beyond);
    if (!beside) sums = {y, call.pixels(), false};
  }
  const int64_t first_rows = std::min(task.row_end, task.row_begin / 16 * 16 + 16) - task.row_begin;
  // The image itself will do, for the first panel at least: pixels that see themselves alone, in whole vectors.
  const bool in_place = std::is_same_v<T, float> && in_rows && call.is_pointwise() &&
                        call.x_strides[3] == 1 && block.height == 1 &&
                        block.width % kPixelLanes == 0 && first_rows >= kTileRows;
  const bool copies = in_place && !RepaysNoCopy(call, task);
  for (int64_t k0 = 0; k0 < call.depth(); k0 += most) {
    const int64_t depth = call.depth() - k0 < most ? call.depth() - k0 : most;
    const float* seen = nullptr;  // only if in_place: padding is not in the image
    if constexpr (std::is_same_v<T, float>)
      if (in_place) seen = SeenFrom(call, planes + k0 * call.x_strides[1], task.top, task.left);
    const Patches patches = copies     ? PatchesToCome(block, depth)
                            : in_place ? PatchesInPlace(call, block, seen, depth)
                            : in_rows  ? PatchesInRows(call, task, block, planes, k0, depth)
                                       : PatchesInStrips(call, task, block, planes, k0, depth);
    Ahead ahead;
    if constexpr (std::is_same_v<T, float>) ahead = AheadOf(call, task, planes, k0 + depth);
    const int64_t panel_tiles = tiles.tiles * (16 / kTileRows);
    const int64_t fetching = panel_tiles == 0 ? 0 : DivideUp(ahead.lines(), panel_tiles) * 16;
    for (int64_t begin = task.row_begin, end; begin < task.row_end; begin = end) {
      const bool one = begin % 16 != 0 || (copies && begin == task.row_begin);
      const int64_t panels = one ? 1 : std::max(kTilePanels, RoomOfShortSums(depth));
      end = std::min(begin / 16 * 16 + 16 * panels, task.row_end);
      Source source;
      if (copies && begin == task.row_begin) source = {seen, call.x_strides[1]};
      // The last panels fetch.
      Ahead none, &now = task.row_end - end < fetching ? ahead : none;
      PanelProduct(call, task, tiles, begin, end, k0, depth, patches, source, now, sums);
    }
    if (last > 0) LastProduct(call, task, pixels - last, last, k0, depth, patches, sums);
  }
  if (!beside) return;
  const int64_t each = block.image_pixels();
  for (int64_t row = 0; row < task.row_end - task.row_begin; ++row)
    for (int64_t image = 0; image < block.images; ++image)
      NarrowRow(sums.data + row * sums.ld + image * each, each,
                y + (image * call.rows + row) * call.pixels());
}

void Product(const ConvCall& call, const ConvTask& task) {
  WithElement(call.dtype, [&](auto type) HWY_ATTR {
    ProductTyped<std::remove_const_t<std::remove_pointer_t<decltype(type)>>>(call, task);
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
