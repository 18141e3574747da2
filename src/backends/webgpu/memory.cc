#include "backends/webgpu/memory.h"

#include <algorithm>
#include <cstring>

namespace liveshape::webgpu {
namespace {

constexpr uint64_t kLeastStaging = 64 << 10;           // so that a state comes back in few pieces
constexpr uint64_t kMostElements = uint64_t{1} << 31;  // shaders index with u32

uint64_t WholeWords(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

}  // namespace

Status DeviceMemory::CheckSize(const std::string& what, int64_t bytes) const {
  const uint64_t most = std::min(device_->limits().binding_bytes, device_->limits().buffer_bytes);
  if (bytes < 0 || static_cast<uint64_t>(bytes) > most ||
      static_cast<uint64_t>(bytes) / 4 >= kMostElements)
    return ResourceExhausted(
        "webgpu: {} needs {} bytes at the bound, `{}` binds at most {}; lower the bound "
        "with `compile --bound`",
        what, bytes, device_->adapter().name, most);
  return {};
}

Status DeviceMemory::Create(gpu::Device& device, const ir::Graph& graph, const plan::Plan& plan,
                            Numbers& numbers) {
  device_ = &device;
  plan_ = &plan;
  sym::Table& table = graph.table();
  arena_bytes_ = std::max<uint64_t>(plan.arena_bytes, kSlotAlignment);
  if (arena_bytes_ > device.limits().buffer_bytes)
    return ResourceExhausted(
        "webgpu: the arena needs {} bytes at the bound, a buffer of `{}` has at most {}",
        arena_bytes_, device.adapter().name, device.limits().buffer_bytes);
  arena_ = device.CreateBuffer(arena_bytes_, gpu::BufferUse::kStorage, "arena");
  error_ = device.CreateBuffer(4, gpu::BufferUse::kStorage, "error word");
  // By steps, not by nodes: an input that is an output too is read by a copy of the planner's.
  std::vector<bool> reads(plan.storages.size());
  for (const plan::Step& step : plan.steps)
    for (const plan::Operand& operand : step.inputs)
      if (operand.storage != plan::kNoStorage) reads[operand.storage] = true;

  for (plan::StorageId id = 0; id < plan.storages.size(); ++id) {
    const plan::Storage& s = plan.storages[id];
    gpu::BoundRange range{arena_, s.offset, std::max<uint64_t>(s.capacity, kSlotAlignment)};
    std::string what = "a tensor";
    switch (s.place) {
      case plan::Place::kArena: break;
      case plan::Place::kInput: {
        const ir::Input& input = graph.inputs[s.index];
        what = fmt::format("input {} `{}`", s.index, input.name);
        const Expr bytes = sym::Product(table, graph.type(input.value).dims) *
                           static_cast<int64_t>(SizeOf(s.dtype));
        const int64_t most = table.Bounds(bytes).hi;
        const bool read = reads[id];
        LS_RETURN_IF_ERROR(CheckSize(what, read ? most : 0));
        range = {device.CreateBuffer(read ? static_cast<uint64_t>(most) : 4,
                                     gpu::BufferUse::kStorage, what),
                 0, WholeWords(std::max<uint64_t>(read ? static_cast<uint64_t>(most) : 4, 4))};
        inputs_.push_back({id, read ? numbers.Slot(bytes) : numbers.Slot(table.Int(0))});
        break;
      }
      case plan::Place::kState:
      case plan::Place::kConstant: {
        const bool state = s.place == plan::Place::kState;
        const std::string& name =
            state ? graph.states[s.index].name : graph.constants[s.index].name;
        what = fmt::format("{} `{}`", state ? "state" : "constant", name);
        const uint64_t bytes =
            state ? ir::DenseBytes(s.dtype, graph.states[s.index].dims).value_or(UINT64_MAX)
                  : graph.constants[s.index].data.size();
        LS_RETURN_IF_ERROR(
            CheckSize(what, static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX))));
        range = {device.CreateBuffer(bytes, gpu::BufferUse::kStorage, what), 0,
                 WholeWords(std::max<uint64_t>(bytes, 4))};
        if (state) state_bytes_.push_back(bytes);
        if (!state) device.Write(range.buffer, 0, graph.constants[s.index].data);
        break;
      }
    }
    LS_RETURN_IF_ERROR(CheckSize(what, static_cast<int64_t>(range.bytes)));
    ranges_.push_back(range);
  }

  staging_bytes_ = 8;  // the error word
  const auto returns = [&](plan::StorageId storage, Expr bytes, uint64_t capacity) {
    returns_.push_back({storage, numbers.Slot(bytes)});
    staging_bytes_ += WholeWords(capacity) + 4;
  };
  for (const plan::PlannedOutput& output : plan.outputs)
    if (output.operand.storage != plan::kNoStorage)
      returns(output.operand.storage, plan.storages[output.operand.storage].bytes,
              plan.storages[output.operand.storage].capacity);
  std::vector<uint32_t> counters;
  for (const ir::HostValue& host : graph.host_values)
    if (host.source == ir::Origin::kState &&
        std::find(counters.begin(), counters.end(), host.index) == counters.end())
      counters.push_back(host.index);
  for (uint32_t state : counters)
    returns(plan.state_storage[state], table.Int(static_cast<int64_t>(state_bytes_[state])),
            state_bytes_[state]);
  staging_bytes_ = std::max(staging_bytes_, kLeastStaging);
  staging_ = device.CreateBuffer(staging_bytes_, gpu::BufferUse::kReadback, "staging");
  return device.error();
}

void DeviceMemory::Upload(const Numbers& numbers, std::span<std::byte* const> bases) {
  for (const InputCopy& input : inputs_) {
    const auto bytes = static_cast<size_t>(numbers.at(input.bytes_at));
    if (bytes > 0) device_->Write(ranges_[input.storage].buffer, 0, {bases[input.storage], bytes});
  }
}

void DeviceMemory::AddReadback(const Numbers& numbers, std::vector<gpu::Command>& commands) {
  commands.push_back(gpu::Command::Copy(error_, 0, staging_, 0, 4));
  staged_ = 8;
  for (Return& r : returns_) {
    r.bytes = static_cast<uint64_t>(std::max<int64_t>(0, numbers.at(r.bytes_at)));
    r.staged_at = staged_;
    if (r.bytes == 0) continue;
    const gpu::BoundRange& from = ranges_[r.storage];
    commands.push_back(
        gpu::Command::Copy(from.buffer, from.offset, staging_, staged_, WholeWords(r.bytes)));
    staged_ += (r.bytes + 7) / 8 * 8;
  }
}

Result<uint32_t> DeviceMemory::Readback(std::span<std::byte* const> bases) {
  LS_RETURN_IF_ERROR(device_->Map(staging_, staged_));
  LS_RETURN_IF_ERROR(device_->Poll(/*wait=*/true));
  const std::span<const std::byte> bytes = device_->Mapped(staging_);
  if (bytes.empty()) return Internal("webgpu: the results were not mapped");
  uint32_t error = 0;
  std::memcpy(&error, bytes.data(), 4);
  for (const Return& r : returns_)
    if (r.bytes > 0 && error == 0)
      std::memcpy(bases[r.storage], bytes.data() + r.staged_at, r.bytes);
  device_->Unmap(staging_);
  return error;
}

void DeviceMemory::ClearError() {
  const uint32_t none = 0;
  device_->Write(error_, 0, std::as_bytes(std::span(&none, 1)));
}

Status DeviceMemory::Fetch(size_t state, std::byte* host) {
  const gpu::BufferId from = ranges_[plan_->state_storage[state]].buffer;
  for (uint64_t at = 0; at < state_bytes_[state];) {
    const uint64_t bytes = std::min(staging_bytes_ / 8 * 8, state_bytes_[state] - at);
    const gpu::Command copy = gpu::Command::Copy(from, at, staging_, 0, WholeWords(bytes));
    LS_RETURN_IF_ERROR(device_->Encode({&copy, 1}));
    LS_RETURN_IF_ERROR(device_->Submit());
    LS_RETURN_IF_ERROR(device_->Map(staging_, bytes));
    LS_RETURN_IF_ERROR(device_->Poll(/*wait=*/true));
    std::memcpy(host + at, device_->Mapped(staging_).data(), bytes);
    device_->Unmap(staging_);
    at += bytes;
  }
  return {};
}

Status DeviceMemory::Store(size_t state, const std::byte* host) {
  const gpu::BoundRange& to = ranges_[plan_->state_storage[state]];
  if (host) {
    device_->Write(to.buffer, 0, {host, static_cast<size_t>(state_bytes_[state])});
    return device_->error();
  }
  const gpu::Command clear = gpu::Command::Clear(to.buffer, 0, to.bytes);
  LS_RETURN_IF_ERROR(device_->Encode({&clear, 1}));
  return device_->Submit();
}

Status DeviceMemory::Poison(std::span<const std::byte> arena) {
  device_->Write(arena_, 0, arena.first(std::min<size_t>(arena.size(), arena_bytes_)));
  for (const InputCopy& input : inputs_) {
    const gpu::BoundRange& range = ranges_[input.storage];
    const std::vector<std::byte> ones(range.bytes, std::byte{0xff});  // NaN, -1, true
    device_->Write(range.buffer, 0, ones);
  }
  return device_->error();
}

}  // namespace liveshape::webgpu
