// Convolutions against loops in double: every ISA, thread count, dtype and option.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#if !defined(__wasi__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "backends/cpu/kernel_testing.h"
#include "base/status.h"
#include "ops/conv/cpu_pairs.h"
#include "ops/conv/cpu_winograd.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::cpu {

extern const CpuKernel kConvKernel;

namespace {

using testing::ForEachIsa;
using testing::Tensor;

struct ConvCase {
  int64_t batch, channels, rows, groups, height, width;
  ops::Window h, w;
  DType dtype = DType::kF32;
  bool bias = true;
  std::vector<int> order = {};  // of the image in memory
  int64_t gap = 1;

  int64_t depth() const { return channels / groups * h.size * w.size; }
};

int64_t Places(const ops::Window& w, int64_t extent) {
  return (extent + w.before + w.after - w.span()) / w.stride + 1;
}

double Expected(const ConvCase& c, const Tensor& x, const Tensor& weight, const Tensor* bias,
                int64_t n, int64_t o, int64_t i, int64_t j) {
  const int64_t group_channels = c.channels / c.groups;
  const int64_t first = o / (c.rows / c.groups) * group_channels;
  double sum = bias ? bias->Get(o) : 0;
  for (int64_t k = 0; k < c.depth(); ++k) {
    const int64_t channel = k / (c.h.size * c.w.size);
    const int64_t row = i * c.h.stride - c.h.before + k / c.w.size % c.h.size * c.h.dilation;
    const int64_t column = j * c.w.stride - c.w.before + k % c.w.size * c.w.dilation;
    if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
    sum += weight.Get(o * c.depth() + k) *
           x.Get(((n * c.channels + first + channel) * c.height + row) * c.width + column);
  }
  return sum;
}

void CheckConv(const ConvCase& c) {
  Tensor x(c.dtype, {c.batch, c.channels, c.height, c.width}, c.order, c.gap);
  Tensor weight(c.dtype, {c.rows, c.depth()}), bias(c.dtype, {c.rows});
  x.Fill(1, -1, 1), weight.Fill(2, -1, 1), bias.Fill(3, -1, 1);
  const int64_t height = Places(c.h, c.height), width = Places(c.w, c.width);
  const Tensor empty(c.dtype, {c.batch, c.rows, height, width});
  ir::Attrs attrs = ops::WindowAttrs({c.h, c.w});
  attrs.emplace_back("groups", c.groups);
  std::vector<double> expected;
  for (int64_t at = 0; at < empty.numel(); ++at)
    expected.push_back(Expected(c, x, weight, c.bias ? &bias : nullptr,
                                at / (c.rows * height * width), at / (height * width) % c.rows,
                                at / width % height, at % width));
  const double unit = c.dtype == DType::kF32 ? 2e-6 : c.dtype == DType::kF16 ? 1e-3 : 8e-3;
  const double tolerance = unit * (1 + std::sqrt(static_cast<double>(c.depth())));
  SCOPED_TRACE(::testing::Message() << c.channels << " -> " << c.rows << " / " << c.groups << ", "
                                    << c.height << " x " << c.width << " by " << c.h.size << " x "
                                    << c.w.size << ", dtype " << static_cast<int>(c.dtype));
  ForEachIsa(kConvKernel, attrs, {&x, &weight, c.bias ? &bias : nullptr}, empty,
             [&](const Tensor& y) {
               for (int64_t at = 0; at < y.numel(); ++at)
                 ASSERT_NEAR(y.Get(at), expected[static_cast<size_t>(at)], tolerance) << at;
             });
}

constexpr ops::Window kOne = {};
constexpr ops::Window kThree = {.size = 3, .before = 1, .after = 1};

// What is planned for images is enough for the kernel, however it cuts them at that live size.
TEST(Conv, PlannedScratchIsEnough) {
  const ops::Window windows[] = {{1, 1}, {3, 1}, {3, 2}, {1, 3}, {2, 5, 2}, {7, 2}, {5, 1, 3}};
  for (const ops::Window& h : windows)
    for (const ops::Window& w : windows)
      for (const int64_t batch : {1, 2, 9, 1000})
        for (const int64_t width :
             {1, 2, 3, 7, 48, 143, 144, 215, 216, 217, 431, 433, 480, 481, 999})
          for (const int64_t height : {1, 2, 3, 5, 62, 144, 431, 432, 500}) {
            const int64_t depth = 3 * h.size * w.size;
            for (const DType dtype : {DType::kF32, DType::kF16}) {
              const int64_t planned =
                  PlannedProductFloats(h, w, batch, height, width, depth, 20, dtype);
              // Threads have blocks of kPatchPixels at least.
              for (const int64_t pixels :
                   {kPatchPixels, kPatchPixels * 3 / 2, PatchPixels(depth)}) {
                const auto needed = [&](int64_t rows, int64_t columns) {
                  return ProductScratch(h, w, BlockImages(batch, rows * columns),
                                        BlockRows(rows, columns, pixels),
                                        BlockColumns(columns, pixels), depth, 20, dtype)
                      .total();
                };
                if (pixels > PatchPixels(depth)) continue;
                ASSERT_GE(planned, needed(height, width)) << height << " x " << width;
                ASSERT_GE(planned, needed(1, height * width)) << height << " x " << width;
              }
            }
          }
  // Sums of 512 rows that lie in y: 7 of 7.5 MB, if there were room for them.
  const int64_t images = 1, side = 224;
  EXPECT_LT(PlannedProductFloats(kThree, kThree, images, side, side, 27, 512, DType::kF32) * 4,
            1500 * 1024);
}

#if !defined(__wasi__)
// Floats that end where a page begins that nobody may touch.
class GuardedFloats {
 public:
  explicit GuardedFloats(int64_t floats) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(floats) * sizeof(float);
    const size_t room = (bytes + page - 1) / page * page;
    size_ = room + page;
    void* const map =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LS_CHECK(map != MAP_FAILED);
    map_ = static_cast<std::byte*>(map);
    LS_CHECK(mprotect(map_ + room, page, PROT_NONE) == 0);
    std::memset(map_, 0xff, room);  // NaN
    data_ = reinterpret_cast<float*>(map_ + room - bytes);
  }
  ~GuardedFloats() { munmap(map_, size_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  float* data() const { return data_; }

 private:
  std::byte* map_;
  size_t size_;
  float* data_;
};

// Each block, however large, has the scratch that it asks for and no more; and gives the same bits.
TEST(Conv, BlocksKeepToTheirScratch) {
  const ops::Window two = {.size = 3, .stride = 2, .before = 1, .after = 1}, skips = {.stride = 2};
  const ConvCase cases[] = {
      {1, 3, 40, 1, 40, 45, kThree, kThree},  // short sums, more pixels
      {1, 3, 20, 1, 60, 64, kThree, kThree}, {1, 5, 20, 1, 2, 900, kThree, kThree},
      {1, 40, 24, 1, 30, 29, kThree, two},   {9, 20, 33, 1, 7, 7, kThree, kThree},
      {5, 6, 40, 1, 9, 11, kOne, kOne},      {1, 40, 40, 1, 1, 1024, kOne, kOne},
      {1, 300, 20, 1, 31, 33, skips, skips}};
  for (ConvCase c : cases)
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      c.dtype = dtype;
      const int64_t height = Places(c.h, c.height), width = Places(c.w, c.width);
      Tensor x(dtype, {c.batch, c.channels, c.height, c.width});
      Tensor weight(dtype, {c.rows, c.depth()});
      x.Fill(1, -1, 1), weight.Fill(2, -1, 1);
      const View seen = x.view();
      ConvCall call = {.x = seen.data,
                       .x_strides = seen.strides,
                       .batch = c.batch,
                       .height = c.height,
                       .width = c.width,
                       .channels = c.channels,
                       .rows = c.rows,
                       .out_height = height,
                       .out_width = width,
                       .h = c.h,
                       .w = c.w,
                       .dtype = dtype};
      std::vector<float> panels(static_cast<size_t>(RoundUp16(c.rows) * c.depth()));
      for (int64_t p = 0; p < DivideUp(c.rows, 16); ++p)
        FindPackWeight()(weight.view(), p, panels.data() + p * 16 * c.depth());
      call.panels = panels.data();
      for (const Isa isa : AvailableIsas()) {
        ASSERT_TRUE(SetIsa(isa));
        std::vector<std::byte> first;
        for (const int64_t pixels : {kPatchPixels / 9, kPatchPixels / 2, kPatchPixels,
                                     kPatchPixels * 3 / 2, PatchPixels(c.depth())}) {
          if (pixels > PatchPixels(c.depth())) continue;
          const int64_t images = BlockImages(c.batch, height * width);
          const int64_t rows = images > 1 ? height : BlockRows(height, width, pixels);
          const int64_t columns = rows == 1 ? std::min(width, RoundUp16(pixels)) : width;
          Tensor y(dtype, {c.batch, c.rows, height, width});
          call.y = y.view().data;
          for (int64_t image = 0; image < c.batch; image += images)
            for (int64_t top = 0; top < height; top += rows)
              for (int64_t left = 0; left < width; left += columns) {
                const int64_t image_end = std::min(image + images, c.batch);
                const int64_t bottom = std::min(top + rows, height);
                const int64_t right = std::min(left + columns, width);
                const ProductScratch needed(c.h, c.w, image_end - image, bottom - top, right - left,
                                            c.depth(), c.rows, dtype);
                const GuardedFloats scratch(needed.total());
                FindProduct()(call, {.image = image,
                                     .images = image_end - image,
                                     .top = top,
                                     .bottom = bottom,
                                     .left = left,
                                     .right = right,
                                     .row_begin = 0,
                                     .row_end = c.rows,
                                     .scratch = scratch.data()});
              }
          if (first.empty()) first = y.bytes();
          ASSERT_EQ(y.bytes(), first) << Name(isa) << ", blocks of " << pixels;
        }
      }
    }
  SetIsa(BestIsa());
}
#endif

TEST(Conv, EveryWidthOfTiles) {
  for (int64_t width = 1; width <= 50; width += width < 18 ? 1 : 7)
    CheckConv({1, 2, 5, 1, 1, width, kOne, kThree});
  for (int64_t rows : {1, 2, 3, 4, 7, 8, 15, 16, 17, 33})
    CheckConv({1, 3, rows, 1, 5, 7, kThree, kThree, DType::kF32, rows % 2 == 0});
}

TEST(Conv, BlocksOfPixelsRowsAndDepth) {
  CheckConv({2, 40, 150, 1, 18, 17, kThree, kThree});  // several of each
  CheckConv({1, 300, 20, 1, 16, 16, kOne, kOne});      // patches read in place
  CheckConv({1, 40, 40, 1, 64, 64, kOne, kOne});       // copied once: channels meet in few sets
  CheckConv({1, 40, 150, 1, 16, 48, kOne, kOne});      // and since there are many panels
  CheckConv({3, 300, 20, 1, 5, 3, kOne, kOne, DType::kF32, false});  // and too few pixels for that
  CheckConv({0, 4, 4, 1, 5, 5, kThree, kThree});
  for (const int64_t width : {31, 220, 430, 900})  // short sums: blocks of more rows
    CheckConv({1, 3, 17, 1, 9000 / width, width, kThree, kThree});
  for (const int64_t width : {697, 700, 704}) CheckConv({2, 6, 300, 1, 1, width, kOne, kOne});
  const ops::Window two = {.size = 1, .stride = 2}, patch = {.size = 4, .stride = 4};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {  // small images share blocks
    CheckConv({9, 140, 20, 1, 7, 7, kOne, kOne, dtype});
    CheckConv({61, 5, 20, 1, 5, 3, kThree, kThree, dtype, false});
    CheckConv({5, 6, 40, 2, 9, 11, kThree, kThree, dtype});
    CheckConv({3, 6, 17, 1, 13, 19, two, two, dtype});
    CheckConv({2, 3, 17, 1, 33, 28, patch, patch, dtype});
  }
}

// Strips that are the image itself, some elements on: padding and dilation beyond the image too, small images in one block.
TEST(Conv, RowsAsWideAsTheImage) {
  const auto same = [](int64_t size, int64_t dilation, int64_t before) {
    return ops::Window{size, 1, dilation, before, dilation * (size - 1) - before};
  };
  for (const int64_t width : {1, 3, 7, 15, 28, 33})
    for (const DType dtype : {DType::kF32, DType::kF16})
      CheckConv({2, 6, 10, 2, 19, width, same(3, 1, 1), same(3, 1, 1), dtype});
  for (const int64_t before : {0, 1, 3, 8})
    CheckConv({1, 3, 5, 1, 25, 21, same(5, 2, 8 - before), same(3, 4, before)});
  CheckConv({30, 4, 9, 1, 4, 5, same(3, 1, 2), same(7, 2, 6)});  // no pixel sees all taps
  CheckConv({1, 3, 5, 1, 2, 3, same(9, 1, 4), same(9, 1, 8)});
}

// Windows that lie apart, inside the image: four taps at once, but for those that a row or a block of the sum ends with.
TEST(Conv, WindowsSideBySide) {
  for (const int64_t size : {3, 4, 6, 9, 14})
    for (const int64_t stride : {4, 5, 14}) {
      const ops::Window window = {.size = size, .stride = stride};
      for (const int64_t across : {1, 3, 4, 14})
        CheckConv({across == 3 ? 5 : 1, 3, 17, 1, size + 2 * stride, size + (across - 1) * stride,
                   window, window, across == 4 ? DType::kBF16 : DType::kF32});
    }
}

// Every second pixel of a row, to the last of the image; more channels than one block of the sum has.
TEST(Conv, EverySecondPixel) {
  const ops::Window two = {.size = 1, .stride = 2};
  for (const int64_t width : {15, 31, 32, 33, 55, 56, 63})
    CheckConv({2, 40, 33, 1, 9, width, two, two});
  CheckConv({3, 300, 70, 1, 56, 57, two, two});
  CheckConv({1, 40, 64, 1, 1, 56, two, two});  // the last tile that fetches ends inside a panel
  CheckConv({2, 520, 24, 2, 11, 29, two, two});
}

// 3 x 3 with channels enough for tiles: even and odd sizes, rows of less than a vector and of more than a block of tiles,
// images that share a block, any padding.
TEST(Conv, TilesOfTwoByTwo) {
  for (const int64_t stride : {1, 2}) {
    const auto window = [&](int64_t before, int64_t after) {
      return ops::Window{.size = 3, .stride = stride, .before = before, .after = after};
    };
    const ops::Window three = window(1, 1), none = window(0, 0), much = window(2, 3);
    for (int64_t width = 7; width <= 20; ++width) {
      CheckConv({1, 16, 17, 1, stride * (width % 5 + 8), stride * width, three, three});
      CheckConv({1, 16, 17, 1, stride * (width % 5 + 10) - 1, stride * width + 1, three, three});
    }
    for (int64_t width = 22; width <= 40; width += 5)
      CheckConv({1, 16, 17, 1, stride * 9, stride * width, three, three});
    CheckConv({5, 16, 40, 1, 7 * stride, 7 * stride, three, three});
    CheckConv({2, 160, 33, 1, 14 * stride, 14 * stride, three, three, DType::kF32, false});
    CheckConv({1, 192, 70, 1, 14 * stride, 14 * stride, three, three});  // panels four at a time
    CheckConv({1, 16, 16, 1, 3 * stride, 700, three, three});
    CheckConv({1, 16, 16, 1, 9 * stride, 12 * stride, none, much});
    CheckConv(
        {1, 16, 16, 1, 9 * stride, 12 * stride, much, none, DType::kF32, true, {0, 2, 3, 1}, 2});
  }
}

// Windows in parts, and taps apart: phases of unequal sizes, some of no pixels.
TEST(Conv, TilesOfLargerWindows) {
  const auto window = [](int64_t size, int64_t dilation, int64_t before, int64_t after) {
    return ops::Window{.size = size, .dilation = dilation, .before = before, .after = after};
  };
  for (const int64_t high : {3, 4, 5, 6, 7})
    for (const int64_t wide : {3, 4, 5, 6, 7})
      CheckConv({1, 16, 17, 1, high + 8, wide + 13, window(high, 1, 1, 2), window(wide, 1, 2, 0)});
  for (const int64_t dilation : {2, 3, 5})
    for (const int64_t before : {0, 1, 2, 3, 7}) {
      const ops::Window v = window(3, dilation, before, 2), w = window(3, 2, before, before);
      CheckConv({2, 16, 17, 1, 23, 22, v, w});
      CheckConv({1, 16, 16, 1, 24, 27, w, v, DType::kF32, true, {0, 2, 3, 1}, 2});
    }
  CheckConv({1, 16, 16, 1, 33, 41, window(5, 3, 4, 1), window(7, 2, 6, 6)});
  CheckConv({1, 16, 16, 1, 12, 600, window(5, 1, 2, 2), window(3, 2, 2, 2)});
  CheckConv({1, 40, 16, 1, 3, 3, window(3, 4, 9, 9), window(3, 4, 9, 9)});
}

// Few channels: even and odd widths, rows that are no multiple of what is made at once, taps of any height.
TEST(Conv, PairsOfFewChannels) {
  const auto window = [](int64_t size, int64_t dilation, int64_t before, int64_t after) {
    return ops::Window{.size = size, .dilation = dilation, .before = before, .after = after};
  };
  for (int64_t width = 31; width <= 68; ++width)
    CheckConv({1, 3, 16 + width % 5, 1, 5 + width % 13, width, kThree, kThree});
  for (const int64_t high : {1, 2, 3, 5})
    for (const int64_t channels : {2, 5, 6}) {
      CheckConv({2, channels, 17, 1, 19, 40, window(high, 1, 0, 2), window(3, 1, 2, 0)});
      CheckConv({1, channels, 33, 1, 19, 41, window(high, 3, 4, 1), window(3, 1, 0, 3), DType::kF32,
                 false});
    }
  CheckConv({2, 3, 20, 1, 20, 130, kThree, kThree, DType::kF32, true, {0, 2, 3, 1}, 2});
  CheckConv({1, 3, 64, 1, 9, 224, kThree, kThree});
}

TEST(Conv, PlannedScratchIsEnoughForPairs) {
  for (const int64_t size : {1, 3, 5})
    for (int64_t width = Pairs::kLeastWidth; width < 300; ++width) {
      const ops::Window h = {.size = size};
      const int64_t rows = Pairs::kBlockRows - 1 + h.span(), pairs = (width + 1) / 2;
      const int64_t needed = rows * (3 * 4 * Pairs::Line(pairs) + ImageLine(kOne, 2 * pairs + 2));
      ASSERT_GE(Pairs::WorkerFloats(h, 3, width), needed) << width;
    }
}

TEST(Conv, PlannedScratchIsEnoughForTiles) {
  const ops::Window windows[] = {{.size = 3},
                                 {.size = 5},
                                 {.size = 7, .dilation = 2},
                                 {.size = 3, .stride = 2},
                                 {.size = 4, .dilation = 3}};
  for (const ops::Window& h : windows)
    for (const ops::Window& w : windows)
      for (const int64_t channels : {16, 64, 100, 512})
        for (const int64_t batch : {1, 3})
          for (const int64_t height : {1, 2, 7, 56, 301})
            for (const int64_t width : {1, 2, 7, 14, 56, 95, 97, 640}) {
              if (h.stride != w.stride) continue;
              const Winograd winograd(h, w);
              const WinogradForm& form = winograd.form;
              const int64_t columns = winograd.TileColumns(width);
              const int64_t rows = winograd.TileRows(batch, height);
              const int64_t most = winograd.BlockTiles(channels, Winograd::kMostBlockFloats);
              const int64_t block_rows = std::min(rows, std::max<int64_t>(1, most / columns));
              const int64_t block_columns = std::min(columns, most);
              const int64_t line = OddLines(block_rows * block_columns + kVectorSlack);
              const int64_t seen =
                  form.move() * (block_columns - 1) + winograd.seen(winograd.across);
              const int64_t all = winograd.parts() * channels;
              const int64_t needed =
                  OddLines(4 * all) + form.image_points() * OddLines(line * all) +
                  winograd.PanelsAtOnce(channels) * form.tile_sums() * OddLines(line * 16) +
                  (form.move() * (block_rows - 1) + winograd.seen(winograd.down)) *
                      ImageLine(kOne, seen) +
                  form.move() * kVectorSlack;
              ASSERT_GE(winograd.WorkerFloats(rows * columns, rows, channels), needed)
                  << channels << ": " << batch << " x " << height << " x " << width;
            }
}

// An infinity or NaN reaches the windows that see it, and no others: also one that no window sees, in a row's end.
TEST(Conv, WhatIsNotFiniteStaysInItsWindows) {
  const ops::Window windows[] = {{.size = 3, .before = 1},
                                 {.size = 3, .stride = 2, .before = 1},
                                 {.size = 5, .before = 1},
                                 {.size = 3, .dilation = 3, .before = 1}};
  for (int i = 0; i < 8; ++i) {
    const ops::Window& window = windows[i / 2];
    const int64_t channels = i % 2 == 0 ? 16 : 3, height = 20, width = 37;
    const ConvCase c = {1, channels, 16, 1, height, width, window, window};
    Tensor x(c.dtype, {1, channels, height, width}), weight(c.dtype, {16, c.depth()}),
        bias(c.dtype, {16});
    x.Fill(1, -1, 1), weight.Fill(2, -1, 1), bias.Fill(3, -1, 1);
    const double infinity = std::numeric_limits<double>::infinity();
    x.Set((0 * height + 5) * width + 7, infinity);
    x.Set((1 * height + 15) * width + width - 1, std::nan(""));
    x.Set(((channels - 1) * height + height - 1) * width + 2, -infinity);
    const auto places = [&](int64_t extent) {
      return (extent + window.before - window.span()) / window.stride + 1;
    };
    const int64_t rows = places(height), columns = places(width);
    const Tensor empty(c.dtype, {1, 16, rows, columns});
    ir::Attrs attrs = ops::WindowAttrs({c.h, c.w});
    attrs.emplace_back("groups", c.groups);
    ForEachIsa(kConvKernel, attrs, {&x, &weight, &bias}, empty, [&](const Tensor& y) {
      for (int64_t at = 0; at < y.numel(); ++at) {
        const double expected = Expected(c, x, weight, &bias, 0, at / columns / rows,
                                         at / columns % rows, at % columns);
        if (std::isfinite(expected))
          ASSERT_NEAR(y.Get(at), expected, 3e-5) << at;
        else if (std::isnan(expected))
          ASSERT_TRUE(std::isnan(y.Get(at))) << at;
        else
          ASSERT_EQ(y.Get(at), expected) << at;
      }
    });
  }
}

// Square depthwise windows, from rows in place: every width near a vector's and below, both strides, any padding above
// and at the sides.
TEST(Conv, DepthwiseSquares) {
  for (const int64_t size : {3, 5, 7})
    for (const int64_t stride : {1, 2})
      for (const int64_t rows : {1, 3, 9, 14})
        for (const int64_t width :
             {1, 2, 5, 6, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 34, 48, 64, 70, 131}) {
          const int64_t half = size / 2, above = rows % 2 + half;
          const int64_t left = rows == 9 ? size - half - 2 : rows == 14 ? size + 2 : half;
          const ops::Window w = {.size = size, .stride = stride, .before = left, .after = size - 1};
          const ops::Window even = {.size = size, .stride = stride, .before = half, .after = half};
          const ops::Window h = {.size = size, .stride = stride, .before = above, .after = half};
          CheckConv({1, 3, 3, 3, rows, width, h, w, DType::kF32, width % 2 == 0});
          CheckConv({1, 3, 3, 3, rows, width, h, even, DType::kF32, width % 2 == 1});
        }
  const ops::Window seven = {.size = 7, .before = 3, .after = 3};
  CheckConv({2, 4, 8, 4, 5, 5, seven, seven});  // two channels out of one
}

TEST(Conv, EveryOption) {
  const ops::Window odd = {.size = 4, .stride = 2, .dilation = 3, .before = 2, .after = 5};
  const ops::Window wide = {.size = 2, .stride = 3, .before = 4};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    CheckConv({2, 6, 10, 1, 13, 29, odd, wide, dtype});
    CheckConv({2, 6, 10, 2, 13, 60, kThree, odd, dtype});
    CheckConv({1, 12, 36, 3, 9, 9, wide, kThree, dtype, false});
    CheckConv({1, 6, 6, 6, 13, 70, odd, kThree, dtype});
    CheckConv({2, 3, 12, 3, 30, 33, kThree, wide, dtype});
    CheckConv({1, 4, 4, 4, 9, 31, wide, odd, dtype, false});
  }
}

