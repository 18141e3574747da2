// What the pixels of a block see, laid out in the worker's scratch for the tiles of a product.
#if defined(LIVESHAPE_CONV_PATCHES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CONV_PATCHES_INL_H_
#undef LIVESHAPE_CONV_PATCHES_INL_H_
#else
#define LIVESHAPE_CONV_PATCHES_INL_H_
#endif

#include "backends/cpu/transpose.h"
#include "hwy/highway.h"
#include "ops/conv/cpu_call.h"
#include "ops/conv/rows-inl.h"
#include "ops/conv/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// Rows of the patches at a time, as even as whole channels allow: a short last step would be mostly loading and storing of
// sums.
int64_t PatchStep(int64_t depth, int64_t taps) {
  const int64_t most = PatchDepth(kStepDepth, taps);
  if (most < taps) return most;
  const int64_t steps = (depth + most - 1) / most, channels = depth / taps;
  return (channels + steps - 1) / steps * taps;
}

// Where the patches of a block are found: pixel [i, j] of the tiles sees data[offsets[k] + i * row_step + j].
struct Patches {
  const float* data;
  const int64_t* offsets;  // of the block's rows of the patches
  int64_t row_step;
};

// One task's block of pixels, and the part of the worker's scratch that holds what they see.
struct PixelBlock {
  int64_t images, height, width;
  ProductScratch layout;
  float *image, *packed;
  int64_t* offsets;
  PixelBlock(const ConvCall& call, const ConvTask& task)
      : images(task.images),
        height(task.bottom - task.top),
        width(task.right - task.left),
        layout(call.h, call.w, images, height, width, call.depth(), call.group_rows(), call.dtype),
        image(task.scratch),
        packed(image + layout.image),
        offsets(reinterpret_cast<int64_t*>(packed + layout.packed)) {}
  float* sums() const { return packed + layout.packed + layout.offsets; }
  int64_t image_pixels() const { return height * width; }
  int64_t pixels() const { return images * image_pixels(); }
};

// Rows [k0, k0 + depth) of the patches as channel, tap down and tap across: f(k - k0, channel, p, q).
template <typename F>
HWY_INLINE void ForEachTap(const ConvCall& call, int64_t k0, int64_t depth, F&& f) {
  int64_t channel = k0 / call.taps(), p = k0 % call.taps() / call.w.size, q = k0 % call.w.size;
  for (int64_t k = 0; k < depth; ++k) {
    f(k, channel, p, q);
    if (++q < call.w.size) continue;
    q = 0;
    if (++p < call.h.size) continue;
    p = 0;
    ++channel;
  }
}

// Vectors along each pixel row read the image's rows as LayOut leaves them: all taps share one copy.
template <typename T>
Patches PatchesInRows(const ConvCall& call, const ConvTask& task, const PixelBlock& block,
                      const T* planes, int64_t k0, int64_t depth) {
  const int64_t first = k0 / call.taps();
  ForEachTap(call, k0, depth, [&](int64_t k, int64_t channel, int64_t p, int64_t q) HWY_ATTR {
    float* const image = block.packed + (channel - first) * block.layout.image;
    if (k == 0 || (p == 0 && q == 0))
      LayOut(call, planes + channel * call.x_strides[1], task.top, task.bottom, task.left,
             task.right, image);
    block.offsets[k] = image - block.packed + TapOffset(call, block.width, p, q);
  });
  return {block.packed, block.offsets, ImageLine(call.w, block.width) * call.h.stride};
}

// Room for pixels that see themselves alone: the first panel's tiles copy them, while they multiply.
Patches PatchesToCome(const PixelBlock& block, int64_t depth) {
  for (int64_t k = 0; k < depth; ++k) block.offsets[k] = k * block.layout.image;
  return {block.packed, block.offsets, 0};
}

// The image itself, of which pixels see themselves alone, the block's first one `first`.
Patches PatchesInPlace(const ConvCall& call, const PixelBlock& block, const float* first,
                       int64_t depth) {
  for (int64_t k = 0; k < depth; ++k) block.offsets[k] = k * call.x_strides[1];
  return {first, block.offsets, 0};
}

// Whether every tap of every pixel of the block is inside the image.
bool NeedsNoPadding(const ConvCall& call, const ConvTask& task) {
  const auto inside = [](const ops::Window& w, int64_t begin, int64_t end, int64_t extent) {
    return begin * w.stride >= w.before && (end - 1) * w.stride - w.before + w.span() <= extent;
  };
  return inside(call.h, task.top, task.bottom, call.height) &&
         inside(call.w, task.left, task.right, call.width);
}

