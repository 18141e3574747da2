// Windows with fewer multiplications than their taps: pixels are made in tiles of 2 x 2, and what the four windows have in
// common is multiplied once.
//
// Along one dim, for two neighbouring pixels and windows of three taps:
//   windows that move by 1 see 4 of the image: F(2, 3) of Winograd, as Lavin and Gray use it ("Fast Algorithms for
//   Convolutional Neural Networks", 2015, section 4.1); 4 multiplications where the windows have 6.
//   windows that move by 2 see 5, of which they share the middle one alone: a d0 + b d1 + c d2 and a d2 + b d3 + c d4 are
//   a (d0 - d2) + b d1 + m and b d3 + c (d4 - d2) + m, where m = (a + c) d2; 5 multiplications where the windows have 6.
// Across and down together: 16 and 25 where the windows have 36.
//
// Larger windows that move by 1 are sums of parts of three taps and of two, as if each part were channels of its own. A
// part of two is one of three whose last weight is 0, and so is its last point, which is left out: 49 multiplications
// where windows of 5 x 5 have 100.
// Where taps are d apart, the pixels of every dth row and column see every dth row and column: these are images by
// themselves, their taps side by side.
//
// What a tile sees of every channel becomes points (sums and differences), and so do the taps of every weight; channels
// are summed point by point as small products, or for several points at once where their sums are only ever added; sums
// become 2 x 2 pixels.
//
// Sums and differences mix the pixels of a tile: their error is one of rounding at the magnitude of all that the tile
// sees, where a plain sum's is at that of the window, and an infinity would make NaNs of its neighbours. Images that are
// not all finite numbers go the plain way, so infinities and NaNs are where torch has them.
#pragma once

#include "ops/conv/cpu_call.h"

namespace liveshape::cpu {

// Along one dim, of a part.
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

// A window along one dim as its parts, those of three taps first.
struct WindowParts {
  int64_t size;
  int64_t count() const { return (size + 2) / 3; }
  int64_t of_three() const { return size - 2 * count(); }
  int64_t begin(int64_t part) const { return 2 * part + std::min(part, of_three()); }
  int64_t taps(int64_t part) const { return begin(part + 1) - begin(part); }
  // How many are not 0 at this point of the weight: the first ones.
  int64_t count_at(int64_t point) const { return point + 1 < kWeightPoints ? count() : of_three(); }
};

// A convolution's windows this way.
//
//   if (Winograd::Has(call.h, call.w, call.groups, call.channels, call.rows, call.dtype)) {
//     const Winograd winograd(call.h, call.w);
//     const int64_t columns = winograd.TileColumns(call.out_width);
//     const int64_t rows = winograd.TileRows(call.batch, call.out_height);   // of all images
struct Winograd {
  WinogradForm form;
  WindowParts down, across;
  int64_t rows_apart, columns_apart;  // taps: an image is made of that many times that many

  Winograd(const ops::Window& h, const ops::Window& w)
      : form(WinogradFormOf(w.stride)),
        down{h.size},
        across{w.size},
        rows_apart(h.dilation),
        columns_apart(w.dilation) {}

  // By shape and dtype alone: whether a convolution may ever go this way.
  static bool Has(const ops::Window& h, const ops::Window& w, int64_t groups, int64_t channels,
                  int64_t rows, DType dtype) {
    const auto fits = [&](const ops::Window& v) {
      if (v.stride == 2) return v.size == 3 && v.dilation == 1;
      return v.stride == 1 && v.size >= 3 && v.size <= 7;
    };
    return fits(h) && fits(w) && h.stride == w.stride && groups == 1 && channels >= 16 &&
           rows >= 16 && dtype == DType::kF32;
  }

  // Of the largest image that an image is made of; int64_t, or an Expr for the planner, here and below.
  template <typename Int>
  Int TileColumns(Int width) const {
    return DivideUp(DivideUp(width, columns_apart), 2);
  }
  template <typename Int>
  Int ImageRows(Int height) const {
    return DivideUp(DivideUp(height, rows_apart), 2);
  }
  // Of all of a batch.
  template <typename Int>
  Int TileRows(Int batch, Int height) const {
    return batch * ImageRows(height) * (rows_apart * columns_apart);
  }

  int64_t parts() const { return down.count() * across.count(); }
  // Of the image by a tile, for all parts.
  int64_t seen(const WindowParts& v) const { return form.seen + v.begin(v.count() - 1); }
  // Multiplications for a tile, a channel and a row of the weight.
  int64_t products() const {
    const auto along = [&](const WindowParts& v) {
      return form.points * v.of_three() + (form.points - 1) * (v.count() - v.of_three());
    };
    return along(down) * along(across);
  }

  // Tiles of a block, at most: their points of all channels are this many floats in L2, or are few. Machines with AVX-512
  // have 1 MB and more of it: 64 -> 128 of 56 x 56 by two takes a tenth less with 112 tiles than with 70, which fill
  // their last vector to a third (Zen 5).
  static constexpr int64_t kBlockFloats = 114688, kMostBlockFloats = 179200;
  int64_t BlockTiles(int64_t channels, int64_t floats) const {
    return std::clamp<int64_t>(floats / (form.image_points() * parts() * channels),
                               kLeastBlockTiles, 112);
  }
  // Where the points of so few are beyond L2 all the same, those of one point are not: several panels are multiplied by
  // them before the next point's come, and sums wait in L2. 512 -> 512 of 7 x 7 reads a third from L3 so.
  static constexpr int64_t kLeastBlockTiles = 64, kPanelsAtOnce = 4;
  int64_t PanelsAtOnce(int64_t channels) const {
    return form.image_points() * parts() * channels * kLeastBlockTiles > kMostBlockFloats
               ? kPanelsAtOnce
               : 1;
  }

  // Points of the weight, [panel][point][part][channel][16]: made anew in every run, since that takes no longer than
  // reading them from a file would, and a weight that is stored once serves every route.
  int64_t PanelPoints(int64_t channels) const {
    return kWeightPoints * kWeightPoints * parts() * channels * 16;
  }
  int64_t WeightFloats(int64_t rows, int64_t channels) const {
    return DivideUp(rows, 16) * PanelPoints(channels);
  }

  // Scratch of one worker for `tiles` in `tile_rows` rows: the laid-out rows of one channel, offsets, points of the image
  // and sums of one panel.
  template <typename Int>
  Int WorkerFloats(Int tiles, Int tile_rows, int64_t channels) const {
    const int64_t most = BlockTiles(channels, kMostBlockFloats);
    const Int block = AtMost(tiles, most), rows = AtMost(tile_rows, most);
    const Int line = RoundUp16(block + kVectorSlack) + 16;  // as OddLines
    // (move * rows + below) lines of move * columns + beside + slack, where rows * columns is at most `block`, and so is
    // columns; behind the last, what vectors of tiles that are not there read.
    const int64_t move = form.move(), below = seen(down) - move,
                  edge = seen(across) - move + kVectorSlack;
    const Int image = block * (move * (move + below)) + rows * (move * edge) +
                      (below * edge + (move + 1) * kVectorSlack);
    const int64_t panels = PanelsAtOnce(channels);
    const int64_t planes =
        form.image_points() * parts() * channels + panels * form.tile_sums() * 16;
    return image + line * planes +
           (32 * (form.image_points() + panels * form.tile_sums()) +
            OddLines(4 * parts() * channels));
  }
};

// Tile rows [begin, end), counted over all images that images are made of, and the tiles [left, right) of each, times some
// panels.
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
