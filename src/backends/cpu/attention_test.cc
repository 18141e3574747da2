// Attention against a double reference that follows ops.h word for word: masks, limits, rows without a key,
// NaN and infinities, poisoned keys, every ISA, any thread count.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/simd/isa.h"
#include "ops/attention/cpu_block.h"
#include "ops/attention/cpu_call.h"

namespace liveshape::cpu {
namespace {

ThreadPool& PoolOf(int threads) {
  static ThreadPool pools[] = {ThreadPool(1), ThreadPool(2), ThreadPool(3)};
  return pools[threads - 1];
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// A tensor with its own strides, filled through floats.
struct Tensor {
  std::vector<int64_t> dims, strides;
  DType dtype = DType::kF32;
  std::vector<std::byte> bytes;
  View view;

  Tensor(DType dtype, std::vector<int64_t> sizes, std::vector<int> order = {})
      : dims(std::move(sizes)), dtype(dtype) {
    strides.resize(dims.size());
    if (order.empty())
      for (size_t i = 0; i < dims.size(); ++i) order.push_back(static_cast<int>(i));
    int64_t numel = 1;
    for (size_t i = dims.size(); i-- > 0;) strides[order[i]] = numel, numel *= dims[order[i]];
    bytes.resize(numel * SizeOf(dtype) + 8);
    Bind();
  }
  Tensor(const Tensor&) = delete;
  void Bind() {
    view = {.data = bytes.data(),
            .dtype = dtype,
            .rank = static_cast<int>(dims.size()),
            .dims = dims.data(),
            .strides = strides.data()};
  }
  int64_t At(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] +
           (strides.size() > 3 ? d * strides[3] : 0);
  }
  void Set(int64_t at, float value) {
    if (dtype == DType::kF32) std::memcpy(&bytes[at * 4], &value, 4);
    if (dtype == DType::kF16) *reinterpret_cast<Half*>(&bytes[at * 2]) = FromFloat<Half>(value);
    if (dtype == DType::kBF16)
      *reinterpret_cast<BFloat*>(&bytes[at * 2]) = FromFloat<BFloat>(value);
    if (dtype == DType::kBool) bytes[at] = std::byte(value != 0);
    if (dtype == DType::kI64)
      reinterpret_cast<int64_t*>(bytes.data())[at] = static_cast<int64_t>(value);
  }
  float Get(int64_t at) const {
    float value;
    if (dtype == DType::kF32) return std::memcpy(&value, &bytes[at * 4], 4), value;
    if (dtype == DType::kF16) return ToFloat(*reinterpret_cast<const Half*>(&bytes[at * 2]));
    if (dtype == DType::kBF16) return ToFloat(*reinterpret_cast<const BFloat*>(&bytes[at * 2]));
    if (dtype == DType::kI64)
      return static_cast<float>(reinterpret_cast<const int64_t*>(bytes.data())[at]);
    return bytes[at] != std::byte{0};
  }
};

enum class Mask { kNone, kBool, kFloat };

struct Case {
  int64_t b, h, g, s, t, d, e;
  DType dtype = DType::kF32;
  Mask mask = Mask::kNone;
  bool limit = false, row_limits = false, strided = false, expanded_mask = false;
  int64_t limit_value = 1;
  AllMasked all_masked = AllMasked::kZero;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << "B" << c.b << " H" << c.h << " G" << c.g << " S" << c.s << " T" << c.t << " D"
             << c.d << " E" << c.e << " dtype" << int(c.dtype) << " mask" << int(c.mask) << " limit"
             << c.limit << ":" << c.limit_value << " row_limits" << c.row_limits << " strided"
             << c.strided << " all_masked" << int(c.all_masked);
}

struct Problem {
  Case c;
  Tensor q, k, v, mask, row_limits, out;
  AttentionCall call;
  float scale;
  std::vector<double> expected;

  static std::vector<int> Order(bool strided) {
    return strided ? std::vector<int>{0, 2, 1, 3} : std::vector<int>{};
  }

