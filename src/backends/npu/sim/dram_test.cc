#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "backends/npu/sim/address_map.h"
#include "backends/npu/sim/dram_channel.h"
#include "backends/npu/sim/testing.h"

namespace liveshape::npu {
namespace {

constexpr auto kAct = Command::kActivate;
constexpr auto kPre = Command::kPrecharge;
constexpr auto kRd = Command::kRead;
constexpr auto kWr = Command::kWrite;

struct Step {
  Command command;
  int64_t bank;
  int64_t clock;
};

// After `steps`, `next` is refused at n - 1 clocks after the last of them and taken at n. Every other rule is made
// short, so that only the one under test decides.
struct TimingCase {
  const char* name;
  int64_t DramTiming::* parameter;
  int64_t data_clocks;  // that the rule counts on top: CWL + burst
  std::vector<Step> steps;
  Command next;
  int64_t bank;
};

void PrintTo(const TimingCase& c, std::ostream* out) { *out << c.name; }

class Timing : public ::testing::TestWithParam<TimingCase> {};

TEST_P(Timing, RefusedAtNMinusOneTakenAtN) {
  const TimingCase& c = GetParam();
  constexpr int64_t n = 50;
  DramConfig config = testing::SmallMachine().dram;
  config.timing = {};
  config.timing.*c.parameter = n;
  DramState state(config);
  for (const Step& step : c.steps) {
    EXPECT_LE(state.Earliest(step.command, step.bank), step.clock);
    state.Issue(step.command, step.bank, step.clock);
  }
  const int64_t at = c.steps.back().clock + n + c.data_clocks;
  const auto allowed = [&](int64_t clock) { return state.Earliest(c.next, c.bank) <= clock; };
  EXPECT_FALSE(allowed(at - 1));
  EXPECT_TRUE(allowed(at));
}

// Banks 0 and 4 are of group 0, bank 1 is of group 1. CWL is 1, a burst 2 clocks.
INSTANTIATE_TEST_SUITE_P(
    EveryParameter, Timing,
    ::testing::Values(TimingCase{"tRCD_read", &DramTiming::tRCD, 0, {{kAct, 0, 100}}, kRd, 0},
                      TimingCase{"tRCD_write", &DramTiming::tRCD, 0, {{kAct, 0, 100}}, kWr, 0},
                      TimingCase{
                          "tRP", &DramTiming::tRP, 0, {{kAct, 0, 0}, {kPre, 0, 100}}, kAct, 0},
                      TimingCase{"tRAS", &DramTiming::tRAS, 0, {{kAct, 0, 100}}, kPre, 0},
                      TimingCase{"tRC", &DramTiming::tRC, 0, {{kAct, 0, 100}}, kAct, 0},
                      TimingCase{"tCCD_S_read", &DramTiming::tCCD_S, 0, {{kRd, 0, 100}}, kRd, 1},
                      TimingCase{"tCCD_S_write", &DramTiming::tCCD_S, 0, {{kWr, 0, 100}}, kWr, 1},
                      TimingCase{"tCCD_L_read", &DramTiming::tCCD_L, 0, {{kRd, 0, 100}}, kRd, 4},
                      TimingCase{"tCCD_L_write", &DramTiming::tCCD_L, 0, {{kWr, 0, 100}}, kWr, 4},
                      TimingCase{"tRRD_S", &DramTiming::tRRD_S, 0, {{kAct, 0, 100}}, kAct, 1},
                      TimingCase{"tRRD_L", &DramTiming::tRRD_L, 0, {{kAct, 0, 100}}, kAct, 4},
                      TimingCase{"tRTP", &DramTiming::tRTP, 0, {{kRd, 0, 100}}, kPre, 0},
                      TimingCase{"tRTW", &DramTiming::tRTW, 0, {{kRd, 0, 100}}, kWr, 1},
                      TimingCase{"tWR", &DramTiming::tWR, 3, {{kWr, 0, 100}}, kPre, 0},
                      TimingCase{"tWTR_S", &DramTiming::tWTR_S, 3, {{kWr, 0, 100}}, kRd, 1},
                      TimingCase{"tWTR_L", &DramTiming::tWTR_L, 3, {{kWr, 0, 100}}, kRd, 4}),
    [](const auto& info) { return info.param.name; });

TEST(Timing, FourActivatesInAWindow) {
  DramConfig config = testing::SmallMachine().dram;
  config.timing = {};
  config.timing.tFAW = 50;
  DramState state(config);
  for (int64_t bank = 0; bank < 4; ++bank) state.Issue(kAct, bank, 100 + bank);
  EXPECT_EQ(state.Earliest(kAct, 5), 150);
  state.Issue(kAct, 5, 150);
  EXPECT_EQ(state.Earliest(kAct, 6), 151);  // the window of the second
}

TEST(Timing, RefreshTakesTRfcAfterAllBanksAreClosed) {
  DramConfig config = testing::SmallMachine().dram;
  config.timing = {};
  config.timing.tRFC = 50;
  config.timing.tRP = 7;
  DramState state(config);
  state.Issue(kAct, 3, 90);
  state.Issue(kPre, 3, 100);
  EXPECT_EQ(state.EarliestRefresh(), 107);
  state.Refresh(107);
  EXPECT_EQ(state.Earliest(kAct, 0), 157);
}

TEST(Timing, LatencyIsClOrCwlAndTheBurst) {
  DramConfig config = testing::SmallMachine().dram;
  EXPECT_EQ(DramState(config).DataEnd(kRd, 100), 100 + 14 + 2);
  EXPECT_EQ(DramState(config).DataEnd(kWr, 100), 100 + 4 + 2);
  config.timing.tCL = 15;
  config.timing.tCWL = 5;
  EXPECT_EQ(DramState(config).DataEnd(kRd, 100), 100 + 15 + 2);
  EXPECT_EQ(DramState(config).DataEnd(kWr, 100), 100 + 5 + 2);
}

// A channel by itself.
struct Served {
  std::vector<Burst> bursts;
  std::vector<int64_t> clocks;
  int64_t end() const { return *std::max_element(clocks.begin(), clocks.end()); }
};

Served Serve(DramChannel& channel, const std::vector<Burst>& bursts) {
  for (const Burst& burst : bursts) channel.Push(0, burst);
  Served served;
  channel.Run(
      1'000'000'000,
      [&](const Burst& burst, int64_t clock) {
        served.bursts.push_back(burst);
        served.clocks.push_back(clock);
      },
      [](uint32_t, int64_t) {});
  EXPECT_TRUE(channel.idle());
  EXPECT_EQ(served.bursts.size(), bursts.size());
  return served;
}

// Consecutive bursts of one channel, as the address map lays them.
std::vector<Burst> Stream(const DramConfig& config, int64_t n, bool write) {
  DramConfig one = config;
  one.channels = 1;
  const AddressMap map(one);
  std::vector<Burst> bursts;
  for (int64_t i = 0; i < n; ++i) {
    const DramPlace place = map.Of(static_cast<uint64_t>(i));
    bursts.push_back({.row = place.row, .bank = place.bank, .write = write});
  }
  return bursts;
}

TEST(DramChannel, StreamingReachesNinetyPercentOfPeak) {
  for (const bool shared_bus : {false, true})
    for (const bool write : {false, true}) {
      DramConfig config = testing::SmallMachine().dram;
      config.shared_command_bus = shared_bus;
      DramChannel channel(config, 1);
      const int64_t n = 100'000;
      const int64_t clocks = Serve(channel, Stream(config, n, write)).end();
      EXPECT_GT(static_cast<double>(n * config.BurstClocks()), 0.90 * static_cast<double>(clocks));
      EXPECT_LT(n * config.BurstClocks(), clocks);
      EXPECT_EQ(channel.counters().refreshes, clocks / config.timing.tREFI);
    }
}

TEST(DramChannel, RowMissesOfOneBankCostTRc) {
  const DramConfig config = testing::SmallMachine().dram;
  std::vector<Burst> bursts;
  for (int64_t i = 0; i < 50; ++i) bursts.push_back({.row = i, .bank = 3});
  DramChannel channel(config, 1);
  const Served served = Serve(channel, bursts);
  EXPECT_EQ(served.clocks[49] - served.clocks[0], 49 * config.timing.tRC);
  EXPECT_EQ(channel.counters().activates, 50);
}

TEST(DramChannel, AnOpenRowGoesFirstThenTheOldest) {
  const DramConfig config = testing::SmallMachine().dram;
  DramChannel channel(config, 1);
  const Served served =
      Serve(channel, {{.row = 1, .bank = 0}, {.row = 2, .bank = 0}, {.row = 1, .bank = 0}});
  EXPECT_EQ(served.bursts[1].row, 1);
  EXPECT_EQ(served.bursts[2].row, 2);
  EXPECT_EQ(channel.counters().activates, 2);
}

TEST(DramChannel, AMissIsNotPassedOverForEver) {
  const DramConfig config = testing::SmallMachine().dram;
  std::vector<Burst> bursts = {{.row = 1, .bank = 0}, {.row = 2, .bank = 0, .tag = 7}};
  for (int64_t i = 0; i < 10'000; ++i) bursts.push_back({.row = 1, .bank = 0, .arrival = i});
  DramChannel channel(config, 1);
  const Served served = Serve(channel, bursts);
  const auto miss = std::find_if(served.bursts.begin(), served.bursts.end(),
                                 [](const Burst& burst) { return burst.tag == 7; });
  EXPECT_LT(served.clocks[static_cast<size_t>(miss - served.bursts.begin())],
            DramChannel::kPatience + 200);
}

TEST(DramChannel, WritesAreGatheredToTurnTheBusSeldom) {
  const DramConfig config = testing::SmallMachine().dram;
  std::vector<Burst> reads = Stream(config, 4000, false), writes = Stream(config, 4000, true),
                     mixed;
  for (size_t i = 0; i < reads.size(); ++i) {
    writes[i].row += 1000;
    mixed.push_back(reads[i]);
    mixed.push_back(writes[i]);
  }
  DramChannel channel(config, 1);
  const int64_t clocks = Serve(channel, mixed).end();
  EXPECT_LT(channel.counters().turnarounds, 8000 / 8);
  EXPECT_GT(8000.0 * 2 / static_cast<double>(clocks), 0.6);
}

// A pitch of a power of two meets all channels only with the hash.
TEST(AddressMap, AHashSpreadsColumnsOverChannels) {
  DramConfig config = testing::SmallMachine().dram;
  config.channels = 16;
  for (const bool hash : {true, false}) {
    config.hash = hash;
    const AddressMap map(config);
    std::vector<int64_t> bursts(16);
    for (uint64_t row = 0; row < 1024; ++row)
      for (uint64_t b = 0; b < 8; ++b) ++bursts[map.Of(row * 8192 / 64 + b).channel];
    const int64_t most = *std::max_element(bursts.begin(), bursts.end());
    if (hash)
      EXPECT_EQ(most, 1024 * 8 / 16);
    else
      EXPECT_EQ(most, 1024 * 8 / 2);
  }
}

TEST(AddressMap, NoTwoBurstsShareAPlace) {
  DramConfig config = testing::SmallMachine().dram;
  const AddressMap map(config);
  std::map<std::tuple<uint32_t, uint32_t, int64_t>, int64_t> bursts;  // of a row
  constexpr int64_t n = 1 << 18;
  for (uint64_t i = 0; i < n; ++i) {
    const DramPlace place = map.Of(i);
    ++bursts[{place.channel, place.bank, place.row}];
  }
  for (const auto& [place, count] : bursts)
    EXPECT_EQ(count, config.row_bytes / config.BurstBytes());
}

}  // namespace
}  // namespace liveshape::npu
