// The matmul family against a double reference: every route, dtype, layout, ISA and thread count.
#include "backends/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/gemm/plain.h"
#include "backends/cpu/simd/isa.h"
#include "ops/linear/panel.h"
#include "ops/linear/quantised.h"

namespace liveshape::cpu {
namespace {

ThreadPool& PoolOf(int threads) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  return pools[threads - 1];
}

using Bytes = std::vector<std::byte>;

Bytes Encode(const std::vector<float>& values, DType dtype) {
  Bytes bytes(values.size() * SizeOf(dtype) + 8);  // never null
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) std::memcpy(&bytes[i * 4], &values[i], 4);
    const uint16_t bits =
        dtype == DType::kF16 ? FromFloat<Half>(values[i]).bits : FromFloat<BFloat>(values[i]).bits;
    if (dtype != DType::kF32) std::memcpy(&bytes[i * 2], &bits, 2);
  }
  return bytes;
}

float Decode(const Bytes& bytes, DType dtype, size_t i) {
  float value;
  uint16_t bits;
  if (dtype == DType::kF32) return std::memcpy(&value, &bytes[i * 4], 4), value;
  std::memcpy(&bits, &bytes[i * 2], 2);
  return dtype == DType::kF16 ? ToFloat(Half{bits}) : ToFloat(BFloat{bits});
}

enum class Right { kPanels, kRowMajor, kTransposed, kGaps };

struct GemmCase {
  int64_t m, n, k;
  DType dtype = DType::kF32;
  Right right = Right::kPanels;
  bool bias = true;
  bool a_transposed = false;
  int64_t batch = 1;
};

std::ostream& operator<<(std::ostream& out, const GemmCase& c) {
  return out << "M=" << c.m << " N=" << c.n << " K=" << c.k << " dtype=" << int(c.dtype)
             << " right=" << int(c.right) << " bias=" << c.bias << " aT=" << c.a_transposed
             << " batch=" << c.batch;
}

class Problem {
 public:
  explicit Problem(const GemmCase& c) : case_(c) {
    std::mt19937 random(static_cast<uint32_t>(c.m * 131 + c.n * 17 + c.k));
    std::uniform_real_distribution<float> uniform(-1, 1);
    const auto fill = [&](int64_t count) {
      std::vector<float> values(count);
      for (float& v : values) v = uniform(random);
      return values;
    };
    const int64_t gap = c.right == Right::kGaps ? 2 : 1;
    a_ = Encode(fill(c.batch * c.m * c.k), c.dtype);
    b_ = Encode(fill(c.batch * c.n * c.k * gap), c.dtype);
    bias_ = Encode(fill(c.n), c.dtype);
    a_strides_[0] = c.a_transposed ? 1 : c.k;
    const bool k_inner = c.right == Right::kPanels || c.right == Right::kTransposed;
    call_.m = c.m, call_.n = c.n, call_.k = c.k;
    call_.a = {.data = a_.data(),
               .dtype = c.dtype,
               .rank = 1,
               .dims = &call_.m,
               .strides = a_strides_,
               .k_stride = c.a_transposed ? c.m : 1};
    call_.b = {.data = b_.data(),
               .dtype = c.dtype,
               .panels = false,
               .k_stride = k_inner ? 1 : c.n * gap,
               .n_stride = k_inner ? c.k : gap};
    plain_b_ = call_.b;
    if (c.right == Right::kPanels) {
      panels_.resize(ops::Panel16Bytes(c.n, c.k, c.dtype) + 1);
      ops::PackPanel16({.data = b_.data(),
                        .dtype = c.dtype,
                        .rows = c.n,
                        .cols = c.k,
                        .row_stride = c.k,
                        .col_stride = 1},
                       panels_.data());
      call_.b.panels = true;
      call_.b.data = panels_.data();
    }
    call_.bias = c.bias ? bias_.data() : nullptr;
    call_.bias_dtype = call_.c_dtype = c.dtype;
    a_batch_[0] = c.m * c.k, b_batch_[0] = c.n * c.k * gap;
    if (c.batch != 1) {
      call_.batch_rank = 1;
      call_.batch_dims = &case_.batch;
      call_.a_batch_strides = a_batch_, call_.b_batch_strides = b_batch_;
    }
  }
  Problem(const Problem&) = delete;

