#include "backends/npu/cost/cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/npu/sim/testing.h"

namespace liveshape::npu {
namespace {

using ::testing::HasSubstr;

Machine TwoArrays() {
  Machine m = testing::SmallMachine();
  m.array = {.count = 2, .rows = 128, .columns = 128, .drain_cycles = 128};
  return m;
}

TEST(ArrayCost, TwoArraysShareWeightTilesElseRows) {
  const Machine m = TwoArrays();
  // 4 weight tiles, 2 an array: each is loaded (128) and 256 rows stream.
  EXPECT_EQ(ArrayCost(m, 1, 256, 256, 256).occupancy, 2 * (128 + 256));
  // 1 weight tile: both hold it, and see half of the rows.
  EXPECT_EQ(ArrayCost(m, 1, 256, 128, 128).occupancy, 128 + 128);
  EXPECT_EQ(ArrayCost(m, 3, 256, 128, 128).occupancy, std::min(2 * (128 + 256), 3 * (128 + 128)));
  EXPECT_EQ(ArrayCost(m, 1, 256, 256, 256).latency, 128);
  EXPECT_EQ(ArrayCost(m, 1, 256, 256, 256).work, 256 * 256 * 256);
}

TEST(ArrayCost, TailsCostWhatTheyAre) {
  const Machine m = TwoArrays();
  EXPECT_EQ(ArrayCost(m, 1, 10, 128, 256).occupancy, 128 + 10);
  EXPECT_EQ(ArrayCost(m, 1, 10, 5, 256).occupancy, 5 + 10);  // 5 rows of weights are loaded
  EXPECT_EQ(ArrayCost(m, 1, 0, 128, 128).occupancy, 0);
}

TEST(ArrayCost, ASecondWeightBufferHidesLoadsBehindRows) {
  Machine m = TwoArrays();
  m.array.weight_buffers = 2;
  EXPECT_EQ(ArrayCost(m, 1, 256, 512, 256).occupancy, 128 + 4 * 256);
  EXPECT_EQ(ArrayCost(m, 1, 16, 512, 256).occupancy, 128 + 3 * 128 + 16);
  m.array.weight_rows_per_cycle = 8;
  EXPECT_EQ(ArrayCost(m, 1, 256, 512, 256).occupancy, 16 + 4 * 256);
  m.array.cycles_per_row = 2;
  EXPECT_EQ(ArrayCost(m, 1, 256, 512, 256).occupancy, 16 + 4 * 512);
}

TEST(VectorCost, IntervalsAndLatenciesOfClasses) {
  const Machine m =
      testing::SmallMachine();  // 32 lanes; simple 1/4, divide 4/16, transcendental 2/32
  Code code = {.name = "x"};
  code.per_element[VectorClass::kSimple] = 3;
  code.per_element[VectorClass::kTranscendental] = 1;
  const int64_t extents[] = {10, 100};
  const Cost cost = VectorCost(m, code, extents);
  EXPECT_EQ(cost.occupancy, 32 * (3 * 1 + 1 * 2));  // 1000 elements fill 31.25 vectors
  EXPECT_EQ(cost.latency, 3 * 4 + 32);
}

TEST(VectorCost, AReductionCrossesTheLanesOnceARow) {
  const Machine m = testing::SmallMachine();
  Code code = {.name = "sum"};
  code.per_element[VectorClass::kSimple] = 1;
  code.per_row[VectorClass::kDivide] = 1;
  code.lane_reductions = 2;
  const int64_t extents[] = {10, 100};
  const Cost cost = VectorCost(m, code, extents);
  EXPECT_EQ(cost.occupancy, 10 * 4 + 10 * 4 + 10 * 2);  // a row begins a new vector
  EXPECT_EQ(cost.latency, 4 + 16 + 2 * 20);
}

ls_trace_compute Record(std::vector<int64_t> extents, uint32_t code = 0) {
  ls_trace_compute record = {};
  record.code = code;
  record.rank = static_cast<uint32_t>(extents.size());
  std::copy(extents.begin(), extents.end(), record.extent);
  return record;
}

TEST(CostTable, DistinctTilesArePricedOnceAndCounted) {
  const Machine m = TwoArrays();
  const std::vector<Code> codes = {{.name = "matmul", .unit = Unit::kArray}};
  CostTable table(m, codes);
  for (int i = 0; i < 1000; ++i)
    for (const int64_t tail : {128, 37}) {
      const auto cost = table.Of(Record({1, tail, 128, 128}));
      ASSERT_TRUE(cost.ok());
      EXPECT_EQ((*cost)->occupancy, 128 + (tail + 1) / 2);
    }
  EXPECT_EQ(table.samples(), 2u);
  EXPECT_TRUE(table.CheckSamples().ok());
  EXPECT_THAT(table.Explain(), HasSubstr("matmul [1, 37, 128, 128]: 147 cycles + 128 latency"));
}

TEST(CostTable, MoreTilesThanFullAndTailIsABug) {
  const Machine m = TwoArrays();
  const std::vector<Code> codes = {{.name = "add"}};
  CostTable table(m, codes);
  for (const int64_t n : {1, 2}) ASSERT_TRUE(table.Of(Record({n})).ok());
  EXPECT_TRUE(table.CheckSamples().ok());
  ASSERT_TRUE(table.Of(Record({3})).ok());
  EXPECT_THAT(table.CheckSamples().message(), HasSubstr("`add` has 3 distinct extents of rank 1"));
}

TEST(CostTable, RefusesWhatItCannotPrice) {
  const Machine m = TwoArrays();
  const std::vector<Code> codes = {{.name = "matmul", .unit = Unit::kArray}};
  CostTable table(m, codes);
  EXPECT_THAT(table.Of(Record({1}, 1)).status().message(), HasSubstr("code 1"));
  EXPECT_THAT(table.Of(Record({8, 8})).status().message(), HasSubstr("[batch, M, K, N]"));
  EXPECT_THAT(table.Of(Record({1, -1, 8, 8})).status().message(), HasSubstr("0 or more"));
  EXPECT_FALSE(table.Of(Record({1 << 20, 1 << 20, 1 << 20, 1})).ok());
}

}  // namespace
}  // namespace liveshape::npu
