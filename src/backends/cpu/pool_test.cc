// Pools against loops in double: every ISA, thread count and dtype.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/kernel_testing.h"
#include "ops/window.h"

namespace liveshape::cpu {

extern const CpuKernel kPoolKernel, kAdaptiveMeanKernel;

namespace {

using testing::ForEachIsa;
using testing::Tensor;

TEST(Pool, NaNStaysAndPaddingNeverWins) {
  const ops::Window window = {.size = 3, .stride = 2, .before = 1, .after = 1};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    Tensor x(dtype, {1, 1, 5, 5});
    x.Fill(1, -3, -1);
    x.Set(6, testing::kNaN);
    const double corner =
        std::fmax(std::fmax(x.Get(18), x.Get(19)), std::fmax(x.Get(23), x.Get(24)));
    ir::Attrs attrs = ops::WindowAttrs({window, window});
    attrs.insert(attrs.end(), {{"kind", std::string("max")},
                               {"ceil", int64_t{0}},
                               {"count_padding", int64_t{1}},
                               {"divisor", int64_t{0}}});
    ForEachIsa(kPoolKernel, attrs, {&x}, Tensor(dtype, {1, 1, 3, 3}), [&](const Tensor& y) {
      EXPECT_TRUE(std::isnan(y.Get(0)));
      EXPECT_TRUE(std::isnan(y.Get(4)));
      EXPECT_EQ(y.Get(8), corner);
    });
  }
}

// Side by side, overlapping, with gaps, with padding; at every width around a vector, in images that lie row by row in turns
// or one after the other, which windows may cover to the last row.
TEST(Pool, WindowsOfAnyWidth) {
  const ops::Window kinds[] = {{.size = 2, .stride = 2},
                               {.size = 3, .stride = 3},
                               {.size = 1, .stride = 2},
                               {.size = 2, .stride = 1},
                               {.size = 3, .stride = 2, .before = 1, .after = 1},
                               {.size = 2, .stride = 2, .before = 1, .after = 1},
                               {.size = 5, .stride = 2}};
  for (const ops::Window& window : kinds) {
    for (const char* kind : {"max", "mean"}) {
      for (int64_t width = 5; width <= 75; width += width < 40 ? 1 : 7) {
        const bool max = kind[1] == 'a';
        const bool dense = width % 3 != 0;
        const int64_t height = dense ? 6 : 7, padded = window.before + window.after - window.size;
        const int64_t rows = (height + padded) / window.stride + 1;
        const int64_t columns = (width + padded) / window.stride + 1;
        Tensor x = dense ? Tensor(DType::kF32, {2, 2, height, width})
                         : Tensor(DType::kF32, {2, 2, height, width}, {2, 0, 1, 3});
        x.Fill(static_cast<uint32_t>(width));
        ir::Attrs attrs = ops::WindowAttrs({window, window});
        attrs.insert(attrs.end(), {{"kind", std::string(kind)},
                                   {"ceil", int64_t{0}},
                                   {"count_padding", int64_t{0}},
                                   {"divisor", int64_t{0}}});
        ForEachIsa(kPoolKernel, attrs, {&x}, Tensor(DType::kF32, {2, 2, rows, columns}),
                   [&](const Tensor& y) {
                     for (int64_t i = 0; i < y.numel(); ++i) {
                       const int64_t plane = i / (rows * columns), r = i / columns % rows;
                       double most = -testing::kInf, sum = 0, count = 0;
                       for (int64_t k = 0; k < window.size * window.size; ++k) {
                         const int64_t a = r * window.stride - window.before + k / window.size;
                         const int64_t b =
                             i % columns * window.stride - window.before + k % window.size;
                         if (a < 0 || a >= height || b < 0 || b >= width) continue;
                         const double v = x.Get((plane * height + a) * width + b);
                         most = std::max(most, v), sum += v, ++count;
                       }
                       ASSERT_NEAR(y.Get(i), max ? most : sum / count, max ? 0 : 1e-6)
                           << kind << " " << window.size << "/" << window.stride << " of " << width;
                     }
                   });
      }
    }
  }
}

TEST(Pool, AdaptiveWindowsOverlapWhereTheyMust) {
  Tensor x(DType::kF32, {1, 2, 5, 3}, {0, 2, 3, 1});
  x.Fill(7);
  ForEachIsa(kAdaptiveMeanKernel, {{"sizes", std::vector<sym::Expr>{}}}, {&x},
             Tensor(DType::kF32, {1, 2, 2, 3}), [&](const Tensor& y) {
               const auto at = [&](int64_t row) { return x.Get(15 + row * 3 + 1); };
               EXPECT_NEAR(y.Get(7), (at(0) + at(1) + at(2)) / 3, 1e-6);
               EXPECT_NEAR(y.Get(10), (at(2) + at(3) + at(4)) / 3, 1e-6);
             });
}

}  // namespace
}  // namespace liveshape::cpu
