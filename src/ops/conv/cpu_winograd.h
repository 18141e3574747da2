// 3 x 3 windows with fewer multiplications than their taps: pixels are made in tiles of 2 x 2, and what the four windows
// have in common is multiplied once.
//
// Along one dim, for two neighbouring pixels:
//   windows that move by 1 see 4 of the image: F(2, 3) of Winograd, as Lavin and Gray use it ("Fast Algorithms for
//   Convolutional Neural Networks", 2015, section 4.1); 4 multiplications where the windows have 6.
//   windows that move by 2 see 5, of which they share the middle one alone: a d0 + b d1 + c d2 and a d2 + b d3 + c d4 are
//   a (d0 - d2) + b d1 + m and b d3 + c (d4 - d2) + m, where m = (a + c) d2; 5 multiplications where the windows have 6.
// Across and down together: 16 and 25 where the windows have 36.
//
// What a tile sees of every channel becomes points (sums and differences), and so do the 3 x 3 of every weight; channels
// are summed point by point as small products, or for several points at once where their sums are only ever added; sums
// become 2 x 2 pixels.
//
// Sums and differences mix the pixels of a tile: their error is one of rounding at the magnitude of all that the tile
// sees, where a plain sum's is at that of the window, and an infinity would make NaNs of its neighbours. Blocks of tiles
// that see anything but finite numbers go the plain way, so those are where torch has them.
#pragma once

#include "ops/conv/cpu_call.h"

namespace liveshape::cpu {

// Along one dim.
struct WinogradForm {
  int64_t stride;  // of the windows
  int64_t seen;    // of the image by a tile
  int64_t points;  // of the image
  int64_t sums;
  constexpr int64_t move() const { return 2 * stride; }  // in the image, from tile to tile
  constexpr int64_t image_points() const { return points * points; }
  constexpr int64_t tile_sums() const { return sums * sums; }
};
constexpr WinogradForm WinogradFormOf(int64_t stride) {
  return stride == 1 ? WinogradForm{1, 4, 4, 4} : WinogradForm{2, 5, 5, 3};
}
inline constexpr int64_t kWeightPoints = 4;  // of either form

// By shape and dtype alone: whether a convolution may ever go this way.
inline bool HasWinograd(const ops::Window& h, const ops::Window& w, int64_t groups,
                        int64_t channels, int64_t rows, DType dtype) {
  const auto fits = [&](const ops::Window& v) {
    return v.size == 3 && v.stride == h.stride && v.stride <= 2 && v.dilation == 1;
  };
  return fits(h) && fits(w) && groups == 1 && channels >= 16 && rows >= 16 && dtype == DType::kF32;
}

// Tiles of a block, at most: their points of all channels take 450 KB of L2, or are few.
inline int64_t BlockTiles(const WinogradForm& form, int64_t channels) {
  return std::clamp<int64_t>(114688 / (form.image_points() * channels), 56, 112);
}

// Points of the weight, [panel][point][channel][16]: made anew in every run, since that takes no longer than reading them
// from a file would, and a weight that is stored once serves every route.
inline int64_t PanelPoints(int64_t channels) {
  return kWeightPoints * kWeightPoints * channels * 16;
}
inline int64_t WinogradWeightFloats(int64_t rows, int64_t channels) {
  return (rows + 15) / 16 * PanelPoints(channels);
}

// Scratch of one worker for `tiles` in `tile_rows` rows (of all images): the laid-out rows of one channel, offsets,
// points of the image and sums of one panel.
template <typename Int>  // int64_t, or an Expr for the planner
Int WinogradFloats(const WinogradForm& form, Int tiles, Int tile_rows, int64_t channels) {
  const int64_t most = BlockTiles(form, channels);
  const Int block = AtMost(tiles, most), rows = AtMost(tile_rows, most);
  const Int line = RoundUp16(block + kVectorSlack) + 16;  // as OddLines
  // (move * rows + beyond) lines of move * columns + beyond + slack, where rows * columns is at most `block`, and so is
  // columns; behind the last, what vectors of tiles that are not there read.
  const int64_t move = form.move(), beyond = form.seen - move, edge = beyond + kVectorSlack;
  const Int image = block * (move * (move + beyond)) + rows * (move * edge) +
                    (beyond * edge + (move + 1) * kVectorSlack);
  const int64_t planes = form.image_points() * channels + form.tile_sums() * 16;
  return image + line * planes +
         (32 * (form.image_points() + form.tile_sums()) + OddLines(4 * channels));
}

// Tile rows [begin, end), counted over all images, and the tiles [left, right) of each, times some panels.
struct WinogradTask {
  int64_t begin, end;
  int64_t left, right;
  int64_t panel_begin, panel_end;
  const float* weight;  // points
  float* scratch;
};

struct WinogradFns {
  void (*weight)(const ConvCall& call, int64_t panel, float* points);
  bool (*block)(const ConvCall& call,
                const WinogradTask& task);  // false: not all finite, nothing written
};
WinogradFns FindWinograd();

}  // namespace liveshape::cpu
