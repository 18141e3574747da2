#include "backends/npu/sim/box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace liveshape::npu {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBurstBits = 6;  // 64 bytes

ls_trace_dma Box(std::vector<int64_t> extents, std::vector<int64_t> strides, int64_t offset = 0) {
  ls_trace_dma record = {};
  record.element_bytes = 4;
  record.rank = static_cast<uint32_t>(extents.size());
  record.offset = offset;
  std::copy(extents.begin(), extents.end(), record.extent);
  std::copy(strides.begin(), strides.end(), record.stride);
  return record;
}

struct Walked {
  std::vector<uint64_t> bursts;
  int64_t asked, useful;
};

Walked Walk(const ls_trace_dma& record, int64_t base = 0, int64_t bytes = 1 << 20) {
  BoxWalker walker;
  const Status status = walker.Start(record, base, bytes, kBurstBits, 0);
  EXPECT_TRUE(status.ok()) << status.message();
  Walked walked;
  for (uint64_t burst; walker.Next(&burst);) walked.bursts.push_back(burst);
  walked.asked = walker.asked_bytes();
  walked.useful = walker.useful_bytes();
  return walked;
}

TEST(Box, ContiguousDimsAreOneRun) {
  const Walked walked = Walk(Box({4, 2, 8}, {64, 32, 4}));
  EXPECT_THAT(walked.bursts, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(walked.useful, 256);
  EXPECT_EQ(walked.asked, 256);
}

TEST(Box, AnUnalignedRunTouchesBothEnds) {
  EXPECT_THAT(Walk(Box({16}, {4}, 60)).bursts, ElementsAre(0, 1));
}

TEST(Box, ATransposedBoxIsWalkedInTheOrderOfMemory) {
  const Walked walked = Walk(Box({16, 3}, {4, 4096}));
  EXPECT_THAT(walked.bursts, ElementsAre(0, 64, 128));
  EXPECT_EQ(walked.useful, walked.asked);
}

TEST(Box, AColumnCostsABurstAnElementUnlessTheyAreNear) {
  EXPECT_THAT(Walk(Box({4}, {256})).bursts, ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(Walk(Box({4}, {32})).bursts, ElementsAre(0, 1));
}

TEST(Box, ABroadcastIsReadOnceAndANegativeStrideFromItsLowEnd) {
  const Walked broadcast = Walk(Box({100, 16}, {0, 4}));
  EXPECT_THAT(broadcast.bursts, ElementsAre(0));
  EXPECT_EQ(broadcast.asked, 64);
  EXPECT_THAT(Walk(Box({32}, {-4}, 124)).bursts, ElementsAre(0, 1));
}

TEST(Box, NothingIsNothing) {
  const Walked walked = Walk(Box({4, 0}, {4, 4}));
  EXPECT_TRUE(walked.bursts.empty());
  EXPECT_EQ(walked.asked, 0);
}

TEST(Box, BeyondItsTensorIsRefused) {
  BoxWalker walker;
  const Status status = walker.Start(Box({16}, {4}, 4), 0, 64, kBurstBits, 0);
  EXPECT_THAT(status.message(), HasSubstr("reaches bytes [4, 68) of 64"));
  EXPECT_FALSE(walker.Start(Box({INT64_MAX}, {INT64_MAX}), 0, 64, kBurstBits, 0).ok());
  EXPECT_FALSE(walker.Start(Box({4}, {-4}), 0, 64, kBurstBits, 0).ok());
}

TEST(Box, GatheredRowsStayInTheTensorSpreadAndRepeat) {
  ls_trace_dma record = Box({64, 16}, {64, 4});
  record.indexed = 1;
  const Walked walked = Walk(record, 0, 64 * 1000);
  const std::set<uint64_t> rows(walked.bursts.begin(), walked.bursts.end());
  EXPECT_GT(rows.size(), 50u);
  EXPECT_LT(*rows.rbegin(), 1000u);
  EXPECT_EQ(walked.useful, 64 * 64);
  EXPECT_EQ(Walk(record, 0, 64 * 1000).bursts, walked.bursts);
}

}  // namespace
}  // namespace liveshape::npu
