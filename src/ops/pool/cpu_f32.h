// Pools of f32 by vectors (cpu_rows.h), for images with dense rows:
//
//   if (PoolF32Serves(pool, images)) {
//     const PoolF32 f32(pool, images);
//     f32.Rows(out, count);   // `count` rows of one image, from `out` on; any thread
//   }
#pragma once

#include "backends/cpu/kernel.h"
#include "ops/pool/cpu_rows.h"
#include "ops/window.h"

namespace liveshape::cpu {

struct Images {
  const View& x;
  const View& y;
};

// A row of the output, and the image it is made of.
struct OutputRow {
  int64_t row;  // in its image
  int64_t x;    // offset of the image's first element
  int64_t y;    // offset of the row's
};

struct PoolPrepared : Prepared {
  ops::Windows windows;
  bool max = false, count_padding = false;
  int64_t divisor = 0;
};

inline constexpr int64_t kPoolRun = 64;  // pixels at a time

// How many elements of a window that begins at `begin` a mean divides by.
inline int64_t Counted(const ops::Window& w, int64_t begin, int64_t extent, bool padding) {
  const int64_t end = std::min(begin + w.size, extent + w.after);
  if (padding) return end - begin;
  return std::min(end, extent) - std::max<int64_t>(begin, 0);
}

bool PoolF32Serves(const PoolPrepared& pool, const Images& images);

class PoolF32 {
 public:
  PoolF32(const PoolPrepared& pool, const Images& images);
  void Rows(OutputRow out, int64_t count) const;
  // All images are one as high as all of them: windows that cover an image to its last row, images that follow one another.
  bool stacked() const;

 private:
  // What is left of a window's taps inside the image.
  struct Clipped {
    int64_t at;  // of the first
    int64_t count;
  };
  static Clipped Clip(const ops::Window& w, int64_t begin, int64_t extent);

  PoolTaps TapsAt(int64_t first, int64_t rows, int64_t taps) const;
  void RowsApart(const OutputRow& out, int64_t count) const;
  void RowsOfFewTaps(OutputRow out, int64_t count) const;
  void BandOfFewTaps(const OutputRow& out, const Clipped& rows, int64_t count) const;
  void RowByLine(const OutputRow& out, float* line) const;

  const PoolPrepared& pool_;
  const Images images_;
  const ops::Window &h_, &w_;
  const PoolRows steps_;
  int64_t end_;  // of the images, in elements from their first
  bool apart_ = true;
};

}  // namespace liveshape::cpu
