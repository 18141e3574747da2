#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "ops/linear/quantised.h"

namespace liveshape::ops {
namespace {

using ir::Encoding;

struct Quantised {
  Status status;
  std::vector<float> values;  // [rows][cols], q * scale
};

Quantised RoundTrip(Encoding encoding, const std::vector<float>& w, int64_t rows, int64_t cols,
                    bool transposed = false) {
  std::vector<std::byte> packed(static_cast<size_t>(QuantisedBytes(encoding, rows, cols)),
                                std::byte{0xff});
  Quantised result;
  result.status = Quantise(encoding,
                           {.data = reinterpret_cast<const std::byte*>(w.data()),
                            .rows = rows,
                            .cols = cols,
                            .row_stride = transposed ? 1 : cols,
                            .col_stride = transposed ? rows : 1},
                           packed.data());
  if (!result.status.ok()) return result;
  WithBlocks(encoding, packed.data(), [&](const auto* blocks) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) result.values.push_back(QuantisedAt(blocks, cols, r, c));
  });
  return result;
}

// The formula as it is written down, in other words than the code's. The conformance cases *_corners compare
// with torch.
std::vector<float> Formula(const std::vector<float>& w, int64_t cols, int most) {
  std::vector<float> result(w.size());
  for (size_t begin = 0; begin < w.size(); begin += static_cast<size_t>(cols)) {
    for (int64_t first = 0; first < cols; first += 32) {
      const size_t at = begin + static_cast<size_t>(first);
      const size_t end = begin + static_cast<size_t>(std::min(first + 32, cols));
      float largest = 0;
      for (size_t i = at; i < end; ++i) largest = std::max(largest, std::fabs(w[i]));
      const float scale = F32FromF16(F16FromF32(largest / static_cast<float>(most)));
      for (size_t i = at; i < end; ++i) {
        if (scale == 0) continue;
        const float q = std::nearbyint(w[i] / scale);
        result[i] = std::min<float>(std::max<float>(q, -most - 1), most) * scale;
      }
    }
  }
  return result;
}

TEST(Quantise, FollowsTheFormulaToTheBit) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (int64_t rows : {1, 16, 21}) {
    for (int64_t cols : {1, 31, 32, 33, 100}) {
      for (float size : {1.0f, 1e5f, 0x1p-20f, 0x1p-24f, 0x1p-130f}) {
        std::vector<float> w(static_cast<size_t>(rows * cols));
        for (float& v : w) v = normal(random) * size;
        for (int64_t c = 0; c < cols; ++c) w[c] = 0;
        EXPECT_EQ(RoundTrip(Encoding::kQ8SymG32, w, rows, cols).values, Formula(w, cols, 127));
        EXPECT_EQ(RoundTrip(Encoding::kQ4SymG32, w, rows, cols).values, Formula(w, cols, 7));
      }
    }
  }
}

TEST(Quantise, TiesGoToEven) {
  const std::vector<float> w = {7, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.49, 3.51};
  const std::vector<float> expected = {7, 0, 2, 2, 0, -2, -2, 3, 4};
  EXPECT_EQ(RoundTrip(Encoding::kQ4SymG32, w, 1, 9).values, expected);
}

TEST(Quantise, ReadsAnyStrides) {
  const std::vector<float> w = {7,  1, 2,
                                -3, 4, 5};  // of [2, 3]: columns are {7, 1}, {2, -3}, {4, 5}
  const std::vector<float> rows = RoundTrip(Encoding::kQ8SymG32, w, 2, 3, true).values;
  EXPECT_NEAR(rows[1], 2, 0.03);
  EXPECT_NEAR(rows[3], 1, 0.03);
  EXPECT_NEAR(rows[4], -3, 0.03);
}

TEST(Quantise, RefusesWhatHasNoScale) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float bad : {kInf, -kInf, std::nanf("")}) {
    std::vector<float> w(70, 1.0f);
    w[39] = bad;
    const Status status = RoundTrip(Encoding::kQ4SymG32, w, 2, 35).status;
    EXPECT_NE(status.message().find("element [1, 4] is "), std::string::npos) << status.message();
  }
  const std::vector<float> huge(5, 1e6f);
  const Status status = RoundTrip(Encoding::kQ4SymG32, huge, 1, 5).status;
  EXPECT_NE(status.message().find("reach 1e+06"), std::string::npos) << status.message();
  EXPECT_TRUE(RoundTrip(Encoding::kQ8SymG32, huge, 1, 5).status.ok());
}

}  // namespace
}  // namespace liveshape::ops
