// Kernels over rows (softmax, norms, rope, reductions, running sums, copies) against references in double:
// layouts, extents of 0 and 1, odd lengths, NaN and infinities, every ISA, any thread count.
#include "backends/cpu/kernel_testing.h"
#include "backends/cpu/stream.h"
#include "backends/cpu/strided_copy.h"

namespace liveshape::cpu {

extern const CpuKernel kCopyKernel;
extern const CpuKernel kCumsumKernel;
extern const CpuKernel kLayerNormKernel;
extern const CpuKernel kReduceKernel;
extern const CpuKernel kRmsNormKernel;
extern const CpuKernel kRopeKernel;
extern const CpuKernel kSoftmaxKernel;

namespace {

using testing::Close;
using testing::ForEachIsa;
using testing::kInf;
using testing::kNaN;
using testing::PoolOf;
using testing::RunKernel;
using testing::Tensor;

constexpr DType kFloats[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
double Tolerance(DType t) { return t == DType::kF16 ? 2e-3 : t == DType::kBF16 ? 1.6e-2 : 2e-6; }

// Flat index of element k of the row through `flat` along `dim`.
int64_t Along(const std::vector<int64_t>& dims, size_t dim, int64_t flat, int64_t k) {
  int64_t inner = 1;
  for (size_t d = dim + 1; d < dims.size(); ++d) inner *= dims[d];
  const int64_t at = flat / inner % dims[dim];
  return flat + (k - at) * inner;
}

void SoftmaxOfEveryDimAndLayout(bool log) {
  for (DType t : kFloats) {
    for (std::vector<int64_t> dims : {std::vector<int64_t>{3, 5, 67},
                                      {2, 4100, 1},
                                      {1, 1, 9},
                                      {2, 0, 3},
                                      {64, 2, 20},
                                      {1, 300, 13}}) {
      for (size_t dim = 0; dim < 3; ++dim) {
        for (std::vector<int> order : {std::vector<int>{0, 1, 2}, {2, 0, 1}}) {
          Tensor x(t, dims, order);
          x.Fill(7, -20, 20);
          const ir::Attrs attrs = {{"dim", static_cast<int64_t>(dim)},
                                   {"all_masked", std::string("nan")},
                                   {"log", int64_t{log}}};
          ForEachIsa(kSoftmaxKernel, attrs, {&x}, Tensor(t, dims), [&](const Tensor& y) {
            for (int64_t i = 0; i < y.numel(); i += 1 + y.numel() / 40) {
              double sum = 0, max = -kInf;
              for (int64_t k = 0; k < dims[dim]; ++k)
                max = std::max(max, x.Get(Along(dims, dim, i, k)));
              for (int64_t k = 0; k < dims[dim]; ++k)
                sum += std::exp(x.Get(Along(dims, dim, i, k)) - max);
              const double shifted = x.Get(i) - max;
              const double expected = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
              ASSERT_TRUE(Close(y.Get(i), expected, Tolerance(t))) << Name(t) << i;
            }
          });
        }
      }
    }
  }
}
TEST(Softmax, EveryDimAndLayout) { SoftmaxOfEveryDimAndLayout(false); }
TEST(Softmax, LogarithmOfEveryDimAndLayout) { SoftmaxOfEveryDimAndLayout(true); }

// Six lines of n: plain; only -inf; one key left; a NaN; a +inf; -inf and NaN. Along the last dim, and side by side.
TEST(Softmax, OddLengthsAndMaskedLines) {
  for (int64_t n = 1; n <= 67; ++n) {
    for (bool columns : {false, true}) {
      const std::vector<int64_t> dims = {columns ? n : 6, columns ? 6 : n};
      const auto at = [&](int64_t line, int64_t k) {
        return columns ? k * 6 + line : line * n + k;
      };
      Tensor x(DType::kF32, dims);
      x.Fill(static_cast<uint32_t>(n));
      for (int64_t k = 0; k < n; ++k)
        x.Set(at(1, k), -kInf), x.Set(at(2, k), k ? -kInf : 3), x.Set(at(5, k), -kInf);
      x.Set(at(3, n / 2), kNaN), x.Set(at(4, n - 1), kInf), x.Set(at(5, n - 1), kNaN);
      for (const char* masked : {"nan", "zero", "log"}) {
        const bool log = masked[0] == 'l';
        const ir::Attrs attrs = {{"dim", int64_t{!columns}},
                                 {"all_masked", std::string(log ? "nan" : masked)},
                                 {"log", int64_t{log}}};
        ForEachIsa(kSoftmaxKernel, attrs, {&x}, Tensor(DType::kF32, dims), [&](const Tensor& y) {
          double sum = 0;
          for (int64_t k = 0; k < n; ++k) {
            sum += log ? std::exp(y.Get(at(0, k))) : y.Get(at(0, k));
            ASSERT_TRUE(Close(y.Get(at(1, k)), masked[0] == 'z' ? 0 : kNaN, 0)) << n;
            ASSERT_EQ(y.Get(at(2, k)), log ? (k ? -kInf : 0) : (k ? 0 : 1));
            for (int line : {3, 4, 5})
              ASSERT_TRUE(std::isnan(y.Get(at(line, k)))) << line << " " << n;
          }
          ASSERT_NEAR(sum, 1, 2e-6);
        });
      }
    }
  }
}

TEST(Norms, RmsAndLayer) {
  for (DType t : kFloats) {
    for (int64_t n : {1, 2, 7, 31, 64, 67, 1000, 4099}) {
      for (bool affine : {true, false}) {
        Tensor x(t, {3, 2, n}, {1, 0, 2}), w(t, {n}), b(t, {n});
        x.Fill(1, -2, 5), w.Fill(2), b.Fill(3);
        const double tolerance = Tolerance(t) * 4;
        auto row = [&](int64_t i) { return i / n * n; };
        ForEachIsa(kRmsNormKernel, {{"eps", 1e-5}}, {&x, affine ? &w : nullptr},
                   Tensor(t, {3, 2, n}), [&](const Tensor& y) {
                     for (int64_t i = 0; i < y.numel(); ++i) {
                       if (i % n > 3 && i % n < n - 2) continue;
                       double sum = 0;
                       for (int64_t k = 0; k < n; ++k) sum += x.Get(row(i) + k) * x.Get(row(i) + k);
                       const double expected =
                           x.Get(i) / std::sqrt(sum / n + 1e-5) * (affine ? w.Get(i % n) : 1);
                       ASSERT_TRUE(Close(y.Get(i), expected, tolerance))
                           << n << " " << Name(t) << " " << y.Get(i) << " " << expected;
                     }
                   });
        ForEachIsa(kLayerNormKernel, {{"eps", 1e-5}},
                   {&x, affine ? &w : nullptr, affine ? &b : nullptr}, Tensor(t, {3, 2, n}),
                   [&](const Tensor& y) {
                     for (int64_t i = 0; i < y.numel(); ++i) {
                       if (i % n > 3 && i % n < n - 2) continue;
                       double mean = 0, variance = 0;
                       for (int64_t k = 0; k < n; ++k) mean += x.Get(row(i) + k) / n;
                       for (int64_t k = 0; k < n; ++k)
                         variance += std::pow(x.Get(row(i) + k) - mean, 2) / n;
                       double expected = (x.Get(i) - mean) / std::sqrt(variance + 1e-5);
                       if (affine) expected = expected * w.Get(i % n) + b.Get(i % n);
                       ASSERT_TRUE(Close(y.Get(i), expected, tolerance))
                           << n << " " << Name(t) << " " << y.Get(i) << " " << expected;
                     }
                   });
      }
    }
  }
}

// Beyond StreamBytes() rows pass by the caches: the same bits as of a row by itself.
TEST(Norms, LargeResultsAreStreamed) {
  const int64_t n = 1003;  // rows begin anywhere in a line
  SetStreamBytes(size_t{4} << 20);
  for (DType t : {DType::kF32, DType::kBF16}) {
    const int64_t size = static_cast<int64_t>(SizeOf(t));
    const int64_t rows = static_cast<int64_t>(StreamBytes()) / (2 * n * size) + 1;
    Tensor x(t, {rows, n}), w(t, {n}), b(t, {n}), out(t, {rows, n});
    x.Fill(1, -2, 5), w.Fill(2), b.Fill(3);
    for (int threads : {1, 3}) {
      const auto run = [&](Tensor& from, Tensor& to) {
        return RunKernel(kLayerNormKernel, {{"eps", 1e-5}}, {&from, &w, &b}, to, PoolOf(threads));
      };
      ASSERT_TRUE(run(x, out).ok());
      for (int64_t row = 0; row < rows; row += row % 2 == 0 ? 1 : rows / 9) {
        Tensor some(t, {1, n}), alone(t, {1, n});
        for (int64_t k = 0; k < n; ++k) some.Set(k, x.Get(row * n + k));
        ASSERT_TRUE(run(some, alone).ok());
        ASSERT_EQ(std::memcmp(alone.bytes().data(), out.bytes().data() + row * n * size, n * size),
                  0)
            << row;
      }
    }
    for (size_t i = rows * n * size; i < out.bytes().size(); ++i)
      ASSERT_EQ(out.bytes()[i], std::byte{0x7f}) << "written beyond the output";
  }
  SetStreamBytes(0);
}

TEST(Norms, EmptyAndNaN) {
  Tensor x(DType::kF32, {0, 8});
  ForEachIsa(kRmsNormKernel, {{"eps", 1e-6}}, {&x}, Tensor(DType::kF32, {0, 8}),
             [](const Tensor&) {});
  Tensor y(DType::kF32, {2, 9});
  y.Fill(1);
  y.Set(4, kNaN);
  ForEachIsa(kLayerNormKernel, {{"eps", 1e-6}}, {&y}, Tensor(DType::kF32, {2, 9}),
             [](const Tensor& out) {
               for (int64_t i = 0; i < 18; ++i) ASSERT_EQ(std::isnan(out.Get(i)), i < 9);
             });
}

// In f32 exactly what torch's three ops give; halves are rounded three times.
TEST(RopeKernel, MatchesEagerOps) {
  for (DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
    auto round = [&](float v) {
      return t == DType::kF32   ? v
             : t == DType::kF16 ? F32FromF16(F16FromF32(v))
                                : F32FromBF16(BF16FromF32(v));
    };
    for (int64_t d : {2, 6, 16, 64, 80, 128}) {
      const std::vector<int64_t> dims = {2, 3, 5, d};
      Tensor x(t, dims, {0, 2, 1, 3}), c(t, dims, {}, 1, 0b0010), s(t, dims, {}, 1, 0b0011);
      x.Fill(1), c.Fill(2, -1, 1), s.Fill(3, -1, 1);
      ForEachIsa(kRopeKernel, {}, {&x, &c, &s}, Tensor(t, dims), [&](const Tensor& y) {
        for (int64_t i = 0; i < y.numel(); ++i) {
          const int64_t k = i % d;
          const float turned = static_cast<float>(k < d / 2 ? -x.Get(i + d / 2) : x.Get(i - d / 2));
          const float a = round(static_cast<float>(x.Get(i)) * static_cast<float>(c.Get(i)));
          const float b = round(turned * static_cast<float>(s.Get(i)));
          ASSERT_EQ(y.Get(i), round(a + b)) << Name(t) << " " << d;
        }
      });
    }
  }
}

struct Reduced {
  std::vector<int64_t> dims;
  std::vector<int64_t> kept;
};
Reduced KeptDims(const std::vector<int64_t>& dims, const std::vector<int64_t>& axes) {
  Reduced r{dims, {}};
  for (size_t d = 0; d < dims.size(); ++d)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) == axes.end())
      r.kept.push_back(dims[d]);
  return r;
}
int64_t OutputOf(const std::vector<int64_t>& dims, const std::vector<int64_t>& axes, int64_t flat) {
  int64_t index = 0, scale = 1;
  for (size_t d = dims.size(); d-- > 0; flat /= dims[d]) {
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(d)) != axes.end()) continue;
    index += flat % dims[d] * scale;
    scale *= dims[d];
  }
  return index;
}