// Some of `taps` neighbouring taps across of height x width pixels that see `from` first, all of it inside the image: to[t *
// strip + i * width + j] is what pixel [i, j] sees by tap t. Gives how many were made.
template <typename T>
int64_t GatherTaps(const ConvCall& call, const T* from, int64_t taps, int64_t height, int64_t width,
                   float* to, int64_t strip) {
  const int64_t down = call.h.stride * call.x_strides[2], step = call.w.stride * call.x_strides[3];
  constexpr int64_t kSome = 4;
  if constexpr (std::is_same_v<T, float>) {
    if (taps >= kSome && step >= kSome && call.w.dilation * call.x_strides[3] == 1) {
      const TransposeStripFn turn = FindTransposeStrip();
      for (int64_t i = 0; i < height; ++i, from += down, to += width)
        turn(reinterpret_cast<const uint32_t*>(from), step, reinterpret_cast<uint32_t*>(to), strip,
             width);
      return kSome;
    }
  }
  for (int64_t i = 0; i < height; ++i, from += down, to += width) Gather(from, step, width, to);
  return 1;
}

// Vectors along all pixels need the rows side by side: a strip for every channel and tap across, which the
// taps down share where that is less than a strip for each. Images follow one another in the strips.
template <typename T>
Patches PatchesInStrips(const ConvCall& call, const ConvTask& task, const PixelBlock& block,
                        const T* planes, int64_t k0, int64_t depth) {
  const int64_t height = block.height, width = block.width, stride = call.h.stride;
  const int64_t line = ImageLine(call.w, width), span = call.h.span();
  const int64_t phases = stride < span ? stride : span;
  const int64_t phase_rows = height + (span - 1) / stride;
  const bool shared =
      block.images == 1 && phases * phase_rows < call.h.size * height && call.taps() <= kStepDepth;
  const bool shifted = stride == 1 && call.w.stride == 1 && width == call.width &&
                       call.x_strides[2] == width && call.x_strides[3] == 1;
  const bool direct = !shared && !shifted && NeedsNoPadding(call, task);
  const int64_t strip =
      OddLines(shared ? phases * phase_rows * width : block.pixels() + kVectorSlack);
  // What a vector has beyond a row, the next one overwrites; beyond the last is slack, or the next strip.
  const auto copy_rows = [&](auto v, const float* from, int64_t rows, float* to) HWY_ATTR {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < width; j += static_cast<int64_t>(hn::Lanes(v)))
        hn::StoreU(hn::LoadU(v, from + i * stride * line + j), v, to + i * width + j);
  };
  const hn::CappedTag<float, 8> half;  // stores cross fewer lines
  const auto side_by_side = [&](const float* from, int64_t rows, float* to) HWY_ATTR {
    width <= 8 ? copy_rows(half, from, rows, to) : copy_rows(Lane(), from, rows, to);
  };
  for (int64_t image = 0; image < block.images; ++image) {
    float* const first = block.packed + image * block.image_pixels();
    float* to = first;
    int64_t made = 0;  // rows of the patches, where `direct`
    ForEachTap(call, k0, depth, [&](int64_t k, int64_t channel, int64_t p, int64_t q) HWY_ATTR {
      const T* const plane = planes + image * call.x_strides[0] + channel * call.x_strides[1];
      if (!direct && !shifted && (k == 0 || (p == 0 && q == 0)))
        LayOut(call, plane, task.top, task.bottom, task.left, task.right, block.image);
      if (shared && p > 0) {
        const int64_t row = p * call.h.dilation;
        block.offsets[k] =
            block.offsets[k - p * call.w.size] + (row % stride * phase_rows + row / stride) * width;
        return;
      }
      block.offsets[k] = to - first;
      const int64_t row = task.top * stride - call.h.before + p * call.h.dilation;
      const int64_t column = task.left * call.w.stride - call.w.before + q * call.w.dilation;
      if (shifted) {
        ShiftedRows(call, plane, row, shared ? phase_rows : height, column, to);
      } else if (direct) {
        const T* const from = plane + row * call.x_strides[2] + column * call.x_strides[3];
        const int64_t taps = std::min(call.w.size - q, depth - k);
        if (k == made) made += GatherTaps(call, from, taps, height, width, to, strip);
      } else if (shared) {
        for (int64_t f = 0; f < phases; ++f)
          side_by_side(block.image + TapOffset(call, width, 0, q) + f * line,
                       height + (span - 1 - f) / stride, to + f * phase_rows * width);
      } else {
        side_by_side(block.image + TapOffset(call, width, p, q), height, to);
      }
      to += strip;
    });
  }
  return {block.packed, block.offsets, 0};
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
