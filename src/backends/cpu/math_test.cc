// f32 functions of simd/math-inl.h through the tiles that pointwise uses: error in units of the last place
// against double, for every ISA, over all magnitudes; and torch's answers at the edges.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "base/half.h"
#include "ops/pointwise/cpu_chain.h"
#include "ops/pointwise/cpu_tiles.h"

namespace liveshape::cpu::pw {
namespace {

using ir::PwOp;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

void RunChain(Isa isa, std::span<ChainOp> ops, int64_t n) {
  const ChainRunner chain = FindChain(isa);
  for (size_t i = 0; i < ops.size(); ++i) chain.link(ops.data(), i);
  chain.run(ops.data(), n, 1);
}

std::vector<float> Apply(PwOp op, Isa isa, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  const TileFn fn = FindTile(op, DType::kF32, isa);
  if (!fn) {
    ChainOp ops[] = {{ChainCode::kLoad, kMemory, x.data()},
                     {ChainCodeOf(op).value(), kMemory},
                     {ChainCode::kStore, kMemory, y.data()},
                     {ChainCode::kEnd}};
    RunChain(isa, ops, x.size());
    return y;
  }
  for (size_t i = 0; i < x.size(); i += kTile) {
    const int64_t n = std::min<int64_t>(kTile, x.size() - i);
    fn({x.data() + i, nullptr, nullptr, y.data() + i, n});
  }
  return y;
}

// The distance of y from the exact value, in the spacing of floats there.
double UlpError(float y, double exact) {
  if (std::isnan(exact)) return std::isnan(y) ? 0 : 1e9;
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest))
    return y == nearest ? 0 : std::fabs(y) == std::numeric_limits<float>::max() ? 1 : 1e9;
  const float magnitude = std::max(std::fabs(nearest), std::numeric_limits<float>::min());
  const double ulp = std::nextafter(magnitude, kInf) - static_cast<double>(magnitude);
  return std::fabs(y - exact) / ulp;
}

// Every 4099th float, both signs, denormals included.
std::vector<float> AllMagnitudes() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < 0x100000000ull; bits += 4099) {
    const float f = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isfinite(f)) x.push_back(f);
  }
  return x;
}

struct Case {
  PwOp op;
  double (*exact)(double);
  double ulp;          // of FMA targets; others, which take some from libm, may be 1.5 worse
  float limit = kInf;  // |x| up to which this holds
};
double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

const Case kCases[] = {
    {PwOp::kExp, std::exp, 1.5},     {PwOp::kExp2, std::exp2, 1.5},
    {PwOp::kExpm1, std::expm1, 2.5}, {PwOp::kLog, std::log, 1.5},
    {PwOp::kLog2, std::log2, 2.0},   {PwOp::kLog1p, std::log1p, 2.5},
    {PwOp::kSin, std::sin, 2.0},     {PwOp::kCos, std::cos, 2.0},
    {PwOp::kTan, std::tan, 1.0},     {PwOp::kTanh, std::tanh, 3.0},
    {PwOp::kErf, std::erf, 1.5},     {PwOp::kSigmoid, SigmoidOf, 2.5, 88},
    {PwOp::kAtan, std::atan, 2.0},   {PwOp::kLog10, std::log10, 0.6},
    {PwOp::kAsin, std::asin, 0.6},   {PwOp::kAcos, std::acos, 0.6},
    {PwOp::kSinh, std::sinh, 0.6},   {PwOp::kCosh, std::cosh, 0.6},
};

TEST(Math, ErrorInUlp) {
  const std::vector<float> x = AllMagnitudes();
  for (Isa isa : AvailableIsas()) {
    const bool fused = isa == Isa::kAvx2 || isa == Isa::kAvx512 || isa == Isa::kNeon;
    for (const Case& c : kCases) {
      const std::vector<float> y = Apply(c.op, isa, x);
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        if (std::fabs(x[i]) > c.limit) continue;
        const double error = UlpError(y[i], c.exact(x[i]));
        if (error > worst) worst = error, at = x[i];
      }
      if (std::getenv("LS_PRINT_ERRORS"))
        std::printf("%-10s %-9s %.2f ulp at %g\n", ir::Name(c.op), Name(isa), worst, at);
      EXPECT_LE(worst, c.ulp + (fused ? 0 : 1.5))
          << ir::Name(c.op) << " " << Name(isa) << " at " << at;
    }
  }
}

std::vector<float> Apply(PwOp op, Isa isa, const std::vector<float>& x,
                         const std::vector<float>& y) {
  std::vector<float> z(x.size());
  const TileFn fn = FindTile(op, DType::kF32, isa);
  for (size_t i = 0; i < x.size(); i += kTile) {
    const int64_t n = std::min<int64_t>(kTile, x.size() - i);
    fn({x.data() + i, y.data() + i, nullptr, z.data() + i, n});
  }
  return z;
}