DType ResultOf(const std::string& kind, DType t) {
  if (kind == "any" || kind == "all") return DType::kBool;
  return (kind == "sum" || kind == "prod") && !IsFloat(t) ? DType::kI64 : t;
}

TEST(Reduce, EveryKindDtypeAndLayout) {
  const std::vector<std::vector<int64_t>> axes_of = {{0},    {1},    {2},       {0, 1},
                                                     {0, 2}, {1, 2}, {0, 1, 2}, {}};
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType t = static_cast<DType>(code);
    for (const char* name : {"sum", "mean", "prod", "max", "min", "any", "all"}) {
      const std::string kind = name;
      if (kind == "mean" && !IsFloat(t)) continue;
      for (const std::vector<int64_t>& axes : axes_of) {
        for (std::vector<int> order : {std::vector<int>{0, 1, 2}, {2, 1, 0}, {1, 0, 2}}) {
          const std::vector<int64_t> dims = {5, 3, kind == "prod" ? 2 : 70};
          Tensor x(t, dims, order);
          x.Fill(9, kind == "prod" ? 0.5 : 0, kind == "prod" ? 1.9 : 5);
          const Reduced r = KeptDims(dims, axes);
          const ir::Attrs attrs = {{"kind", kind}, {"dims", axes}, {"keepdim", int64_t{0}}};
          ForEachIsa(kReduceKernel, attrs, {&x}, Tensor(ResultOf(kind, t), r.kept),
                     [&](const Tensor& y) {
                       std::vector<double> expected(y.numel(), kind == "prod" || kind == "all" ? 1
                                                               : kind == "max" ? -kInf
                                                               : kind == "min" ? kInf
                                                                               : 0);
                       const double n = static_cast<double>(x.numel()) / y.numel();
                       for (int64_t i = 0; i < x.numel(); ++i) {
                         double& e = expected[OutputOf(dims, axes, i)];
                         const double v = x.Get(i);
                         if (kind == "sum") e += v;
                         if (kind == "mean") e += v / n;
                         if (kind == "prod") e *= v;
                         if (kind == "max") e = std::max(e, v);
                         if (kind == "min") e = std::min(e, v);
                         if (kind == "any") e = e != 0 || v != 0;
                         if (kind == "all") e = e != 0 && v != 0;
                       }
                       for (int64_t i = 0; i < y.numel(); ++i)
                         ASSERT_TRUE(Close(y.Get(i), expected[i], IsFloat(t) ? Tolerance(t) : 0))
                             << kind << " " << Name(t) << " " << y.Get(i) << " " << expected[i];
                     });
        }
      }
    }
  }
}

