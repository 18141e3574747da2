// What the parts of the convolution share. Images are read at any strides; a width of the output is called a
// pixel row, so pixel p of an image is [p / out_width, p % out_width].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernel.h"
#include "backends/cpu/scratch.h"
#include "ops/window.h"

namespace liveshape::cpu {

struct ConvCall {
  const std::byte* x = nullptr;
  const int64_t* x_strides = nullptr;  // of [N, C, H, W], in elements
  int64_t batch = 0, height = 0, width = 0;
  int64_t channels = 0;  // of one group's input
  int64_t rows = 0;      // output channels of all groups
  int64_t groups = 1;
  int64_t out_height = 0, out_width = 0;
  ops::Window h, w;
  const float* panels = nullptr;    // the weight [rows, depth()] as ConstantLayout::kPanel16
  const std::byte* bias = nullptr;  // [rows] or null
  int64_t bias_stride = 1;
  std::byte* y = nullptr;     // dense
  DType dtype = DType::kF32;  // of x, bias and y

  int64_t taps() const { return h.size * w.size; }
  int64_t depth() const { return channels * taps(); }  // length of the sum
  int64_t pixels() const { return out_height * out_width; }
  // Every output is made of one pixel.
  bool is_pointwise() const {
    const auto one = [](const ops::Window& v) {
      return v.size == 1 && v.stride == 1 && v.before == 0 && v.after == 0;
    };
    return one(h) && one(w);
  }
  int64_t group_rows() const { return rows / groups; }
};

// Rows of the image that some pixel rows see are laid out with their padding and split by the stride, so that
// every tap reads whole vectors: the floats of one such row, `stride` phases of `width` pixels and what a
// window has beyond its first. Phases of several begin with a line of the cache, if the row does.
inline constexpr int64_t kVectorSlack = 16;  // a vector beyond the last pixel, of any ISA
inline int64_t PhaseBeyond(const ops::Window& w) { return (w.span() - 1) / w.stride; }
template <typename Int>  // int64_t, or an Expr for the planner
Int ImageLine(const ops::Window& w, Int width) {
  const Int phase = width + PhaseBeyond(w);
  return ((w.stride > 1 ? RoundUp16(phase) : phase) + kVectorSlack) * w.stride;
}
// ImageLine of any width is at most width * stride and this.
inline int64_t LineBeyond(const ops::Window& w) {
  return (PhaseBeyond(w) + kVectorSlack + (w.stride > 1 ? 15 : 0)) * w.stride;
}

// ---- As a product of the weight with patches of the image: cpu_product.cc.
//
// A task is a block of pixels (whole pixel rows of one image, or a part of one, or some whole small images) times some
// rows of one group.
// What the pixels see is laid out in the worker's scratch, some channels at a time; the weight is streamed as
// it lies in the file.
inline constexpr int64_t kPatchDepth = 128;      // about: a weight panel's is 8 KB
inline constexpr int64_t kMostPatchDepth = 256;  // of any ISA: kStepDepth in tile-inl.h
// Terms of a sum at a time, at most: about `depth`, in whole channels.
inline int64_t PatchDepth(int64_t depth, int64_t taps) {
  return taps > depth ? depth : (depth + taps / 2) / taps * taps;
}
// How much more there is room for in a cache where the whole sum is shorter than that, up to kMostRoom.
inline constexpr int64_t kMostRoom = 4;
inline int64_t RoomOfShortSums(int64_t depth) {
  return std::clamp<int64_t>(kPatchDepth / std::max<int64_t>(1, depth), 1, kMostRoom);
}
inline constexpr int64_t kPatchPixels = 432;  // of a block, about: 220 KB of L2 by kPatchDepth
// Of a block of whole rows: more where the sum is short, since neighbours lay the rows between them out twice.
inline int64_t PatchPixels(int64_t depth) {
  const int64_t room = kMostPatchDepth / std::max<int64_t>(1, depth);
  return kPatchPixels * std::clamp<int64_t>(room, 1, 2 * kMostRoom);
}
inline constexpr int64_t kVectorPixels = 16;  // whole vectors on every ISA
inline constexpr int64_t kTaskRows = 512;     // at most

struct ConvTask {
  int64_t image;
  int64_t images = 1;          // from there on; several only whole
  int64_t top, bottom;         // pixel rows
  int64_t left, right;         // of each: all columns, or there is one row
  int64_t row_begin, row_end;  // of one group
  float* scratch;
};

// At least `floats`, as an odd number of cache lines: tiles walk over things so far apart, and all sets of a
// cache take part.
inline int64_t OddLines(int64_t floats) { return ((floats + 15) / 16 | 1) * 16; }

// Of a block of `pixels`, those whose sums the scratch has room for. Sums of f32 are kept in y itself, but for blocks of at
// most so many.
template <typename Int>
Int PixelsBeside(DType dtype, Int pixels) {
  return dtype == DType::kF32 ? AtMost(pixels, kPatchPixels) : pixels;
}

// Scratch of one worker, in floats; grows with the block, so what is planned for the largest is enough.
struct ProductScratch {
  int64_t image;    // what the block sees of one channel
  int64_t packed;   // and of all that a block of kMostPatchDepth needs, as rows or strips
  int64_t offsets;  // int64_t each
  int64_t sums;  // of blocks that y cannot hold them for: halves, several images, parts of a vector
  // A block of `height` x `width` pixels of each image, by `rows` of the weight.
  ProductScratch(const ops::Window& h, const ops::Window& w, int64_t images, int64_t height,
                 int64_t width, int64_t depth, int64_t rows, DType dtype) {
    const int64_t pixels = images * height * width;
    const int64_t patch_rows = std::min(depth, PatchDepth(kMostPatchDepth, h.size * w.size));
    image = OddLines(((height - 1) * h.stride + h.span()) * ImageLine(w, width));
    packed = OddLines(pixels + kVectorSlack) * patch_rows + kVectorSlack;
    offsets = OddLines(2 * patch_rows);
    sums = OddLines(std::min(kTaskRows, rows) * RoundUp16(PixelsBeside(dtype, pixels)));
  }
  int64_t total() const { return image + packed + offsets + sums; }
};
// How images are cut into blocks of about `pixels`, by live size: a row of more than half of them is cut, and taken by
// itself.
inline int64_t BlockColumns(int64_t width, int64_t pixels) {  // at most
  return width > pixels / 2 ? std::min(width, kPatchPixels + kVectorPixels) : width;
}
// In threes, as tiles have three vectors.
inline int64_t BlockRows(int64_t height, int64_t width, int64_t pixels) {
  const int64_t rows = pixels / std::max<int64_t>(1, width);
  return std::max<int64_t>(1, std::min(height, rows < 3 ? rows : rows / 3 * 3));
}

inline int64_t BlockImages(int64_t batch, int64_t pixels) {  // the most images of a block
  return pixels > kPatchPixels / 2 ? 1 : std::min(batch, kPatchPixels / pixels);
}

inline int64_t MostBlockRows(int64_t width, int64_t pixels) {
  return std::max<int64_t>(1, pixels / std::max<int64_t>(1, width));
}
inline sym::Expr MostBlockRows(sym::Expr width, int64_t pixels) {
  const sym::Expr one = width.table().Int(1), patch = width.table().Int(pixels);
  return sym::Max(one, sym::FloorDiv(patch, sym::Max(one, width)));
}

// Floats for a worker on images of `height` x `width` pixels, in closed form for the planner: at least what
// ProductScratch asks for, also where an image is taken as one long row. In the image's part, (rows * stride + beyond) *
// (columns * stride + line), rows * columns is at most `pixels`, and so is columns.
template <typename Int>
Int PlannedProductFloats(const ops::Window& h, const ops::Window& w, Int batch, Int height,
                         Int width, int64_t depth, int64_t weight_rows, DType dtype) {
  const auto odd_lines = [](Int floats) { return RoundUp16(floats) + 16; };
  const int64_t most = PatchPixels(depth);
  const Int pixels = AtMost(height * width, most + kVectorPixels);
  const Int rows = AtMost(height, MostBlockRows(width, most));
  const int64_t line = LineBeyond(w);
  const int64_t beyond = std::max<int64_t>(0, h.span() - h.stride);
  const Int image = pixels * (h.stride * w.stride) + rows * (h.stride * line) +
                    pixels * (beyond * w.stride) + beyond * line;
  const int64_t patch_rows = std::min(depth, PatchDepth(kMostPatchDepth, h.size * w.size));
  const Int all = AtMost(batch * height * width, most + kVectorPixels);
  return odd_lines(image) + odd_lines(all + kVectorSlack) * patch_rows +
         (kVectorSlack + OddLines(2 * patch_rows)) +
         odd_lines(RoundUp16(PixelsBeside(dtype, all)) * std::min(kTaskRows, weight_rows));
}

using ProductFn = void (*)(const ConvCall& call, const ConvTask& task);
ProductFn FindProduct();  // for the active ISA, as all of these

// Panel `panel` of a weight [rows, depth] that is not stored as f32 panels: [depth][16] in f32.
using PackWeightFn = void (*)(const View& weight, int64_t panel, float* to);
PackWeightFn FindPackWeight();

// ---- One input channel a group: cpu_depthwise.cc.
//
// A task is a block of pixel rows of one output channel.
inline constexpr int64_t kDepthwiseFloats =
    8192;  // of rows at a time, where one row needs no more: L1

inline int64_t DepthwiseRows(const ConvCall& call) {  // pixel rows a task, at most
  const int64_t lines = kDepthwiseFloats / ImageLine(call.w, call.out_width);
  return std::max<int64_t>(1, (lines - call.h.span()) / call.h.stride + 1);
}

// Tasks [begin, end) of `blocks` for every output channel of every image.
using DepthwiseFn = void (*)(const ConvCall& call, int64_t blocks, int64_t begin, int64_t end,
                             float* scratch);
DepthwiseFn FindDepthwise();

}  // namespace liveshape::cpu
