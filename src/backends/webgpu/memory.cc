#include "backends/webgpu/memory.h"

#include <algorithm>
#include <cstring>

#include "base/observe.h"

namespace liveshape::webgpu {
namespace {

constexpr uint64_t kLeastStaging = 64 << 10;        // so that a state comes back in few pieces
constexpr uint64_t kMostWords = uint64_t{1} << 31;  // shaders index with u32

uint64_t WholeWords(uint64_t bytes) { return (bytes + 3) / 4 * 4; }
uint64_t WholeSlots(uint64_t bytes) { return bytes / kSlotAlignment * kSlotAlignment; }

// By steps, not by nodes: an input that is an output too is read by a copy of the planner's.
std::vector<bool> StoragesRead(const plan::Plan& plan) {
  std::vector<bool> reads(plan.storages.size());
  for (const plan::Step& step : plan.steps)
    for (const plan::Operand& operand : step.inputs)
      if (operand.storage != plan::kNoStorage) reads[operand.storage] = true;
  return reads;
}

}  // namespace

Result<DeviceMemory::Region> DeviceMemory::MakeRegion(const std::string& what, uint64_t bytes) {
  if (bytes / 4 >= kMostWords && what != "arena")
    return ResourceExhausted(
        "webgpu: {} needs {} bytes at the bound, shaders index at most {}; lower the bound with "
        "`compile --bound`",
        what, bytes, kMostWords * 4);
  bytes = WholeWords(std::max<uint64_t>(bytes, 4));
  Region region{{}, std::min(bytes, WholeSlots(device_->limits().buffer_bytes))};
  for (uint64_t at = 0; at < bytes; at += region.piece) {
    region.buffers.push_back(
        device_->CreateBuffer(std::min(region.piece, bytes - at), gpu::BufferUse::kStorage, what));
    LS_RETURN_IF_ERROR(device_->error());
  }
  return region;
}

std::vector<gpu::BoundRange> DeviceMemory::Cut(const Region& region, uint64_t offset,
                                               uint64_t bytes) const {
  const uint64_t most = WholeSlots(device_->limits().binding_bytes);
  std::vector<gpu::BoundRange> parts;
  for (const uint64_t end = offset + bytes; offset < end; offset += parts.back().bytes) {
    const uint64_t inside = offset % region.piece;
    parts.push_back({region.buffers[offset / region.piece], inside,
                     std::min({end - offset, region.piece - inside, most})});
  }
  return parts;
}

Status DeviceMemory::Create(gpu::Device& device, const ir::Graph& graph, const plan::Plan& plan,
                            Numbers& numbers) {
  device_ = &device;
  plan_ = &plan;
  sym::Table& table = graph.table();
  arena_bytes_ = std::max<uint64_t>(plan.arena_bytes, kSlotAlignment);
  LS_ASSIGN_OR_RETURN(arena_, MakeRegion("arena", arena_bytes_));
  error_ = device.CreateBuffer(4, gpu::BufferUse::kStorage, "error word");
  const std::vector<bool> reads = StoragesRead(plan);
  for (plan::StorageId id = 0; id < plan.storages.size(); ++id) {
    const plan::Storage& s = plan.storages[id];
    std::string what;
    uint64_t bytes = 0;
    std::span<const std::byte> initial;
    switch (s.place) {
      case plan::Place::kArena:
        if (s.capacity / 4 >= kMostWords)
          return ResourceExhausted("webgpu: a tensor needs {} bytes at the bound", s.capacity);
        parts_.push_back(Cut(arena_, s.offset, std::max<uint64_t>(s.capacity, kSlotAlignment)));
        continue;
      case plan::Place::kInput: {
        const ir::Input& input = graph.inputs[s.index];
        what = fmt::format("input {} `{}`", s.index, input.name);
        const Expr live = sym::Product(table, graph.type(input.value).dims) *
                          static_cast<int64_t>(SizeOf(s.dtype));
        const int64_t most = table.Bounds(live).hi;
        if (reads[id]) bytes = most < 0 ? UINT64_MAX : static_cast<uint64_t>(most);
        inputs_.push_back({id, numbers.Slot(reads[id] ? live : table.Int(0))});
        break;
      }
      case plan::Place::kState:
        what = fmt::format("state `{}`", graph.states[s.index].name);
        bytes = ir::DenseBytes(s.dtype, graph.states[s.index].dims).value_or(UINT64_MAX);
        state_bytes_.push_back(bytes);
        break;
      case plan::Place::kConstant:
        what = fmt::format("constant `{}`", graph.constants[s.index].name);
        initial = graph.constants[s.index].data;
        bytes = initial.size();
        break;
    }
    LS_ASSIGN_OR_RETURN(const Region region, MakeRegion(what, bytes));
    parts_.push_back(Cut(region, 0, WholeWords(std::max<uint64_t>(bytes, 4))));
    Write(id, initial);
  }
  LS_RETURN_IF_ERROR(CreateOutputs(graph, numbers));
  return device.error();
}

Status DeviceMemory::CreateOutputs(const ir::Graph& graph, Numbers& numbers) {
  staging_bytes_ = 8;  // the error word
  const auto returns = [&](plan::StorageId storage, Expr bytes, uint64_t capacity, size_t output) {
    returns_.push_back({storage, numbers.Slot(bytes), output});
    staging_bytes_ += WholeWords(capacity) + 4;
  };
  for (size_t i = 0; i < plan_->outputs.size(); ++i) {
    const plan::StorageId id = plan_->outputs[i].operand.storage;
    if (id != plan::kNoStorage)
      returns(id, plan_->storages[id].bytes, plan_->storages[id].capacity, i);
  }
  std::vector<uint32_t> counters;
  for (const ir::HostValue& host : graph.host_values)
    if (host.source == ir::Origin::kState &&
        std::find(counters.begin(), counters.end(), host.index) == counters.end())
      counters.push_back(host.index);
  for (uint32_t state : counters)
    returns(plan_->state_storage[state],
            graph.table().Int(static_cast<int64_t>(state_bytes_[state])), state_bytes_[state],
            kNoOutput);
  if (staging_bytes_ > device_->limits().buffer_bytes)
    return ResourceExhausted(
        "webgpu: the outputs need {} bytes at the bound, a buffer of `{}` has at most {}",
        staging_bytes_, device_->adapter().name, device_->limits().buffer_bytes);
  staging_bytes_ =
      std::max(staging_bytes_, std::min(kLeastStaging, device_->limits().buffer_bytes));
  staging_ = device_->CreateBuffer(staging_bytes_, gpu::BufferUse::kReadback, "staging");
  return {};
}

void DeviceMemory::Write(plan::StorageId storage, std::span<const std::byte> bytes) {
  for (const gpu::BoundRange& part : parts_[storage]) {
    if (bytes.empty()) return;
    const size_t count = std::min<size_t>(bytes.size(), part.bytes);
    device_->Write(part.buffer, part.offset, bytes.first(count));
    bytes = bytes.subspan(count);
  }
}

void DeviceMemory::Upload(const Numbers& numbers, std::span<std::byte* const> bases) {
  for (const InputCopy& input : inputs_) {
    if (bases[input.storage] == nullptr) continue;
    if (poisons_inputs_) {
      uint64_t bytes = 0;
      for (const gpu::BoundRange& part : parts_[input.storage]) bytes += part.bytes;
      AllocationPause pause;
      Write(input.storage, std::vector<std::byte>(bytes, std::byte{0xff}));  // NaN, -1, true
    }
    Write(input.storage, {bases[input.storage], static_cast<size_t>(numbers.at(input.bytes_at))});
  }
}

namespace {

// Of `bytes` in a row, which may be in parts on either side.
void AddCopies(std::span<const gpu::BoundRange> from, std::span<const gpu::BoundRange> to,
               uint64_t bytes, std::vector<gpu::Command>& commands) {
  uint64_t from_at = 0, to_at = 0;
  while (bytes > 0) {
    const uint64_t count = std::min({bytes, from[0].bytes - from_at, to[0].bytes - to_at});
    commands.push_back(gpu::Command::Copy(from[0].buffer, from[0].offset + from_at, to[0].buffer,
                                          to[0].offset + to_at, count));
    bytes -= count;
    from_at += count;
    to_at += count;
    if (from_at == from[0].bytes) from = from.subspan(1), from_at = 0;
    if (to_at == to[0].bytes) to = to.subspan(1), to_at = 0;
  }
}

}  // namespace

void DeviceMemory::AddReadback(const Numbers& numbers, std::vector<gpu::Command>& commands) {
  commands.push_back(gpu::Command::Copy(error_, 0, staging_, 0, 4));
  staged_ = 8;
  for (Return& r : returns_) {
    r.bytes = static_cast<uint64_t>(std::max<int64_t>(0, numbers.at(r.bytes_at)));
    if (r.kept) continue;
    r.staged_at = staged_;
    const gpu::BoundRange to{staging_, staged_, staging_bytes_ - staged_};
    AddCopies(parts_[r.storage], {&to, 1}, WholeWords(r.bytes), commands);
    staged_ += (r.bytes + 7) / 8 * 8;
  }
  for (const Feed& feed : feeds_) {
    const Return& r = returns_[feed.from];
    AddCopies(parts_[r.storage], parts_[feed.input], WholeWords(r.bytes), commands);
  }
}

size_t DeviceMemory::most_copies() const {
  size_t copies = 1;
  for (const Return& r : returns_) copies += parts_[r.storage].size();
  for (const Feed& feed : feeds_)
    copies += parts_[feed.input].size() + parts_[returns_[feed.from].storage].size();
  return copies;
}

DeviceMemory::Return* DeviceMemory::FindReturn(size_t output) {
  for (Return& r : returns_)
    if (r.output == output) return &r;
  return nullptr;
}

void DeviceMemory::KeepOutput(size_t output, bool keep) { FindReturn(output)->kept = keep; }

void DeviceMemory::FeedInput(plan::StorageId input, size_t output) {
  feeds_.push_back({input, static_cast<size_t>(FindReturn(output) - returns_.data())});
}

Status DeviceMemory::FetchOutput(size_t output, std::byte* host) {
  const Return& r = *FindReturn(output);
  return FetchBytes(r.storage, r.bytes, host);
}

Result<uint32_t> DeviceMemory::Readback(std::span<std::byte* const> bases) {
  LS_RETURN_IF_ERROR(device_->Map(staging_, staged_));
  LS_RETURN_IF_ERROR(device_->Poll(/*wait=*/true));
  const std::span<const std::byte> bytes = device_->Mapped(staging_);
  if (bytes.empty()) return Internal("webgpu: the results were not mapped");
  uint32_t error = 0;
  std::memcpy(&error, bytes.data(), 4);
  for (const Return& r : returns_)
    if (r.bytes > 0 && error == 0 && !r.kept)
      std::memcpy(bases[r.storage], bytes.data() + r.staged_at, r.bytes);
  device_->Unmap(staging_);
  return error;
}

void DeviceMemory::ClearError() {
  const uint32_t none = 0;
  device_->Write(error_, 0, std::as_bytes(std::span(&none, 1)));
}

Status DeviceMemory::Fetch(size_t state, std::byte* host) {
  return FetchBytes(plan_->state_storage[state], state_bytes_[state], host);
}

Status DeviceMemory::FetchBytes(plan::StorageId storage, uint64_t left, std::byte* host) {
  for (const gpu::BoundRange& part : parts_[storage])
    for (uint64_t at = 0; at < part.bytes && left > 0;) {
      const uint64_t bytes = std::min({staging_bytes_ / 8 * 8, part.bytes - at, left});
      const gpu::Command copy =
          gpu::Command::Copy(part.buffer, part.offset + at, staging_, 0, WholeWords(bytes));
      LS_RETURN_IF_ERROR(device_->Encode({&copy, 1}));
      LS_RETURN_IF_ERROR(device_->Submit());
      LS_RETURN_IF_ERROR(device_->Map(staging_, bytes));
      LS_RETURN_IF_ERROR(device_->Poll(/*wait=*/true));
      std::memcpy(host, device_->Mapped(staging_).data(), bytes);
      device_->Unmap(staging_);
      host += bytes;
      at += bytes;
      left -= bytes;
    }
  return {};
}

Status DeviceMemory::Store(size_t state, const std::byte* host) {
  const plan::StorageId storage = plan_->state_storage[state];
  if (host) {
    Write(storage, {host, static_cast<size_t>(state_bytes_[state])});
    return device_->error();
  }
  for (const gpu::BoundRange& part : parts_[storage]) {
    const gpu::Command clear = gpu::Command::Clear(part.buffer, part.offset, part.bytes);
    LS_RETURN_IF_ERROR(device_->Encode({&clear, 1}));
    LS_RETURN_IF_ERROR(device_->Submit());
  }
  return {};
}

Status DeviceMemory::Poison(std::span<const std::byte> arena) {
  arena = arena.first(std::min<size_t>(arena.size(), arena_bytes_));
  for (size_t k = 0; k * arena_.piece < arena.size(); ++k) {
    const std::span<const std::byte> rest = arena.subspan(k * arena_.piece);
    device_->Write(arena_.buffers[k], 0, rest.first(std::min<size_t>(rest.size(), arena_.piece)));
  }
  poisons_inputs_ = true;
  return device_->error();
}

}  // namespace liveshape::webgpu