TEST(Reduce, EmptyAndNaN) {
  auto run = [&](const char* kind, std::vector<int64_t> dims, std::vector<int64_t> axes,
                 Tensor& out) {
    Tensor x(DType::kF32, dims);
    x.Fill(1);
    return RunKernel(kReduceKernel,
                     {{"kind", std::string(kind)}, {"dims", axes}, {"keepdim", int64_t{0}}}, {&x},
                     out, PoolOf(2));
  };
  Tensor f(DType::kF32, {3}), b(DType::kBool, {3});
  ASSERT_TRUE(run("sum", {0, 3}, {0}, f).ok());
  EXPECT_EQ(f.Get(2), 0);
  ASSERT_TRUE(run("prod", {0, 3}, {0}, f).ok());
  EXPECT_EQ(f.Get(0), 1);
  ASSERT_TRUE(run("mean", {3, 0}, {1}, f).ok());
  EXPECT_TRUE(std::isnan(f.Get(1)));
  ASSERT_TRUE(run("any", {0, 3}, {0}, b).ok());
  EXPECT_EQ(b.Get(0), 0);
  ASSERT_TRUE(run("all", {0, 3}, {0}, b).ok());
  EXPECT_EQ(b.Get(0), 1);
  EXPECT_FALSE(run("max", {0, 3}, {0}, f).ok());
  Tensor none(DType::kF32, {0});
  EXPECT_TRUE(run("max", {0, 3}, {1}, none).ok());

  for (int64_t n : {1, 5, 40, 100}) {
    for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
      for (const char* kind : {"max", "min", "sum"}) {
        for (bool columns : {false, true}) {
          Tensor x(DType::kF32, {6, n}, columns ? std::vector<int>{1, 0} : std::vector<int>{0, 1});
          x.Fill(2);
          x.Set(2 * n + at, kNaN), x.Set(3 * n + at, kInf), x.Set(4 * n + at, -kInf);
          const ir::Attrs attrs = {{"kind", std::string(kind)},
                                   {"dims", std::vector<int64_t>{1}},
                                   {"keepdim", int64_t{1}}};
          ForEachIsa(kReduceKernel, attrs, {&x}, Tensor(DType::kF32, {6, 1}), [&](const Tensor& y) {
            ASSERT_TRUE(std::isnan(y.Get(2)));
            if (kind[1] != 'i') {
              ASSERT_EQ(y.Get(3), kInf);
            }
            if (kind[1] != 'a') {
              ASSERT_EQ(y.Get(4), -kInf);
            }
          });
        }
      }
    }
  }
}

