// 3 x 3 windows that move by one pixel, with a third less than half of the multiplications: F(2x2, 3x3) of Winograd,
// as Lavin and Gray use it ("Fast Algorithms for Convolutional Neural Networks", 2015, section 4.1).
//
// A tile of 2 x 2 pixels sees 4 x 4 of the image. The 4 x 4 of every channel become 16 points (sums and differences),
// and so do the 3 x 3 of every weight; point by point, channels are summed as 16 small products; 16 sums become 2 x 2
// pixels. 16 multiplications where the windows have 36.
//
// Sums and differences mix the pixels of a tile: their error is one of rounding at the magnitude of the 4 x 4, where a
// plain sum's is at that of the window, and an infinity would make NaNs of its neighbours. Blocks of tiles that see
// anything but finite numbers go the plain way, so those are where torch has them.
#pragma once

#include "ops/conv/cpu_call.h"

namespace liveshape::cpu {

inline constexpr int64_t kPoints = 16;

// By shape and dtype alone: whether a convolution may ever go this way.
inline bool HasWinograd(const ops::Window& h, const ops::Window& w, int64_t groups,
                        int64_t channels, int64_t rows, DType dtype) {
  const auto fits = [](const ops::Window& v) {
    return v.size == 3 && v.stride == 1 && v.dilation == 1;
  };
  return fits(h) && fits(w) && groups == 1 && channels >= 16 && rows >= 16 && dtype == DType::kF32;
}

// Tiles of a block, at most: their points of all channels take 450 KB of L2, or are few.
inline int64_t BlockTiles(int64_t channels) {
  return std::clamp<int64_t>(7168 / channels, 56, 112);
}

// Points of the weight, [panel][point][channel][16]: made anew in every run, since that takes no longer than reading them
// from a file would, and a weight that is stored once serves every route.
inline int64_t WinogradWeightFloats(int64_t rows, int64_t channels) {
  return (rows + 15) / 16 * 16 * kPoints * channels;
}

// Scratch of one worker for `tiles` in `tile_rows` rows (of all images): the laid-out rows of one channel, offsets,
// points of the image and sums of one panel.
template <typename Int>  // int64_t, or an Expr for the planner
Int WinogradFloats(Int tiles, Int tile_rows, int64_t channels) {
  const int64_t most = BlockTiles(channels);
  const Int block = AtMost(tiles, most), rows = AtMost(tile_rows, most);
  const Int line = RoundUp16(block + kVectorSlack) + 16;  // as OddLines
  // (2 rows + 2) lines of 2 (columns + 1 + kVectorSlack), where rows and columns are at most `block` together.
  const Int image = block * 8 + rows * (4 * kVectorSlack + 4) + (4 * kVectorSlack + 20);
  return image + line * (kPoints * (channels + 16)) + (2 * kPoints * 32 + 2 * channels + 32);
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
