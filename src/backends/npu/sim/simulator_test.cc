#include "backends/npu/sim/simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/npu/sim/testing.h"

namespace liveshape::npu {
// Reaches into a core: records have places in its pool in the order of the trace.
struct CorePeer {
  static void AddWait(Simulator& simulator, uint32_t who, uint32_t for_whom) {
    simulator.cores_[0]->Wait(who, for_whom);
  }
};

namespace {

using testing::AddKernel;
using testing::Emitter;
using testing::GemmKernel;
using testing::HandKernel;
using ::testing::HasSubstr;
using testing::Simulate;
using testing::SmallMachine;

KernelReport Good(const Machine& machine, const HandKernel& kernel) {
  Simulator simulator(machine);
  Result<KernelReport> report = Simulate(simulator, kernel);
  EXPECT_TRUE(report.ok()) << report.status().message();
  return report.ok() ? *std::move(report) : KernelReport{};
}

std::string Refused(const Machine& machine, const HandKernel& kernel) {
  Simulator simulator(machine);
  Result<KernelReport> report = Simulate(simulator, kernel);
  EXPECT_FALSE(report.ok());
  return report.status().message();
}

TEST(Simulator, CountsTilesAndRecordsOfAnAdd) {
  const KernelReport two = Good(SmallMachine(), AddKernel(1024, 512));
  EXPECT_EQ(two.account.tiles, 2);
  EXPECT_EQ(two.account.records, 14);
  EXPECT_EQ(two.account.loaded_bytes, 2 * 4096);
  EXPECT_EQ(two.account.stored_bytes, 4096);
  EXPECT_EQ(two.account.burst_bytes, 3 * 4096);
  EXPECT_EQ(two.samples, 1u);
  const KernelReport tail = Good(SmallMachine(), AddKernel(1000, 512));
  EXPECT_EQ(tail.account.records, 14);
  EXPECT_EQ(tail.account.loaded_bytes, 2 * 4000);
  EXPECT_EQ(tail.samples, 2u);
}

// Added up by hand: nothing overlaps in a single tile.
TEST(Simulator, OneTileTakesTheSumOfItsParts) {
  Machine m = SmallMachine();
  const KernelReport report = Good(m, AddKernel(16, 16));  // one burst a tensor
  const int64_t load = m.noc.latency + m.dram.timing.tRCD + m.dram.timing.tCL + 2 + m.noc.latency;
  const int64_t store = m.noc.latency + m.dram.timing.tRCD + m.dram.timing.tCWL + 2 + m.noc.latency;
  const int64_t compute = 1 + 4;
  const int64_t sum =
      m.kernel_start_cycles + m.dma.setup_cycles + load + compute + m.dma.setup_cycles + store;
  // The second load, the row commands of two banks and the return port add a few.
  EXPECT_GE(report.account.cycles, sum);
  EXPECT_LE(report.account.cycles, sum + 8);
}

TEST(Simulator, LoadsOfTheNextTileOverlapWithCompute) {
  Machine m = SmallMachine();
  const auto gemm = GemmKernel(512, 512, 512, {128, 128, 128});
  const Account account = Good(m, gemm).account;
  m.tiles_in_flight = 1;
  const Account serial = Good(m, gemm).account;
  EXPECT_GT(serial.cycles, account.cycles * 5 / 4);
  EXPECT_EQ(serial.array_busy, account.array_busy);
  EXPECT_GT(account.array_busy, account.cycles * 8 / 10);
}

TEST(Simulator, ABufferWithOneVersionMakesLoadsWait) {
  auto gemm = GemmKernel(256, 512, 256, {128, 128, 128});
  const Account two = Good(SmallMachine(), gemm).account;
  for (ls_trace_buffer& buffer : gemm.buffers) buffer.versions = 1;
  const auto walk = gemm.walk;
  gemm.walk = [walk](const ls_trace_sink& sink) {  // the same walk, all versions 0
    struct Forward { const ls_trace_sink& sink; } forward{sink};
    const ls_trace_sink first = {&forward,
                                 [](void* c, const ls_trace_dispatch* r) {
                                   const ls_trace_sink& s = static_cast<Forward*>(c)->sink;
                                   return s.dispatch(s.context, r);
                                 },
                                 [](void* c, const ls_trace_dma* r) {
                                   const ls_trace_sink& s = static_cast<Forward*>(c)->sink;
                                   ls_trace_dma record = *r;
                                   record.place.version = 0;
                                   return s.dma(s.context, &record);
                                 },
                                 [](void* c, const ls_trace_compute* r) {
                                   const ls_trace_sink& s = static_cast<Forward*>(c)->sink;
                                   ls_trace_compute record = *r;
                                   for (ls_trace_place& place : record.operand) place.version = 0;
                                   return s.compute(s.context, &record);
                                 },
                                 [](void* c, const ls_trace_barrier* r) {
                                   const ls_trace_sink& s = static_cast<Forward*>(c)->sink;
                                   return s.barrier(s.context, r);
                                 }};
    return walk(first);
  };
  const Account one = Good(SmallMachine(), gemm).account;
  EXPECT_GT(one.cycles, two.cycles * 5 / 4);
  EXPECT_GT(one.load_waits, two.load_waits);
}

TEST(Simulator, CoresShareItemsAndTheMemory) {
  Machine m = SmallMachine();
  m.dram.channels = 16;  // four cores need 340 bytes a cycle of 512
  const auto gemm = GemmKernel(512, 256, 512, {64, 64, 64});
  const Account one = Good(m, gemm).account;
  m.cores = 4;
  const Account four = Good(m, gemm).account;
  EXPECT_LT(four.cycles, one.cycles * 2 / 5);
  EXPECT_GE(four.cycles, one.cycles / 4);
  EXPECT_EQ(four.array_busy, one.array_busy);
  EXPECT_EQ(four.burst_bytes, one.burst_bytes);
  // Where memory is the limit, more cores do not help.
  const auto add = AddKernel(1 << 18, 2048);
  EXPECT_GT(Good(m, add).account.cycles,
            static_cast<int64_t>(3 * 4 * (1 << 18) / m.PeakBytesPerCycle()));
}

TEST(Simulator, TheSameRunGivesTheSameCycles) {
  Machine m = SmallMachine();
  m.cores = 3;
  m.frequency_mhz = 733;  // clocks that do not divide each other
  const auto gemm = GemmKernel(200, 300, 130, {64, 64, 64});
  EXPECT_EQ(Good(m, gemm).account.cycles, Good(m, gemm).account.cycles);
}

TEST(Simulator, KernelsFollowEachOther) {
  Simulator simulator(SmallMachine());
  const auto add = AddKernel(4096, 512);
  int64_t sum = 0;
  for (int i = 0; i < 3; ++i) {
    const auto report = Simulate(simulator, add);
    ASSERT_TRUE(report.ok()) << report.status().message();
    sum += report->account.cycles;
    EXPECT_EQ(report->account.records, 7 * 8);
  }
  EXPECT_EQ(simulator.cycles(), sum);
}

TEST(Simulator, TellsWhyUnitsWaited) {
  const Account add = Good(SmallMachine(), AddKernel(1 << 16, 8192)).account;
  EXPECT_EQ(add.vector_idle[static_cast<size_t>(Stall::kLaunch)], 100);
  EXPECT_GT(add.vector_idle[static_cast<size_t>(Stall::kLoad)], add.vector_busy);
  EXPECT_GT(add.backpressure, 0);
  EXPECT_GT(add.turnarounds, 0);
}

TEST(Simulator, TellsTheObserverWhatUnitsDid) {
  Simulator simulator(SmallMachine());
  std::vector<Slice> slices;
  simulator.set_observer([&](const Slice& slice) { slices.push_back(slice); });
  ASSERT_TRUE(Simulate(simulator, AddKernel(1024, 512)).ok());
  ASSERT_EQ(slices.size(), 8u);
  for (const Slice& slice : slices) {
    EXPECT_LT(slice.begin, slice.end);
    EXPECT_LE(slice.end, simulator.cycles());
  }
}

// More of anything never makes a program slower by more than 1 %.
TEST(Simulator, MoreIsNotSlower) {
  const std::vector<HandKernel> kernels = {
      AddKernel(100'000, 2048), GemmKernel(256, 256, 256, {64, 64, 64}),
      GemmKernel(300, 200, 500, {128, 64, 96}), AddKernel(5000, 128)};
  using Change = void (*)(Machine&);
  const std::vector<std::pair<const char*, Change>> changes = {
      {"channels", [](Machine& m) { m.dram.channels *= 2; }},
      {"bus width", [](Machine& m) { m.dram.bus_bytes *= 2; }},
      {"memory clock", [](Machine& m) { m.dram.clock_mhz *= 2; }},
      {"scratchpad", [](Machine& m) { m.scratchpad_bytes *= 2; }},
      {"lanes", [](Machine& m) { m.vector.lanes *= 2; }},
      {"arrays", [](Machine& m) { m.array.count *= 2; }},
      {"tiles in flight", [](Machine& m) { m.tiles_in_flight *= 2; }},
      {"buffers", [](Machine& m) { m.noc.buffer_bursts *= 2; }},
      {"ports", [](Machine& m) { m.noc.port_bytes_per_cycle *= 2; }}};
  for (const HandKernel& kernel : kernels) {
    const int64_t before = Good(SmallMachine(), kernel).account.cycles;
    for (const auto& [what, change] : changes) {
      Machine machine = SmallMachine();
      change(machine);
      EXPECT_LE(Good(machine, kernel).account.cycles, before + before / 100)
          << kernel.name << ", twice the " << what;
    }
  }
}

TEST(Simulator, BuffersBeyondTheScratchpadAreRefusedWithTheirSizes) {
  Machine m = SmallMachine();
  m.scratchpad_bytes = 100'000;
  EXPECT_THAT(Refused(m, GemmKernel(256, 256, 256, {128, 128, 128})),
              HasSubstr("kernel `gemm` needs 393216 bytes of scratchpad (a 2 x 65536, b 2 x 65536, "
                        "c 2 x 65536), machine `small` has 100000"));
}

HandKernel Broken(std::function<void(Emitter&)> body) {
  HandKernel kernel = AddKernel(1024, 512);
  kernel.walk = [body](const ls_trace_sink& sink) {
    Emitter emit(sink);
    body(emit);
    return emit.status();
  };
  return kernel;
}

TEST(Simulator, ReadingBeforeWritingIsRefused) {
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) {
                        emit.Dispatch(0);
                        emit.Move(false, 0, {0, 0, 0}, 0, 0, 8, 1, 1);
                        emit.Compute(0, {8, 1}, {{2, 0, 0}, {0, 0, 0}, {1, 0, 0}});
                      })),
              HasSubstr("add reads version 0 of buffer `buffer`, which item 0 has not written"));
  // Another item's data may lie in another core.
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) {
                        emit.Dispatch(0);
                        emit.Move(false, 0, {0, 0, 0}, 0, 0, 8, 1, 1);
                        emit.Barrier(LS_TRACE_BARRIER_TILE);
                        emit.Dispatch(1);
                        emit.Move(true, 2, {0, 0, 0}, 0, 0, 8, 1, 1);
                      })),
              HasSubstr("item 1 has not written"));
}

TEST(Simulator, ATraceOutOfOrderIsRefused) {
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) {
                        emit.Dispatch(0);
                        emit.Dispatch(0);
                      })),
              HasSubstr("barrier is missing"));
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) { emit.Dispatch(0); })),
              HasSubstr("ended inside tile 0"));
  EXPECT_THAT(
      Refused(SmallMachine(), Broken([](Emitter& emit) { emit.Barrier(LS_TRACE_BARRIER_TILE); })),
      HasSubstr("outside a tile"));
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) {
                        emit.Dispatch(0);
                        emit.Move(false, 0, {0, 7, 0}, 0, 0, 8, 1, 1);
                      })),
              HasSubstr("byte 0 of version 7"));
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) {
                        emit.Dispatch(0);
                        emit.Move(false, 0, {0, 0, 0}, 1020, 0, 8, 1, 1);
                        emit.Barrier(LS_TRACE_BARRIER_TILE);
                      })),
              HasSubstr("reaches bytes [4080, 4112) of 4096"));
  EXPECT_THAT(Refused(SmallMachine(), Broken([](Emitter& emit) {
                        emit.Dispatch(0);
                        emit.Move(false, 0, {0, 0, 4}, 0, 0, 512, 1, 1);
                      })),
              HasSubstr("reaches bytes [4, 2052) of buffer `buffer`, which has 2048"));
}

// No trace can make a record wait for a later one, so the wait is put in by hand: an add of the first tile waits for
// its own store.
TEST(Simulator, WhenNothingMovesTheCycleOfWaitsIsNamed) {
  Simulator simulator(SmallMachine());
  const HandKernel kernel = AddKernel(512, 512);
  const KernelView view = kernel.view();
  ASSERT_TRUE(simulator.BeginKernel(view).ok());
  ASSERT_EQ(kernel.walk(*simulator.sink()), 0);  // one tile, of which nothing has begun yet
  CorePeer::AddWait(simulator, /*who=*/2, /*for_whom=*/3);
  const Result<KernelReport> report = simulator.EndKernel(0);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(report.status().message(),
              HasSubstr("add of tile 0 on core 0 waits for store out of tile 0 on core 0, which "
                        "waits for add of tile 0 on core 0"));
  EXPECT_THAT(report.status().message(), HasSubstr("nothing moves any more at cycle"));
}

}  // namespace
}  // namespace liveshape::npu