TEST(Conv, PatchesInRowsAndInStrips) {
  const ops::Window two = {.size = 3, .stride = 2, .before = 1, .after = 1};
  const ops::Window apart = {.size = 3, .dilation = 9, .before = 9, .after = 9};
  const ops::Window skips = {.size = 2, .stride = 5};  // rows and columns that no tap reads
  const ops::Window many = {
      .size = 13, .before = 6, .after = 6};  // taps of a channel in two blocks
  for (int64_t width : {96, 31}) {           // whole vectors, and not
    CheckConv({1, 20, 18, 1, 11, width, kThree, kThree});
    CheckConv({1, 20, 18, 1, 11, 2 * width, two, two});
    CheckConv({1, 20, 5, 1, 20, width, apart, kThree});
    CheckConv({1, 20, 5, 1, 21, 5 * width, skips, skips});
    CheckConv({1, 3, 5, 1, 9, width, many, many});
  }
}

TEST(Conv, ImagesOfAnyLayout) {
  CheckConv({2, 5, 9, 1, 6, 7, kThree, kThree, DType::kF32, true, {0, 2, 3, 1}});
  CheckConv({2, 5, 9, 1, 6, 7, kOne, kOne, DType::kF32, true, {0, 1, 3, 2}, 2});
  CheckConv({2, 5, 5, 5, 6, 7, kThree, kThree, DType::kBF16, true, {3, 2, 0, 1}, 3});
}