// Few outputs of many elements are made of slices, whose results are merged; a NaN of any slice wins.
TEST(Reduce, SlicesOfEveryKind) {
  for (DType t : {DType::kF32, DType::kBF16, DType::kI64, DType::kBool}) {
    for (const char* name : {"sum", "mean", "prod", "max", "min", "any", "all"}) {
      const std::string kind = name;
      if (kind == "mean" && !IsFloat(t)) continue;
      for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0}, {0, 1}}) {
        for (bool nan : {false, true}) {
          if (nan && !IsFloat(t)) continue;
          const std::vector<int64_t> dims = {45001, 5};
          Tensor x(t, dims, nan ? std::vector<int>{1, 0} : std::vector<int>{0, 1});
          for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, i % 3 == 0 ? 0.5 : 1);
          if (t == DType::kI64)
            for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, i % 1000 ? 1 : -1);
          x.Set(x.numel() - 1, nan ? kNaN : 0);
          const Reduced r = KeptDims(dims, axes);
          const ir::Attrs attrs = {{"kind", kind}, {"dims", axes}, {"keepdim", int64_t{0}}};
          ForEachIsa(kReduceKernel, attrs, {&x}, Tensor(ResultOf(kind, t), r.kept),
                     [&](const Tensor& y) {
                       const int64_t last = y.numel() - 1, step = y.numel();
                       double sum = 0, product = 1, most = -kInf, least = kInf, zeros = 0;
                       for (int64_t i = last; i < x.numel(); i += step) {
                         const double v = x.Get(i);
                         sum += v, product *= v, zeros += v == 0;
                         most = std::max(most, v), least = std::min(least, v);
                       }
                       const double expected = kind == "any"    ? 1
                                               : kind == "all"  ? zeros == 0
                                               : nan            ? kNaN
                                               : kind == "sum"  ? sum
                                               : kind == "mean" ? sum * step / x.numel()
                                               : kind == "prod" ? product
                                               : kind == "max"  ? most
                                                                : least;
                       ASSERT_TRUE(Close(y.Get(last), expected, IsFloat(t) ? Tolerance(t) : 0))
                           << kind << " " << Name(t) << " " << y.Get(last) << " " << expected;
                     });
        }
      }
    }
  }
}

