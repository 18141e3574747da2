#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "backends/npu/report/perfetto.h"
#include "backends/npu/report/roofline.h"
#include "backends/npu/sim/testing.h"

namespace liveshape::npu {
namespace {

using ::testing::HasSubstr;

TEST(Roofline, NamesTheLimit) {
  const Machine m = testing::SmallMachine();  // 1024 multiply-adds, 32 lanes, 128 bytes a cycle
  Account account = {.cycles = 1000, .loaded_bytes = 32000, .stored_bytes = 32000, .macs = 102400};
  Roofline roofline = RooflineOf(m, account);
  EXPECT_EQ(roofline.limit, Limit::kMemory);
  EXPECT_DOUBLE_EQ(roofline.memory_cycles, 500);
  EXPECT_DOUBLE_EQ(roofline.array_cycles, 100);
  EXPECT_DOUBLE_EQ(roofline.Share(account), 0.5);
  EXPECT_DOUBLE_EQ(roofline.intensity, 1.6);
  account.macs *= 6;
  EXPECT_EQ(RooflineOf(m, account).limit, Limit::kArrays);
  account.vector_work = 32 * 700;
  EXPECT_EQ(RooflineOf(m, account).limit, Limit::kLanes);
}

TEST(Perfetto, WritesWhatTheUnitsDidAndNothingUntilItIsClosed) {
  const std::string path = ::testing::TempDir() + "/liveshape_trace.json";
  std::remove(path.c_str());
  const Machine machine = testing::SmallMachine();
  {
    auto abandoned = PerfettoTrace::Create(path, machine);
    ASSERT_TRUE(abandoned.ok());
  }
  EXPECT_FALSE(std::ifstream(path).good());
  auto trace = PerfettoTrace::Create(path, machine);
  ASSERT_TRUE(trace.ok()) << trace.status().message();
  Simulator simulator(machine);
  simulator.set_observer([&](const Slice& slice) { (*trace)->Add(slice); });
  ASSERT_TRUE(Simulate(simulator, testing::AddKernel(1024, 512)).ok());
  (*trace)->AddKernel("add \"1\"", 0, simulator.cycles());
  ASSERT_TRUE((*trace)->Close().ok());
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, HasSubstr(R"("ph":"X","name":"add","pid":0,"tid":1)"));
  EXPECT_THAT(text, HasSubstr(R"("ph":"b","cat":"dma","id":0,"name":"in0")"));
  EXPECT_THAT(text, HasSubstr(R"("name":"add \"1\"","pid":1000000)"));
  EXPECT_EQ(text.back(), '\n');
  std::remove(path.c_str());
  EXPECT_FALSE(PerfettoTrace::Create("/nowhere/x.json", machine).ok());
}

}  // namespace
}  // namespace liveshape::npu