// Every pair of the edges of f32, then of random bits, and of random numbers of usual sizes.
void PairsOfOperands(std::vector<float>& x, std::vector<float>& y) {
  const float edges[] = {0, -0.0f,  1,     -1,   2,     -2,   0.5f,   -0.5f, 0.7f,
                         3, 1e-40f, 1e38f, kInf, -kInf, kNaN, -1e38f, 4,     -3};
  for (float a : edges)
    for (float b : edges) x.push_back(a), y.push_back(b);
  std::mt19937 random(3);
  std::uniform_real_distribution<float> usual(-20, 20);
  for (int i = 0; i < 200000; ++i) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    y.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
    x.push_back(usual(random)), y.push_back(usual(random));
    x.push_back(std::floor(x.back())), y.push_back(std::floor(y.back()));
  }
}

// Exact, so that all ISAs give what libm does, and what c10 makes of it.
TEST(Math, Remainders) {
  std::vector<float> x, y;
  PairsOfOperands(x, y);
  for (PwOp op : {PwOp::kFmod, PwOp::kRemainder, PwOp::kFloorDiv}) {
    const std::vector<float> wanted = Apply(op, Isa::kPortable, x, y);
    for (Isa isa : AvailableIsas()) {
      const std::vector<float> got = Apply(op, isa, x, y);
      for (size_t i = 0; i < x.size(); ++i) {
        if (op == PwOp::kFmod && !std::isnan(got[i])) {
          ASSERT_EQ(got[i], std::fmod(x[i], y[i]));
        }
        if (std::isnan(wanted[i]) && std::isnan(got[i])) continue;
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted[i]))
            << ir::Name(op) << " of " << x[i] << ", " << y[i] << " is " << got[i] << ", not "
            << wanted[i] << " on " << Name(isa);
      }
    }
  }
}

TEST(Math, Atan2) {
  std::vector<float> x, y;
  PairsOfOperands(x, y);
  for (Isa isa : AvailableIsas()) {
    const std::vector<float> z = Apply(PwOp::kAtan2, isa, y, x);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::atan2(static_cast<double>(y[i]), static_cast<double>(x[i]));
      const double error = UlpError(z[i], exact);
      if (!std::isnan(exact)) {
        ASSERT_EQ(std::signbit(exact), std::signbit(z[i])) << y[i] << ", " << x[i];
      }
      if (error > worst) worst = error, at = i;
    }
    EXPECT_LE(worst, isa == Isa::kPortable ? 1.5 : 0.6)  // libm's
        << Name(isa) << " at " << y[at] << ", " << x[at];
  }
}

// x of all magnitudes to powers that keep the result in range and ones that do not; and libm's answers at the edges.
TEST(Math, Pow) {
  std::vector<float> x, y;
  const std::vector<float> bases = AllMagnitudes();
  for (size_t i = 0; i < bases.size(); i += 16) {
    for (float e : {0.3f, -1.7f, 12.5f}) x.push_back(std::fabs(bases[i])), y.push_back(e);
  }
  for (int i = 0; i < 200000;
       ++i) {  // near 1, where a large power magnifies what the logarithm lost
    x.push_back(0.5f + 0.00001f * static_cast<float>(i));
    y.push_back(static_cast<float>(i % 601) * 0.37f - 100.0f);
  }
  PairsOfOperands(x, y);
  for (Isa isa : AvailableIsas()) {
    const std::vector<float> z = Apply(PwOp::kPow, isa, x, y);
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(y[i]));
      const double error = UlpError(z[i], exact);
      if (error > worst) worst = error, at = i;
    }
    if (std::getenv("LS_PRINT_ERRORS"))
      std::printf("pow        %-9s %.3f ulp at %g, %g\n", Name(isa), worst, x[at], y[at]);
    EXPECT_LE(worst, 1.0) << Name(isa) << " at " << x[at] << ", " << y[at];
  }
}