// A long sum of 0.1 keeps seven digits.
TEST(Reduce, LongSumsAreAccurate) {
  for (bool columns : {false, true}) {
    Tensor x(DType::kF32, {1 << 20, 4}, columns ? std::vector<int>{0, 1} : std::vector<int>{1, 0});
    for (int64_t i = 0; i < x.numel(); ++i) x.Set(i, 0.1f);
    const ir::Attrs attrs = {
        {"kind", std::string("sum")}, {"dims", std::vector<int64_t>{0}}, {"keepdim", int64_t{0}}};
    ForEachIsa(kReduceKernel, attrs, {&x}, Tensor(DType::kF32, {4}), [&](const Tensor& y) {
      for (int64_t i = 0; i < 4; ++i) ASSERT_NEAR(y.Get(i) / (0.1f * (1 << 20)), 1, 2e-6);
    });
  }
}

TEST(Cumsum, EveryDtypeAndDim) {
  for (int code = 0; code < kDTypeCount; ++code) {
    const DType t = static_cast<DType>(code), result = IsFloat(t) ? t : DType::kI64;
    for (int64_t dim : {0, 1, 2}) {
      const std::vector<int64_t> dims = {3, 17, 5};
      Tensor x(t, dims, {1, 2, 0});
      x.Fill(3, 0, 4);
      ForEachIsa(kCumsumKernel, {{"dim", dim}}, {&x}, Tensor(result, dims), [&](const Tensor& y) {
        for (int64_t i = 0; i < y.numel(); ++i) {
          double sum = 0;
          for (int64_t k = 0; Along(dims, dim, i, k) <= i; ++k)
            sum += x.Get(Along(dims, dim, i, k));
          ASSERT_TRUE(Close(y.Get(i), sum, IsFloat(t) ? Tolerance(t) : 0)) << Name(t) << dim;
        }
      });
    }
  }
}

TEST(StridedCopy, EveryOrderGapAndSize) {
  for (DType t : {DType::kU8, DType::kF16, DType::kF32, DType::kI64}) {
    for (std::vector<int64_t> dims :
         {std::vector<int64_t>{3, 17, 33}, {1, 64, 64}, {2, 130, 5}, {0, 4, 4}, {7, 1, 67}}) {
      for (std::vector<int> order :
           {std::vector<int>{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
        for (int64_t gap : {1, 3}) {
          for (uint32_t zero : {0u, 1u, 2u, 4u, 7u}) {
            Tensor x(t, dims, order, gap, zero);
            x.Fill(5, 0, 100);
            ForEachIsa(kCopyKernel, {}, {&x}, Tensor(t, dims), [&](const Tensor& y) {
              for (int64_t i = 0; i < y.numel(); ++i) ASSERT_EQ(y.Get(i), x.Get(i)) << i;
            });
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu
