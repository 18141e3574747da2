#include "cli/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cli/common.h"

namespace liveshape::cli {
namespace {

using testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

HostTensor Make(DType dtype, std::vector<int64_t> dims, std::vector<double> values) {
  HostTensor tensor(dtype, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) SetElement(dtype, tensor.data(), i, values[i]);
  return tensor;
}
HostTensor F32(std::vector<double> values) {
  return Make(DType::kF32, {static_cast<int64_t>(values.size())}, values);
}
Comparison Check(const HostTensor& found, const HostTensor& wanted, double tolerance = 1e-5) {
  return Compare(found.ref(), wanted.ref(), tolerance);
}

TEST(Compare, ToleranceGrowsWithTheLargestWanted) {
  EXPECT_TRUE(Check(F32({1.000009}), F32({1})).ok);
  EXPECT_FALSE(Check(F32({1.00002}), F32({1})).ok);
  EXPECT_TRUE(Check(F32({0.001, 1000}), F32({0, 1000})).ok);
  const Comparison c = Check(F32({0.1, 1000}), F32({0, 1000}));
  EXPECT_FALSE(c.ok);
  EXPECT_NEAR(c.max_abs_diff, 0.1, 1e-6);
  EXPECT_DOUBLE_EQ(c.allowed, 0.01);
  EXPECT_THAT(c.problem, HasSubstr("at [0]"));
}

TEST(Compare, NaNAndInfinityMatchThemselvesOnly) {
  EXPECT_TRUE(Check(F32({kNaN, kInf, -kInf}), F32({kNaN, kInf, -kInf})).ok);
  for (const auto& [a, b] :
       {std::pair{kNaN, 1.0}, {1.0, kNaN}, {kInf, -kInf}, {kInf, 1e30}, {1e30, kInf}, {kNaN, kInf}})
    EXPECT_FALSE(Check(F32({a}), F32({b})).ok) << a << " " << b;
  // An infinity among the wanted must not allow everything else.
  EXPECT_FALSE(Check(F32({kInf, 5}), F32({kInf, 4})).ok);
}

TEST(Compare, IntegersAndBoolsExactly) {
  HostTensor a(DType::kI64, {1}), b(DType::kI64, {1});
  const int64_t big = (int64_t{1} << 53) + 1;
  std::memcpy(a.data(), &big, 8);
  EXPECT_TRUE(Check(a, a).ok);
  const int64_t near = big - 1;  // the same double
  std::memcpy(b.data(), &near, 8);
  EXPECT_FALSE(Check(a, b, 1e9).ok);
  EXPECT_FALSE(Check(Make(DType::kBool, {2}, {1, 0}), Make(DType::kBool, {2}, {1, 1})).ok);
}

TEST(Compare, ShapesWhole) {
  const HostTensor x = Make(DType::kF32, {2, 3}, {});
  EXPECT_FALSE(Check(x, Make(DType::kF32, {3, 2}, {})).shape_ok);
  EXPECT_FALSE(Check(x, Make(DType::kF32, {1, 2, 3}, {})).shape_ok);
  EXPECT_THAT(Check(x, Make(DType::kF16, {2, 3}, {})).problem,
              HasSubstr("is f32[2, 3], the golden is f16[2, 3]"));
  EXPECT_TRUE(Check(Make(DType::kF32, {0, 3}, {}), Make(DType::kF32, {0, 3}, {})).ok);
}

TEST(Elements, RoundTrip) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64})
    for (const double value : {0.0, -1.5, 0.375, 96.0, kInf, -kInf}) {
      const HostTensor t = Make(dtype, {1}, {value});
      EXPECT_EQ(ElementAsDouble(dtype, t.ref().data, 0), value) << Name(dtype);
    }
  // 1 + 2^-8 lies between two bf16: to even; a NaN stays one.
  EXPECT_EQ(ElementAsDouble(DType::kBF16, Make(DType::kBF16, {1}, {1.00390625}).ref().data, 0),
            1.0);
  EXPECT_TRUE(
      std::isnan(ElementAsDouble(DType::kBF16, Make(DType::kBF16, {1}, {kNaN}).ref().data, 0)));
}

TEST(Table, AlignsByCodePoints) {
  Table table({"shape", "µs", "x"});
  table.Add({"S=4", "1.0", ""});
  EXPECT_EQ(table.ToString(), "shape   µs  x\nS=4    1.0\n");
}

}  // namespace
}  // namespace liveshape::cli