TEST(Math, Edges) {
  struct Edge {
    PwOp op;
    float x, y;
  };
  const Edge edges[] = {
      {PwOp::kExp, -kInf, 0},
      {PwOp::kExp, kInf, kInf},
      {PwOp::kExp, -104, 0},
      {PwOp::kExp, -103, 1.4e-45f},
      {PwOp::kExp, 88.73f, kInf},
      {PwOp::kExp, kNaN, kNaN},
      {PwOp::kLog, 0, -kInf},
      {PwOp::kLog, -0.0f, -kInf},
      {PwOp::kLog, -1, kNaN},
      {PwOp::kLog, kInf, kInf},
      {PwOp::kLog, kNaN, kNaN},
      {PwOp::kLog2, 1, 0},
      {PwOp::kLog2, 8, 3},
      {PwOp::kLog2, 0, -kInf},
      {PwOp::kLog1p, -1, -kInf},
      {PwOp::kLog1p, kInf, kInf},
      {PwOp::kLog1p, -2, kNaN},
      {PwOp::kExpm1, -kInf, -1},
      {PwOp::kExpm1, kInf, kInf},
      {PwOp::kTanh, kInf, 1},
      {PwOp::kTanh, -kInf, -1},
      {PwOp::kTanh, kNaN, kNaN},
      {PwOp::kErf, kInf, 1},
      {PwOp::kErf, -kInf, -1},
      {PwOp::kErf, kNaN, kNaN},
      {PwOp::kSin, kInf, kNaN},
      {PwOp::kCos, kNaN, kNaN},
      {PwOp::kSigmoid, -kInf, 0},
      {PwOp::kSigmoid, kInf, 1},
      {PwOp::kSilu, -kInf, kNaN},
      {PwOp::kRelu, kNaN, kNaN},
      {PwOp::kRelu, -kInf, 0},
      {PwOp::kSign, kNaN, 0},
      {PwOp::kSign, -2.5f, -1},
      {PwOp::kRound, 0.5f, 0},
      {PwOp::kRound, 2.5f, 2},
      {PwOp::kRound, 1e10f, 1e10f},
      {PwOp::kRound, kNaN, kNaN},
      {PwOp::kFloor, -0.5f, -1},
      {PwOp::kFloor, kInf, kInf},
      {PwOp::kTrunc, -1.5f, -1},
      {PwOp::kCeil, 1e-45f, 1},
      {PwOp::kSqrt, -1, kNaN},
      {PwOp::kRsqrt, 0, kInf},
      {PwOp::kReciprocal, -0.0f, -kInf},
      {PwOp::kAtan, kInf, 0x1.921fb6p+0f},
      {PwOp::kAtan, -kInf, -0x1.921fb6p+0f},
      {PwOp::kAtan, kNaN, kNaN},
      {PwOp::kGelu, -kInf, kNaN},
      {PwOp::kGelu, 0, 0},
      {PwOp::kGeluTanh, kInf, kInf},
  };
  for (Isa isa : AvailableIsas()) {
    for (const Edge& e : edges) {
      const float y = Apply(e.op, isa, {e.x})[0];
      const bool same = std::isnan(e.y) ? std::isnan(y) : y == e.y;
      EXPECT_TRUE(same) << ir::Name(e.op) << "(" << e.x << ") = " << y << ", not " << e.y << " on "
                        << Name(isa);
    }
  }
}

// A value does not depend on where in a tile it lies, nor on the tile's length.
TEST(Math, TailsRunTheSameCode) {
  std::vector<float> x(67);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 0.37f * static_cast<float>(i) - 9.1f;
  for (Isa isa : AvailableIsas()) {
    for (const Case& c : kCases) {
      const std::vector<float> whole = Apply(c.op, isa, x);
      for (size_t n = 1; n <= x.size(); ++n) {
        const std::vector<float> part = Apply(c.op, isa, {x.begin(), x.begin() + n});
        for (size_t i = 0; i < n; ++i)
          ASSERT_EQ(std::bit_cast<uint32_t>(part[i]), std::bit_cast<uint32_t>(whole[i]))
              << ir::Name(c.op) << " " << n;
      }
    }
  }
}

// All f16 and bf16 values go to f32 and back; rounding is to nearest even for all f32 near them.
TEST(Math, Halves) {
  for (Isa isa : AvailableIsas()) {
    for (bool brain : {false, true}) {
      const DType half = brain ? DType::kBF16 : DType::kF16;
      const auto convert = [&](DType from, const void* x, DType to, void* y, int64_t n) {
        ChainOp ops[] = {
            {LoadCode(from), kMemory, x}, {StoreCode(to), kMemory, y}, {ChainCode::kEnd}};
        RunChain(isa, ops, n);
      };
      std::vector<uint16_t> bits(65536), back(65536);
      std::vector<float> wide(65536);
      for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
      convert(half, bits.data(), DType::kF32, wide.data(), 65536);
      convert(DType::kF32, wide.data(), half, back.data(), 65536);
      for (size_t i = 0; i < bits.size(); ++i) {
        const float one = brain ? F32FromBF16(bits[i]) : F32FromF16(bits[i]);
        if (std::isnan(one)) {
          ASSERT_TRUE(std::isnan(wide[i]));
          ASSERT_TRUE(std::isnan(brain ? F32FromBF16(back[i]) : F32FromF16(back[i])));
          continue;
        }
        ASSERT_EQ(wide[i], one);
        ASSERT_EQ(back[i], bits[i]);
        if (!(std::fabs(one) < 65504.0f) || (bits[i] & 0x7fff) == 0) continue;
        // Half way to the next value goes to the even one; a hair beyond goes up.
        const float next = brain ? F32FromBF16(bits[i] + 1) : F32FromF16(bits[i] + 1);
        const float middle = 0.5f * (one + next);
        const float probes[2] = {middle, std::nextafter(middle, next)};
        uint16_t rounded[2];
        for (int k = 0; k < 2; ++k)
          rounded[k] = brain ? BF16FromF32(probes[k]) : F16FromF32(probes[k]);
        ASSERT_EQ(rounded[0], (bits[i] & 1) ? bits[i] + 1 : bits[i]);
        ASSERT_EQ(rounded[1], bits[i] + 1);
        uint16_t vector[2];
        const float padded[16] = {probes[0], probes[1]};
        uint16_t out[16];
        convert(DType::kF32, padded, half, out, 16);
        vector[0] = out[0], vector[1] = out[1];
        ASSERT_EQ(vector[0], rounded[0]);
        ASSERT_EQ(vector[1], rounded[1]);
      }
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu::pw
