// What the parts of the convolution share. Images are read at any strides; a width of the output is called a
// pixel row, so pixel p of an image is [p / out_width, p % out_width].
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernel.h"
#include "ops/window.h"

namespace liveshape::cpu {

struct ConvCall {
  const std::byte* x = nullptr;
  const int64_t* x_strides = nullptr;  // of [N, C, H, W], in elements
  int64_t batch = 0, height = 0, width = 0;
  int64_t channels = 0;             // of one group's input
  int64_t rows = 0;                 // output channels of all groups
  int64_t groups = 1;
  int64_t out_height = 0, out_width = 0;
  ops::Window h, w;
  const float* panels = nullptr;     // the weight [rows, depth()] as ConstantLayout::kPanel16
  const std::byte* bias = nullptr;   // [rows] or null
  int64_t bias_stride = 1;
  std::byte* y = nullptr;            // dense
  DType dtype = DType::kF32;         // of x, bias and y

  int64_t taps() const { return h.size * w.size; }
  int64_t depth() const { return channels * taps(); }  // length of the sum
  int64_t pixels() const { return out_height * out_width; }
  int64_t group_rows() const { return rows / groups; }
};

// ---- As a product of the weight with patches of the image: cpu_product.cc.
//
// A task is a block of pixels of one image times some rows of one group. Patches are packed into the worker's
// scratch, [depth][pixels] in blocks; the weight is streamed as it lies in the file.
inline constexpr int64_t kPatchDepth = 256;   // of a packed block: a weight panel's is 16 KB
inline constexpr int64_t kPatchPixels = 240;  // 240 KB of L2
inline constexpr int64_t kTaskRows = 256;     // at most
inline constexpr int64_t kVectorSlack = 16;   // a vector beyond the last pixel, of any ISA

struct ConvTask {
  int64_t image, pixel_begin, pixel_end;
  int64_t row_begin, row_end;  // of one group
  float* scratch;
};

// Floats of scratch a worker; grows with both, so the largest shape's is enough for every other.
inline int64_t ProductScratch(int64_t pixels, int64_t depth, DType dtype) {
  const int64_t columns = std::min(pixels, kPatchPixels + 16) + kVectorSlack;
  const int64_t sums = dtype == DType::kF32 ? 0 : kTaskRows * columns;
  return columns * (std::min(depth, kPatchDepth) + 1) + sums;
}

using ProductFn = void (*)(const ConvCall& call, const ConvTask& task);
ProductFn FindProduct();  // for the active ISA, as all of these

// Panel `panel` of a weight [rows, depth] that is not stored as f32 panels: [depth][16] in f32.
using PackWeightFn = void (*)(const View& weight, int64_t panel, float* to);
PackWeightFn FindPackWeight();

// ---- One input channel a group: cpu_depthwise.cc.
//
// A task is some pixel rows of one output channel. The rows of the image that they see are laid out with
// their padding and split by the stride, so that every tap reads whole vectors.
inline constexpr int64_t kDepthwiseFloats = 8192;  // of rows at a time, where one row needs no more: L1

struct DepthwiseTask {
  int64_t image, row;  // output channel
  int64_t begin, end;  // pixel rows
  float* scratch;
};

// Floats of one image row as it is laid out: `stride` phases, each with whole vectors of slack.
template <typename Int>  // int64_t, or an Expr for the planner
Int DepthwiseLine(const ops::Window& w, Int out_width) {
  return (out_width + ((w.span() - 1) / w.stride + 1 + kVectorSlack)) * w.stride;
}
inline int64_t DepthwiseRows(const ConvCall& call) {  // pixel rows a task, at most
  const int64_t lines = kDepthwiseFloats / DepthwiseLine(call.w, call.out_width);
  return std::max<int64_t>(1, (lines - call.h.span()) / call.h.stride + 1);
}

using DepthwiseFn = void (*)(const ConvCall& call, const DepthwiseTask& task);
DepthwiseFn FindDepthwise();

}  // namespace liveshape::cpu