TEST(Conv, DepthwiseRowsLongerThanABlock) {
  CheckConv({1, 2, 2, 2, 4, 9000, kThree, kThree});
  CheckConv({1, 2, 2, 2, 40, 300, {.size = 5, .dilation = 7, .before = 3}, kThree});
  const ops::Window two = {.size = 5, .stride = 2, .before = 2, .after = 2};
  CheckConv({1, 2, 2, 2, 60, 700, two, two});
  // Narrow planes, in blocks, and with pixel rows that see nothing but padding.
  const ops::Window padded = {.size = 3, .before = 5, .after = 4};
  for (const int64_t rows : {1, 2, 700})
    for (const int64_t width : {5, 12}) {
      CheckConv({2, 3, 3, 3, rows, width, padded, kThree});
      CheckConv({2, 3, 3, 3, rows + 2, width, {.size = 3}, kThree});
    }
}

// The shape rules of windows: what cannot be is refused with its numbers, the rest follows torch.
TEST(Conv, ShapesFollowTheirRule) {
  ir::Graph graph;
  sym::Table& t = graph.table();
  const sym::Expr s = t.Symbol({.name = "s0", .lo = 1, .hi = 64});
  const auto x = graph.AddInput("x", {DType::kF32, {t.Int(2), t.Int(6), t.Int(1), s}});
  const auto w = graph.AddInput("w", {DType::kF32, {t.Int(4), t.Int(9)}});
  const auto add = [&](ops::Window h, ops::Window along, int64_t groups) {
    ir::Attrs attrs = ops::WindowAttrs({h, along});
    attrs.emplace_back("groups", groups);
    return graph.AddNode(ops::kConv, {x, w}, std::move(attrs));
  };
  const auto message = [&](ops::Window h, ops::Window along, int64_t groups) {
    auto result = add(h, along, groups);
    return result.ok() ? std::string("accepted") : std::string(result.status().message());
  };
  const ops::Window strided = {.size = 3, .stride = 2, .dilation = 2, .before = 1, .after = 3};
  const auto y = add(kOne, strided, 2);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(graph.type((*y)[0]).dims[3], sym::FloorDiv(s - 1, t.Int(2)) + 1);

  using ::testing::HasSubstr;
  EXPECT_THAT(message({.size = 3}, {}, 2), HasSubstr("a window of 3 does not fit an input of 1"));
  EXPECT_THAT(message({}, {.size = 3, .dilation = 64}, 2),
              HasSubstr("does not fit an input of s0"));
  EXPECT_THAT(message({}, {.size = 3}, 4), HasSubstr("6 input and 4 output channels in 4 groups"));
  EXPECT_THAT(message({}, {.size = 3}, 1), HasSubstr("the weight has 9 columns"));
  EXPECT_THAT(message({}, {.size = 3, .stride = 0}, 2), HasSubstr("stride 0"));
  EXPECT_THAT(message({}, {.size = 3, .before = -1}, 2), HasSubstr("padding -1"));
}

}  // namespace
}  // namespace liveshape::cpu
