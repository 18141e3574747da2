#include "backends/webgpu/device/probe.h"

#include <bit>
#include <cstring>

namespace liveshape::gpu {
namespace {

constexpr uint32_t kLanes = 128, kWords = 2 * kLanes + 1;

// By lane: how often it occurred, and the sum of the squares of the lanes whose number differs in bits 2 and up of those
// in a subgroup. The last word is the size.
constexpr char kProbe[] = R"(
@group(0) @binding(0) var<storage, read_write> found: array<atomic<u32>>;
@compute @workgroup_size(128) fn main(@builtin(subgroup_id) subgroup: u32,
    @builtin(subgroup_invocation_id) place: u32, @builtin(subgroup_size) size: u32) {
  let lane = subgroup * size + place;
  var sum = lane * lane;
  for (var d = 4u; d < min(size, 128u); d *= 2u) { sum += subgroupShuffleXor(sum, d); }
  atomicAdd(&found[min(lane, 127u)], 1u);
  atomicStore(&found[128u + min(lane, 127u)], sum);
  atomicStore(&found[256], size);
}
)";

}  // namespace

uint32_t ProbeSubgroupSize(Device& device) {
  if (!device.features().subgroups || device.limits().workgroup_invocations < kLanes) return 0;
  const BufferId found = device.CreateBuffer(4 * kWords, BufferUse::kStorage, "subgroups"),
                 back = device.CreateBuffer(4 * kWords, BufferUse::kReadback, "subgroups");
  const Binding binding = Binding::kStorage;
  const PipelineId pipeline =
      device.CreatePipeline(device.CreateShader(kProbe, "subgroups"), {&binding, 1}, "subgroups");
  const BoundRange range{found, 0, 4 * kWords};
  const GroupId group = device.CreateGroup(pipeline, {&range, 1}, "subgroups");
  const Command list[] = {Command::Clear(found, 0, 4 * kWords),
                          Command::Dispatch(pipeline, group, 1),
                          Command::Copy(found, 0, back, 0, 4 * kWords)};
  if (!device.error().ok() || !device.Encode(list).ok() || !device.Submit().ok() ||
      !device.Map(back, 4 * kWords).ok() || !device.Poll(/*wait=*/true).ok())
    return 0;
  uint32_t words[kWords];
  std::memcpy(words, device.Mapped(back).data(), sizeof words);
  device.Unmap(back);
  const uint32_t size = words[2 * kLanes];
  if (!std::has_single_bit(size) || size < 4 || size > kLanes) return 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    uint32_t sum = 0;
    for (uint32_t other = lane / size * size; other < lane / size * size + size; ++other)
      if (other % 4 == lane % 4) sum += other * other;
    if (words[lane] != 1 || words[kLanes + lane] != sum) return 0;
  }
  return size;
}

}  // namespace liveshape::gpu
