// Windows three wide that move by one over images of few channels: two neighbouring pixels take four multiplications for
// each channel and row of taps where their windows have six, by F(2, 3) of cpu_winograd.h, across alone. Sums over a few
// channels are too short to go through memory point by point, as tiles of 2 x 2 do: here the four of a pair stay in
// registers until they are pixels, and there must be registers for that. 3 -> 64 of 224 x 224: 0.7 of the time of the plain
// product on Zen 4, and on Zen 5. Windows that move by two would save one multiplication of six, and took 5 % longer.
//
//   if (Pairs::Has(call.h, call.w, call.groups, call.channels, call.rows, call.dtype)) {
//     const PairsFns run = FindPairs();   // null functions: not on this ISA
#pragma once

#include "ops/conv/cpu_call.h"

namespace liveshape::cpu {

struct Pairs {
  static constexpr int64_t kWeightRows = 3;   // of the weight at once
  static constexpr int64_t kBlockRows = 8;    // pixel rows of a task, at most
  static constexpr int64_t kLeastWidth = 32;  // of an image: a vector of pairs on any ISA
  static constexpr int64_t kMostTerms = 32;   // of a sum: channels by rows of taps

  // By shape and dtype alone: whether a convolution may ever go this way.
  static bool Has(const ops::Window& h, const ops::Window& w, int64_t groups, int64_t channels,
                  int64_t rows, DType dtype) {
    return w.size == 3 && w.stride == 1 && w.dilation == 1 && h.stride == 1 && groups == 1 &&
           channels > 1 && channels * h.size <= kMostTerms && rows >= 16 && dtype == DType::kF32;
  }

  // Points of the weight, [rows / kWeightRows][term][point][kWeightRows], of whole panels: made anew in every run.
  static int64_t WeightFloats(int64_t rows, int64_t terms) {
    return RoundUp16(DivideUp(RoundUp16(rows), kWeightRows) * kWeightRows * terms * 4);
  }

  // One point of a row of `pairs`: OddLines of them, which is at most this.
  template <typename Int>
  static Int Line(Int pairs) {
    return RoundUp16(pairs) + 16;
  }
  // Scratch of one worker: the rows of one channel with their padding, points of the rows of all.
  template <typename Int>
  static Int WorkerFloats(const ops::Window& h, int64_t channels, Int width) {
    const int64_t rows = kBlockRows - 1 + h.span();
    return (Line(DivideUp(width, 2)) * (channels * 4) + Line(width) + 16) * rows;
  }
};

struct PairsTask {
  int64_t image;
  int64_t top, bottom;  // pixel rows
  const float* weight;  // points
  float* scratch;
};

struct PairsFns {
  void (*weight)(const ConvCall& call, int64_t panel, float* points) = nullptr;
  bool (*block)(const ConvCall& call,
                const PairsTask& task) = nullptr;  // false: not all finite, nothing written
};
PairsFns FindPairs();

}  // namespace liveshape::cpu