  Bytes Run(int threads) {
    Bytes out(case_.batch * case_.m * case_.n * SizeOf(case_.dtype) + 64, std::byte{0xff});
    GemmCall call = call_;
    call.c = out.data();
    GemmCall sizes = call_;
    sizes.a.k_stride = 0;
    // Scratch is poisoned: 0xff.. is NaN in every dtype.
    Bytes scratch(GemmScratchBytes(sizes, sizes.m, sizes.n, sizes.k, threads) + 64,
                  std::byte{0xff});
    ThreadPool& pool = PoolOf(threads);
    void* aligned = scratch.data();
    size_t space = scratch.size();
    std::align(64, scratch.size() - 64, aligned, space);
    Gemm(call, pool, static_cast<std::byte*>(aligned));
    for (size_t i = out.size() - 64; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xff});
    out.resize(out.size() - 64);
    return out;
  }

  void Check(const Bytes& out) {
    const double unit = case_.dtype == DType::kF32   ? 2e-6
                        : case_.dtype == DType::kF16 ? 1e-3
                                                     : 8e-3;
    if (expected_.empty()) expected_ = Reference();
    const double tolerance = unit * (1 + std::sqrt(double(case_.k)));
    for (size_t i = 0; i < expected_.size(); ++i) {
      const double got = Decode(out, case_.dtype, i);
      if (!(std::abs(got - expected_[i]) <= tolerance)) {
        FAIL() << case_ << " at " << i << ": " << got << ", expected " << expected_[i];
      }
    }
  }

  std::vector<double> Reference() const {
    const auto& c = case_;
    const auto wide = [&](const Bytes& bytes) {
      std::vector<double> values(bytes.size() / SizeOf(c.dtype));
      for (size_t i = 0; i < values.size(); ++i) values[i] = Decode(bytes, c.dtype, i);
      return values;
    };
    const std::vector<double> a = wide(a_), b = wide(b_), bias = wide(bias_);
    std::vector<double> expected;
    for (int64_t batch = 0; batch < c.batch; ++batch) {
      for (int64_t m = 0; m < c.m; ++m) {
        for (int64_t n = 0; n < c.n; ++n) {
          double sum = c.bias ? bias[n] : 0;
          for (int64_t k = 0; k < c.k; ++k) {
            sum += a[batch * a_batch_[0] + m * a_strides_[0] + k * call_.a.k_stride] *
                   b[batch * b_batch_[0] + k * plain_b_.k_stride + n * plain_b_.n_stride];
          }
          expected.push_back(sum);
        }
      }
    }
    return expected;
  }

 private:
  GemmCase case_;
  GemmCall call_;
  GemmRight plain_b_;
  Bytes a_, b_, bias_, panels_;
  std::vector<double> expected_;
  int64_t a_strides_[1], a_batch_[1], b_batch_[1];
};

void CheckCase(const GemmCase& c) {
  Problem problem(c);
  for (Isa isa : AvailableIsas()) {
    ASSERT_TRUE(SetIsa(isa));
    SCOPED_TRACE(Name(isa));
    const Bytes one = problem.Run(1);
    problem.Check(one);
    EXPECT_EQ(one, problem.Run(2)) << c;
    EXPECT_EQ(one, problem.Run(3)) << c;
  }
  SetIsa(BestIsa());
}