  explicit Problem(const Case& c)
      : c(c),
        q(c.dtype, {c.b, c.h, c.s, c.d}, Order(c.strided)),
        k(c.dtype, {c.b, c.g, c.t, c.d}, Order(c.strided)),
        v(c.dtype, {c.b, c.g, c.t, c.e}, Order(c.strided)),
        mask(c.mask == Mask::kBool ? DType::kBool : c.dtype, {c.b, c.h, c.s, c.t}),
        row_limits(DType::kI64, {c.b, c.h, c.s}),
        out(c.dtype, {c.b, c.h, c.s, c.e}),
        scale(1 / std::sqrt(static_cast<float>(std::max<int64_t>(1, c.d)))) {
    std::mt19937 random(static_cast<uint32_t>(c.s * 31 + c.t * 7 + c.d));
    std::normal_distribution<float> normal;
    for (Tensor* x : {&q, &k, &v}) {
      for (size_t i = 0; i < x->bytes.size() / SizeOf(x->dtype); ++i) x->Set(i, normal(random));
    }
    if (c.expanded_mask) mask.strides[0] = mask.strides[1] = 0;
    const int64_t mask_numel = c.b * c.h * c.s * c.t;
    for (int64_t i = 0; i < mask_numel; ++i) {
      const bool hide =
          random() % 3 == 0 || (c.t > 0 && (i / c.t) % 5 == 2);  // some rows see nothing
      mask.Set(i, c.mask == Mask::kBool ? !hide : hide ? -kInf : normal(random));
    }
    for (int64_t i = 0; i < c.b * c.h * c.s; ++i)
      row_limits.Set(i, static_cast<float>(int(random() % (c.t + 4)) - 2));
    call = {.q = &q.view,
            .k = &k.view,
            .v = &v.view,
            .mask = c.mask == Mask::kNone ? nullptr : &mask.view,
            .row_limits = c.row_limits ? &row_limits.view : nullptr,
            .out = &out.view,
            .scale = scale,
            .has_limit = c.limit,
            .limit = c.limit_value,
            .all_masked = c.all_masked};
  }

  int64_t Visible(int64_t b, int64_t h, int64_t s) const {
    int64_t n = c.t;
    if (c.limit) n = std::min(c.t, std::max<int64_t>(0, c.limit_value + s));
    if (c.row_limits)
      n = std::min(c.t, std::max<int64_t>(0, int64_t(row_limits.Get(row_limits.At(b, h, s, 0)))));
    return n;
  }

  // NaN in every key that no row of its (b, g) sees.
  void Poison() {
    for (int64_t b = 0; b < c.b; ++b) {
      for (int64_t g = 0; g < c.g; ++g) {
        int64_t seen = 0;
        for (int64_t h = g * (c.h / c.g); h < (g + 1) * (c.h / c.g); ++h) {
          for (int64_t s = 0; s < c.s; ++s) seen = std::max(seen, Visible(b, h, s));
        }
        for (int64_t t = seen; t < c.t; ++t) {
          for (int64_t d = 0; d < c.d; ++d) k.Set(k.At(b, g, t, d), kNaN);
          for (int64_t e = 0; e < c.e; ++e) v.Set(v.At(b, g, t, e), kNaN);
        }
      }
    }
  }

  std::vector<std::byte> Run(int threads, bool decode) {
    ThreadPool& pool = PoolOf(threads);
    const int64_t floats = std::max(
        threads * BlockScratch(call.rows(), c.t, c.d, c.e).total(),
        threads * ChunkScratch(call.rows(), c.t, c.d).total() +
            (c.b * c.g * std::max<int64_t>(1, (c.t + kDecodeKeys - 1) / kDecodeKeys) * kDecodeRows +
             1) *
                PartialFloats(c.e));
    std::vector<float> scratch(floats, kNaN);
    std::fill(out.bytes.begin(), out.bytes.end(), std::byte{0xff});
    auto* bytes = reinterpret_cast<std::byte*>(scratch.data());
    if (decode)
      DecodeAttention(call, pool, bytes);
    else
      BlockedAttention(call, pool, bytes);
    for (size_t i = out.bytes.size() - 8; i < out.bytes.size(); ++i)
      EXPECT_EQ(out.bytes[i], std::byte{0xff});
    return out.bytes;
  }

  void Check() {
    const double tolerance = c.dtype == DType::kF32 ? 2e-6 : c.dtype == DType::kF16 ? 2e-3 : 2e-2;
    if (expected.empty()) expected = Reference();
    for (size_t i = 0; i < expected.size(); ++i) {
      const double got = out.Get(i);
      if (std::isnan(expected[i])
              ? !std::isnan(got)
              : !(std::abs(got - expected[i]) <= tolerance * (1 + std::abs(expected[i])))) {
        FAIL() << c << " at " << i << ": " << got << ", expected " << expected[i];
      }
    }
  }

  std::vector<double> Reference() const {
    std::vector<double> result;
    for (int64_t b = 0; b < c.b; ++b)
      for (int64_t h = 0; h < c.h; ++h)
        for (int64_t s = 0; s < c.s; ++s) {
          const int64_t g = h / (c.h / c.g), n = Visible(b, h, s);
          std::vector<double> weight(n);
          std::vector<bool> hidden(n);
          double maximum = -INFINITY, total = 0;
          bool nan = false;
          for (int64_t t = 0; t < n; ++t) {
            double dot = 0;
            for (int64_t d = 0; d < c.d; ++d)
              dot += double(q.Get(q.At(b, h, s, d))) * k.Get(k.At(b, g, t, d));
            const float m = c.mask == Mask::kNone ? 0 : mask.Get(mask.At(b, h, s, t));
            hidden[t] = c.mask == Mask::kBool ? m == 0 : c.mask == Mask::kFloat && m == -kInf;
            weight[t] = hidden[t] ? -INFINITY : dot * scale + (c.mask == Mask::kFloat ? m : 0);
            nan |= std::isnan(weight[t]) || weight[t] == INFINITY;
            maximum = std::max(maximum, weight[t]);
          }
          const bool none = maximum == -INFINITY && !nan;
          for (double& w : weight) total += w = std::exp(w - maximum);
          for (int64_t e = 0; e < c.e; ++e) {
            double sum = 0;
            if (nan || (none && c.all_masked == AllMasked::kNan && c.t > 0)) {
              sum = kNaN;
            } else if (none && c.all_masked == AllMasked::kMean) {
              for (int64_t t = 0; t < c.t; ++t) sum += v.Get(v.At(b, g, t, e)) / double(c.t);
            } else if (!none) {
              for (int64_t t = 0; t < n; ++t)
                if (!hidden[t]) sum += weight[t] / total * v.Get(v.At(b, g, t, e));
            }
            result.push_back(sum);
          }
        }
    return result;
  }
};

void CheckProblem(Problem& problem) {
  for (Isa isa : AvailableIsas()) {
    ASSERT_TRUE(SetIsa(isa));
    SCOPED_TRACE(Name(isa));
    for (bool decode : {false, true}) {
      if (decode && !FitsDecode(problem.call)) continue;
      SCOPED_TRACE(decode ? "decode" : "blocked");
      const auto one = problem.Run(1, decode);
      problem.Check();
      EXPECT_EQ(one, problem.Run(2, decode)) << problem.c;
      EXPECT_EQ(one, problem.Run(3, decode)) << problem.c;
    }
  }
  SetIsa(BestIsa());
}

void CheckCase(const Case& c, bool poison = false) {
  Problem problem(c);
  if (poison) problem.Poison();
  CheckProblem(problem);
}

TEST(Attention, Shapes) {
  for (int64_t s : {1, 2, 5, 33, 97}) {
    for (int64_t t : {0, 1, 3, 16, 130, 300}) {
      for (auto [h, g] : {std::pair{1, 1}, {4, 2}, {6, 1}, {3, 3}}) {
        for (auto [d, e] : {std::pair{8, 8}, {7, 13}, {64, 80}}) {
          CheckCase({1, h, g, s, t, d, e});
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Attention, ZeroExtents) {
  CheckCase({0, 2, 1, 3, 4, 8, 8});
  CheckCase({2, 2, 1, 0, 4, 8, 8});
  CheckCase({2, 2, 1, 3, 4, 0, 8});
  CheckCase({2, 2, 1, 3, 4, 8, 0});
}

TEST(Attention, DTypesStridesMasksLimits) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (bool strided : {false, true}) {
      for (Mask mask : {Mask::kNone, Mask::kBool, Mask::kFloat}) {
        for (int limits : {0, 1, 2}) {
          for (AllMasked all_masked : {AllMasked::kZero, AllMasked::kMean, AllMasked::kNan}) {
            for (int64_t s : {1, 3, 50}) {
              for (int64_t t : {5, 150, 290}) {
                if (dtype != DType::kF32 && all_masked != AllMasked::kZero) continue;
                Case c = {2, 4, 2, s, t, 20, 24, dtype, mask, limits == 1, limits == 2, strided};
                c.limit_value = t - s - 1;
                c.all_masked = all_masked;
                c.expanded_mask = strided;
                // Rows without a key read all of v where they give its mean.
                CheckCase(c, all_masked != AllMasked::kMean);
                if (testing::Test::HasFatalFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

// A mask is read where it lies: columns first, one row for all queries, one number for all keys.
TEST(Attention, MasksOfAnyStrides) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (Mask mask : {Mask::kBool, Mask::kFloat}) {
      for (int64_t s : {3, 50}) {
        for (int64_t t : {40, 150}) {
          const Case c = {2, 4, 2, s, t, 16, 32, dtype, mask};
          for (const std::vector<int64_t>& strides : std::vector<std::vector<int64_t>>{
                   {4 * s * t, s * t, 1, s}, {t, 0, 0, 1}, {0, t, 0, 1}, {0, 0, 1, 0}}) {
            Problem problem(c);
            std::copy(strides.begin(), strides.end(), problem.mask.strides.begin());
            CheckProblem(problem);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// What a mask hides at the end of rows is left out, whatever is there; what it hides before that is not.
TEST(Attention, MasksThatHideTheEnd) {
  for (Mask kind : {Mask::kBool, Mask::kFloat}) {
    for (int64_t s : {4, 40}) {
      for (int64_t seen : {0, 1, 15, 16, 17, 128, 129, 200}) {
        Case c = {1, 2, 1, s, 200, 16, 16};
        c.mask = kind;
        Problem problem(c);
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t i = 0; i < s; ++i)
            for (int64_t t = 0; t < 200; ++t) {
              const bool hide = t >= seen || (t % 7 == 3 && i % 2);
              problem.mask.Set(problem.mask.At(0, h, i, t), kind == Mask::kBool ? !hide
                                                            : hide              ? -kInf
                                                                                : 0);
            }
        for (int64_t t = seen; t < 200; ++t) {
          problem.k.Set(problem.k.At(0, 0, t, 3), kNaN);
          problem.v.Set(problem.v.At(0, 0, t, 5), kInf);
        }
        CheckProblem(problem);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Attention, CausalFromAnyPosition) {
  for (int64_t limit : {-3, 0, 1, 2, 17, 127, 128, 129, 400}) {
    Case c = {1, 2, 2, 70, 300, 16, 16};
    c.limit = true, c.limit_value = limit;
    CheckCase(c, true);
    c.s = 1;
    CheckCase(c, true);
  }
}

// A hidden key that other rows of the block see may hold NaN or infinity: 0 * inf must not appear.
TEST(Attention, HiddenValuesAreNeverMultiplied) {
  for (int64_t s : {2, 30}) {
    for (Mask kind : {Mask::kBool, Mask::kFloat}) {
      Case c = {1, 2, 1, s, 40, 16, 20};
      c.mask = kind;
      Problem problem(c);
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t i = 0; i < s; ++i) {
          for (int64_t t = 0; t < 40; ++t)
            problem.mask.Set(problem.mask.At(0, h, i, t), kind == Mask::kBool ? 1 : 0);
          problem.mask.Set(problem.mask.At(0, h, i, 7), kind == Mask::kBool ? 0 : -kInf);
        }
      for (int64_t e = 0; e < 20; ++e) problem.v.Set(problem.v.At(0, 0, 7, e), e % 2 ? kInf : kNaN);
      for (int64_t d = 0; d < 16; ++d) problem.k.Set(problem.k.At(0, 0, 7, d), kNaN);
      CheckProblem(problem);
    }
    Case c = {1, 2, 1, s, 40, 16, 20};  // row 0 sees 3 keys, the last row more: V[5] is infinite
    c.limit = true, c.limit_value = 3;
    Problem problem(c);
    for (int64_t e = 0; e < 20; ++e) problem.v.Set(problem.v.At(0, 0, 5, e), kInf);
    for (Isa isa : AvailableIsas()) {
      SetIsa(isa);
      problem.Run(2, false);
      for (int64_t i = 0; i < s; ++i) {
        EXPECT_EQ(std::isfinite(problem.out.Get(problem.out.At(0, 1, i, 0))), i < 3) << i;
      }
    }
  }
}

TEST(Attention, NonFiniteScoresBehaveAsTorch) {
  for (float bad : {kInf, kNaN, -kInf}) {
    for (int64_t s : {1, 20}) {
      for (int64_t at : {0, 5, 131, 270}) {
        Case c = {1, 1, 1, s, 280, 4, 4};
        Problem problem(c);
        for (int64_t i = 0; i < s; ++i)
          for (int64_t d = 0; d < 4; ++d) problem.q.Set(problem.q.At(0, 0, i, d), 1 + i % 3);
        problem.k.Set(problem.k.At(0, 0, at, 1), bad);
        CheckProblem(problem);
      }
      // Only -inf scores: as if no key were seen.
      Case c = {1, 1, 1, s, 3, 1, 4};
      c.all_masked = AllMasked::kMean;
      Problem problem(c);
      for (int64_t i = 0; i < s; ++i) problem.q.Set(problem.q.At(0, 0, i, 0), 1);
      for (int64_t t = 0; t < 3; ++t) problem.k.Set(problem.k.At(0, 0, t, 0), bad);
      CheckProblem(problem);
    }
  }
}

// finfo.min in an additive mask is a number: a row of it weighs all keys alike.
TEST(Attention, FiniteMinimumMask) {
  Case c = {1, 1, 1, 2, 150, 8, 8};
  c.mask = Mask::kFloat;
  Problem problem(c);
  for (int64_t t = 0; t < 150; ++t)
    problem.mask.Set(problem.mask.At(0, 0, 0, t), std::numeric_limits<float>::lowest());
  for (bool decode : {false, true}) {
    problem.Run(1, decode);
    for (int64_t e = 0; e < 8; ++e) {
      double mean = 0;
      for (int64_t t = 0; t < 150; ++t) mean += problem.v.Get(problem.v.At(0, 0, t, e)) / 150.0;
      EXPECT_NEAR(problem.out.Get(problem.out.At(0, 0, 0, e)), mean, 1e-6);
    }
  }
}

// What a row gives does not depend on the capacity behind its limit.
TEST(Attention, CapacityDoesNotChangeBits) {
  for (int64_t s : {1, 40}) {
    std::vector<std::byte> first;
    for (int64_t t : {300, 301, 5000}) {
      Case c = {1, 2, 1, s, 5000, 16, 16};
      c.limit = true, c.limit_value = 300 - s + 1;
      Problem problem(c);
      problem.k.dims[2] = problem.v.dims[2] = t;
      problem.Poison();
      const auto out = problem.Run(2, s == 1);
      if (first.empty()) first = out;
      EXPECT_EQ(first, out) << t;
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu
