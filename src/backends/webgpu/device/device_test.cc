// The device on whatever adapter this machine has; in CI a software one (scripts/deps.sh test).
#include "backends/webgpu/device/device.h"
#include "backends/webgpu/device/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <numeric>

namespace liveshape::gpu {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Device> Open(const DeviceOptions& options = {}) {
  auto device = OpenDevice(options);
  if (!device.ok()) {
    ADD_FAILURE() << device.status().message();
    std::abort();  // no device: every test here would fail
  }
  return *std::move(device);
}

constexpr const char* kDouble = R"(
struct Params { factor: u32, count: u32 }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < p.count) { x[id.x] = x[id.x] * p.factor; }
})";
constexpr Binding kLayout[] = {Binding::kUniform, Binding::kStorage};

template <typename T>
std::span<const std::byte> Bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// One kernel over `count` words, ready to run.
struct Doubler {
  Doubler(Device& d, uint32_t count) : device(d), count(count) {
    x = d.CreateBuffer(count * 4, BufferUse::kStorage, "x");
    back = d.CreateBuffer(count * 4, BufferUse::kReadback, "back");
    params = d.CreateBuffer(16, BufferUse::kUniform, "params");
    pipeline = d.CreatePipeline(d.CreateShader(kDouble, "double"), kLayout, "double");
    const BoundRange ranges[] = {{params, 0, 16}, {x, 0, count * 4}};
    group = d.CreateGroup(pipeline, ranges, "double");
  }
  std::vector<Command> Commands() const {
    return {Command::Dispatch(pipeline, group, (count + 63) / 64),
            Command::Copy(x, 0, back, 0, count * 4)};
  }
  void Set(uint32_t factor) {
    std::vector<uint32_t> values(count);
    std::iota(values.begin(), values.end(), 0u);
    device.Write(x, 0, Bytes(values));
    device.Write(params, 0, Bytes(std::vector<uint32_t>{factor, count, 0, 0}));
  }
  std::vector<uint32_t> Read() {
    EXPECT_TRUE(device.Map(back, count * 4).ok());
    EXPECT_TRUE(device.Poll(true).ok());
    const auto bytes = device.Mapped(back);
    std::vector<uint32_t> values(bytes.size() / 4);
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    device.Unmap(back);
    return values;
  }

  Device& device;
  uint32_t count;
  BufferId x, back, params;
  PipelineId pipeline;
  GroupId group;
};

TEST(WebGpuDevice, RunsADispatchAgainAndAgainWithoutMakingAnything) {
  auto device = Open();
  Doubler doubler(*device, 1000);
  const Counts before = device->created();
  EXPECT_EQ(before, (Counts{3, 1, 1, 1}));
  for (const uint32_t factor : {2u, 3u}) {
    doubler.Set(factor);
    ASSERT_TRUE(device->Encode(doubler.Commands()).ok());
    ASSERT_TRUE(device->Submit().ok());
    const std::vector<uint32_t> values = doubler.Read();
    ASSERT_EQ(values.size(), 1000u);
    for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(values[i], i * factor);
  }
  EXPECT_EQ(device->created(), before);
}

TEST(WebGpuDevice, AnEncodedRunCanBeDropped) {
  auto device = Open();
  Doubler doubler(*device, 4);
  doubler.Set(2);
  ASSERT_TRUE(device->Encode(doubler.Commands()).ok());
  ASSERT_TRUE(device->Encode(doubler.Commands()).ok());
  ASSERT_TRUE(device->Submit().ok());
  EXPECT_EQ(device->Submit().code(), Code::kFailedPrecondition);
  EXPECT_EQ(doubler.Read(), (std::vector<uint32_t>{0, 2, 4, 6}));
}

TEST(WebGpuDevice, ClearsAndWritesBytesThatAreNoWholeWords) {
  auto device = Open();
  const BufferId x = device->CreateBuffer(8, BufferUse::kStorage, "x");
  const BufferId back = device->CreateBuffer(8, BufferUse::kReadback, "back");
  device->Write(x, 0, Bytes(std::vector<uint8_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  device->Write(x, 4, Bytes(std::vector<uint8_t>{9, 9, 9}));
  const Command list[] = {Command::Clear(x, 0, 4), Command::Copy(x, 0, back, 0, 8)};
  ASSERT_TRUE(device->Encode(list).ok());
  ASSERT_TRUE(device->Submit().ok());
  ASSERT_TRUE(device->Map(back, 8).ok());
  EXPECT_EQ(device->Submit().code(), Code::kFailedPrecondition);
  ASSERT_TRUE(device->Poll(true).ok());
  const auto bytes = device->Mapped(back);
  ASSERT_EQ(bytes.size(), 8u);
  const uint8_t wanted[] = {0, 0, 0, 0, 9, 9, 9, 0};
  EXPECT_EQ(std::memcmp(bytes.data(), wanted, 8), 0);
  device->Unmap(back);
  EXPECT_TRUE(device->Mapped(back).empty());
}

TEST(WebGpuDevice, GrantsWhatTheAdapterHasAndLessWhereAsked) {
  auto whole = Open();
  EXPECT_EQ(whole->limits().buffer_bytes, whole->adapter().limits.buffer_bytes);
  EXPECT_GE(whole->limits().storage_buffers, kSmallestLimits.storage_buffers);
  auto small = Open({.at_most = kSmallestLimits});
  EXPECT_EQ(small->limits().storage_buffers, 8u);
  EXPECT_EQ(small->limits().workgroup_invocations, 128u);
  EXPECT_EQ(small->limits().workgroup_bytes, 16384u);
  EXPECT_EQ(small->limits().offset_alignment, 256u);
  // Held to, not only told: a workgroup that the adapter could run is refused.
  small->CreatePipeline(small->CreateShader("@compute @workgroup_size(129) fn main() {}", "wide"),
                        {}, "wide");
  EXPECT_THAT(small->error().message(), HasSubstr("pipeline `wide`"));
}

TEST(WebGpuDevice, AShaderErrorNamesTheShaderAndTheProcessGoesOn) {
  auto device = Open();
  const ShaderId bad = device->CreateShader("fn main( {", "rms_norm");
  const PipelineId pipeline = device->CreatePipeline(bad, {}, "rms_norm");
  const GroupId group = device->CreateGroup(pipeline, {}, "rms_norm");
  EXPECT_EQ(device->error().code(), Code::kInternal);
  EXPECT_THAT(device->error().message(), HasSubstr("shader `rms_norm`"));
  const Command list[] = {Command::Dispatch(pipeline, group, 1)};
  EXPECT_FALSE(device->Encode(list).ok());
  EXPECT_FALSE(device->Submit().ok());
  EXPECT_FALSE(device->Poll(true).ok());
  auto next = Open();
  Doubler another(*next, 4);
  EXPECT_TRUE(next->error().ok());
}

TEST(WebGpuDevice, AnInvalidCommandIsFoundBeforeItIsSubmitted) {
  auto device = Open();
  Doubler doubler(*device, 16);
  doubler.Set(2);
  const Command beyond[] = {Command::Copy(doubler.x, 0, doubler.back, 0, 4096)};
  EXPECT_FALSE(device->Encode(beyond).ok());
  EXPECT_FALSE(device->Submit().ok());
}

TEST(WebGpuDevice, ABufferBeyondTheLimitIsOutOfMemory) {
  auto device = Open();
  device->CreateBuffer(device->limits().buffer_bytes + 4, BufferUse::kStorage, "arena");
  EXPECT_EQ(device->error().code(), Code::kResourceExhausted);
  EXPECT_THAT(device->error().message(), HasSubstr("buffer `arena`"));
}

TEST(WebGpuDevice, ALostDeviceIsAnErrorAndANewOneCanBeOpened) {
  auto device = Open();
  Doubler doubler(*device, 16);
  doubler.Set(2);
  ASSERT_TRUE(device->Encode(doubler.Commands()).ok());
  device->Lose();
  EXPECT_EQ(device->Submit().code(), Code::kFailedPrecondition);
  EXPECT_THAT(device->error().message(), HasSubstr("lost"));
  EXPECT_FALSE(device->Encode(doubler.Commands()).ok());
  device->Write(doubler.x, 0, Bytes(std::vector<uint32_t>(16)));
  EXPECT_FALSE(device->Map(doubler.back, 64).ok());
  auto next = Open();
  Doubler again(*next, 16);
  EXPECT_TRUE(next->error().ok());
}

TEST(WebGpuDevice, TimesEachDispatch) {
  auto device = Open({.timestamps = true});
  ASSERT_TRUE(device->features().timestamps) << device->adapter().name;
  Doubler doubler(*device, 1 << 16);
  device->CreateTimestamps(2);
  doubler.Set(2);
  const Command dispatch = doubler.Commands()[0];
  const Command list[] = {dispatch, dispatch};
  ASSERT_TRUE(device->Encode(list, /*timed=*/true).ok()) << device->error().message();
  ASSERT_TRUE(device->Submit().ok());
  double us[2] = {-1, -1};
  const Status read = device->ReadTimestamps(us);
  ASSERT_TRUE(read.ok()) << read.message();
  for (double t : us) EXPECT_GE(t, 0);
  const Command three[] = {dispatch, dispatch, dispatch};
  EXPECT_EQ(device->Encode(three, true).code(), Code::kFailedPrecondition);
}

TEST(WebGpuDevice, AnUnknownAdapterIsRefusedWithThoseThatExist) {
  auto device = OpenDevice({.adapter = "no such adapter"});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), Code::kNotFound);
  EXPECT_THAT(device.status().message(), HasSubstr("this machine has: 0 ("));
}

// Software devices have subgroups, of 4 or 8; a device that was asked to do without has none.
TEST(Device, SubgroupsAreProbed) {
  auto device = OpenDevice({});
  ASSERT_TRUE(device.ok()) << device.status().message();
  const uint32_t size = (*device)->features().subgroup_size;
  EXPECT_EQ(size != 0, (*device)->features().subgroups);
  EXPECT_EQ(size & (size - 1), 0u);
  EXPECT_EQ(ProbeSubgroupSize(**device), size);
  auto without = OpenDevice({.subgroups = false});
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_EQ((*without)->features().subgroup_size, 0u);
  EXPECT_EQ(ProbeSubgroupSize(**without), 0u);
}

}  // namespace
}  // namespace liveshape::gpu