TEST(Gemm, EveryShape) {
  constexpr int64_t kSizes[] = {0, 1, 2, 3, 5, 7, 16, 17, 33, 64, 100, 129};
  for (int64_t m : kSizes) {
    for (int64_t n : kSizes) {
      for (int64_t k : {0, 1, 16, 129}) {
        CheckCase({.m = m, .n = n, .k = k, .bias = (m + n) % 2 == 0});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Gemm, EveryDTypeLayoutAndRoute) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (Right right : {Right::kPanels, Right::kRowMajor, Right::kTransposed, Right::kGaps}) {
      for (int64_t m : {1, 2, 5, 13, 16, 17, 150}) {
        for (int64_t n : {1, 16, 70, 129}) {
          for (int64_t k : {0, 3, 256, 515}) {
            for (bool a_transposed : {false, true}) {
              CheckCase({m, n, k, dtype, right, n % 2 == 0, a_transposed});
              if (HasFatalFailure()) return;
            }
          }
        }
      }
    }
  }
}

TEST(Gemm, Batched) {
  for (int64_t batch : {0, 2, 5}) {
    for (int64_t m : {1, 7, 40}) {
      for (Right right : {Right::kRowMajor, Right::kTransposed}) {
        for (bool a_transposed : {false, true}) {
          CheckCase({m, 33, 20, DType::kF32, right, false, a_transposed, batch});
          CheckCase({m, 33, 20, DType::kBF16, right, false, a_transposed, batch});
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// A row's bits do not depend on how many rows come with it, nor on how B lies: one order of summation.
void CheckRows(int64_t most, int64_t n, int64_t k) {
  for (Right right : {Right::kPanels, Right::kRowMajor}) {
    std::vector<float> a(most * k), b(n * k);
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (float& v : a) v = normal(random);
    for (float& v : b) v = normal(random);
    std::vector<float> panels(ops::Panel16Bytes(n, k, DType::kF32) / 4);
    ops::PackPanel16({.data = reinterpret_cast<std::byte*>(b.data()),
                      .rows = n,
                      .cols = k,
                      .row_stride = k,
                      .col_stride = 1},
                     reinterpret_cast<std::byte*>(panels.data()));
    ThreadPool pool(2);
    const auto run = [&](int64_t m) {
      std::vector<float> out(m * n);
      GemmCall call;
      call.m = m, call.n = n, call.k = k;
      const int64_t row = k;
      call.a = {.data = reinterpret_cast<std::byte*>(a.data()),
                .rank = 1,
                .dims = &call.m,
                .strides = &row};
      const bool packed = right == Right::kPanels;
      call.b = {.data = reinterpret_cast<std::byte*>(packed ? panels.data() : b.data()),
                .panels = packed,
                .k_stride = 1,
                .n_stride = k};
      call.c = reinterpret_cast<std::byte*>(out.data());
      Bytes scratch(GemmScratchBytes(call, call.m, call.n, call.k, 2));
      Gemm(call, pool, scratch.data());
      return out;
    };
    const std::vector<float> all = run(most);
    for (int64_t m : {1, 2, 3, 4, 5, 6, 7, 16, 17, 145}) {
      if (m > most) continue;
      const std::vector<float> some = run(m);
      EXPECT_EQ(0, std::memcmp(some.data(), all.data(), some.size() * 4)) << m;
    }
  }
}

TEST(Gemm, RowsAreTheSameOnEveryRoute) {
  CheckRows(170, 50, 600);
  CheckRows(17, 1042, 2050);  // B beyond the caches
  CheckRows(17, 1042, 2048);  // and rows of A that are copied
}

// Dequantised in registers or block by block: the bits are those of the same product with f32 weights.
TEST(Gemm, QuantisedIsTheProductWithDequantisedWeights) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  const auto fill = [&](int64_t count) {
    std::vector<float> values(count);
    for (float& v : values) v = normal(random);
    return values;
  };
  for (ir::Encoding encoding : {ir::Encoding::kQ8SymG32, ir::Encoding::kQ4SymG32}) {
    for (int64_t k : {0, 1, 7, 31, 32, 33, 75, 256, 300, 515}) {
      for (int64_t n : {1, 16, 50, 70}) {
        const std::vector<float> w = fill(n * k);
        std::vector<std::byte> blocks(ops::QuantisedBytes(encoding, n, k));
        ASSERT_TRUE(ops::Quantise(encoding,
                                  {.data = reinterpret_cast<const std::byte*>(w.data()),
                                   .rows = n,
                                   .cols = k,
                                   .row_stride = k},
                                  blocks.data())
                        .ok());
        std::vector<float> plain(n * k);
        ops::WithBlocks(encoding, blocks.data(), [&](const auto* at) {
          for (int64_t r = 0; r < n; ++r)
            for (int64_t c = 0; c < k; ++c) plain[r * k + c] = ops::QuantisedAt(at, k, r, c);
        });
        for (int64_t m : {1, 2, 3, 6, 7, 13, 17, 150}) {
          const std::vector<float> a = fill(m * k);
          const auto run = [&](bool quantised, int threads) {
            std::vector<float> out(m * n);
            GemmCall call;
            call.m = m, call.n = n, call.k = k;
            call.a = {.data = reinterpret_cast<const std::byte*>(a.data()),
                      .rank = 1,
                      .dims = &call.m,
                      .strides = &call.k};
            if (quantised) {
              call.b = {.data = blocks.data(), .panels = true, .encoding = encoding};
            } else {
              call.b = {.data = reinterpret_cast<const std::byte*>(plain.data()),
                        .k_stride = 1,
                        .n_stride = k};
            }
            call.c = reinterpret_cast<std::byte*>(out.data());
            Bytes scratch(GemmScratchBytes(call, call.m, call.n, call.k, threads) + 64,
                          std::byte{0xff});
            void* aligned = scratch.data();
            size_t space = scratch.size();
            std::align(64, scratch.size() - 64, aligned, space);
            Gemm(call, PoolOf(threads), static_cast<std::byte*>(aligned));
            return out;
          };
          for (Isa isa : AvailableIsas()) {
            ASSERT_TRUE(SetIsa(isa));
            EXPECT_EQ(run(true, 2), run(false, 1))
                << Name(isa) << " " << ir::Name(encoding) << " " << m << " " << n << " " << k;
          }
        }
      }
    }
  }
  SetIsa(BestIsa());
}

TEST(Gemm, IntegersWrapAndDoublesAreExact) {
  ThreadPool pool(2);
  const int64_t a[] = {1, 2, int64_t{1} << 62, 4, 5, 6},
                b[] = {3, -1, 4, 2, 0, 5};  // [2,3] x [3,2]
  int64_t c[4];
  GemmCall call;
  call.m = 2, call.n = 2, call.k = 3;
  const int64_t row = 3;
  call.a = {.data = reinterpret_cast<std::byte*>(const_cast<int64_t*>(a)),
            .dtype = DType::kI64,
            .rank = 1,
            .dims = &call.m,
            .strides = &row};
  call.b = {.data = reinterpret_cast<std::byte*>(const_cast<int64_t*>(b)),
            .dtype = DType::kI64,
            .k_stride = 2,
            .n_stride = 1};
  call.c = reinterpret_cast<std::byte*>(c);
  call.c_dtype = DType::kI64;
  PlainGemm(call, pool);
  EXPECT_EQ(c[0], 11);
  EXPECT_EQ(c[1], static_cast<int64_t>(3 + 5 * (uint64_t{1} << 62)));
  EXPECT_EQ(c[2], 12 + 20 + 0);
  EXPECT_EQ(c[3], -4 + 10 + 30);
}

TEST(Panel16, RowsComeBack) {
  for (int64_t rows : {0, 1, 15, 16, 17, 40}) {
    for (int64_t cols : {0, 1, 7}) {
      std::vector<uint16_t> w(rows * cols);
      for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<uint16_t>(i + 1);
      Bytes packed(ops::Panel16Bytes(rows, cols, DType::kF16));
      ops::PackPanel16({.data = reinterpret_cast<std::byte*>(w.data()),
                        .dtype = DType::kF16,
                        .rows = rows,
                        .cols = cols,
                        .row_stride = cols},
                       packed.data());
      for (int64_t r = 0; r < rows; ++r) {
        std::vector<uint16_t> row(cols);
        ops::UnpackPanel16Row(packed.data(), DType::kF16, cols, r,
                              reinterpret_cast<std::byte*>(row.data()));
        for (int64_t c = 0; c < cols; ++c) EXPECT_EQ(row[c], w[r * cols + c]);
      }
    }
  }
}

TEST(Half, EveryPatternRoundTrips) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const Half half{static_cast<uint16_t>(i)};
    const float wide = ToFloat(half);
    if ((i & 0x7c00) == 0x7c00) {
      EXPECT_EQ(std::isinf(wide), (i & 0x3ff) == 0);
      EXPECT_EQ(std::isnan(wide), (i & 0x3ff) != 0);
    } else {
      const double mantissa = (i & 0x7c00) ? 1024 + (i & 0x3ff) : (i & 0x3ff);
      const int exponent = (i & 0x7c00) ? int(i >> 10 & 31) - 25 : -24;
      EXPECT_EQ(wide, (i & 0x8000 ? -1 : 1) * std::ldexp(mantissa, exponent));
    }
    if (!std::isnan(wide)) {
      EXPECT_EQ(FromFloat<Half>(wide).bits, i);
    }
    const float brain = ToFloat(BFloat{static_cast<uint16_t>(i)});
    if (!std::isnan(brain)) {
      EXPECT_EQ(FromFloat<BFloat>(brain).bits, i);
    } else {
      EXPECT_TRUE(std::isnan(ToFloat(FromFloat<BFloat>(brain))));
    }
  }
  EXPECT_EQ(FromFloat<Half>(65519.0f).bits, 0x7bff);
  EXPECT_EQ(FromFloat<Half>(65520.0f).bits, 0x7c00);
  EXPECT_EQ(FromFloat<Half>(0x1p-25f).bits, 0);  // half of the smallest: to even
  EXPECT_EQ(FromFloat<Half>(0x1.002p-25f).bits, 1);
  EXPECT_EQ(FromFloat<Half>(1.0f + 0x1p-11f).bits, 0x3c00);
  EXPECT_EQ(FromFloat<Half>(1.0f + 0x3p-11f).bits, 0x3c02);
}

}  // namespace
}  // namespace liveshape::cpu
