#include "backends/npu/values/executor.h"

#include <algorithm>
#include <cstring>

#include "base/observe.h"

namespace liveshape::npu {
namespace {

constexpr int kFailed = 1;
constexpr size_t kMaxPending = 256;  // loads of one tile between barriers
constexpr size_t kMaxBuffers = 32, kMaxVersions = 8;
constexpr int kPoison = 0xFF;  // NaN in every float, -1 in integers
constexpr int64_t kAlignment = 64;

template <typename T>
void MoveRun(const std::byte* from, int64_t from_stride, std::byte* to, int64_t to_stride,
             int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * from_stride, sizeof(T));
    std::memcpy(to + i * to_stride, &value, sizeof(T));
  }
}

void MoveRun(int64_t element, const std::byte* from, int64_t from_stride, std::byte* to,
             int64_t to_stride, int64_t n) {
  if (from_stride == element && to_stride == element) {
    std::memcpy(to, from, static_cast<size_t>(n * element));
    return;
  }
  switch (element) {
    case 1: return MoveRun<uint8_t>(from, from_stride, to, to_stride, n);
    case 2: return MoveRun<uint16_t>(from, from_stride, to, to_stride, n);
    case 4: return MoveRun<uint32_t>(from, from_stride, to, to_stride, n);
    default: return MoveRun<uint64_t>(from, from_stride, to, to_stride, n);
  }
}

// Dims [d, rank) of a box.
void MoveBox(const ls_trace_dma& dma, uint32_t d, const std::byte* from, std::byte* to,
             const int64_t* from_stride, const int64_t* to_stride, const std::byte* index) {
  if (dma.rank == 0) return MoveRun(dma.element_bytes, from, 0, to, 0, 1);
  const bool gathered = d == 0 && index != nullptr;
  if (d + 1 == dma.rank && !gathered)
    return MoveRun(dma.element_bytes, from, from_stride[d], to, to_stride[d], dma.extent[d]);
  for (int64_t i = 0; i < dma.extent[d]; ++i) {
    int64_t at = i;
    if (gathered) std::memcpy(&at, index + 8 * i, sizeof(at));
    const int64_t from_at = gathered && !dma.store ? at : i, to_at = gathered && dma.store ? at : i;
    const std::byte* source = from + from_at * from_stride[d];
    std::byte* target = to + to_at * to_stride[d];
    if (d + 1 == dma.rank)
      MoveRun(dma.element_bytes, source, 0, target, 0, 1);
    else
      MoveBox(dma, d + 1, source, target, from_stride, to_stride, nullptr);
  }
}

bool Scatters(const Block& block) {
  return std::any_of(block.statements.begin(), block.statements.end(),
                     [](const Statement& statement) {
                       return (statement.kind == Statement::Kind::kDma && statement.dma.store &&
                               statement.dma.index) ||
                              Scatters(statement.body);
                     });
}

}  // namespace

bool Scatters(const Kernel& kernel) { return Scatters(kernel.program->body); }

Executor::Executor(int64_t scratchpad_bytes)
    : scratchpad_(static_cast<size_t>(scratchpad_bytes + kAlignment * kMaxBuffers * kMaxVersions)),
      pending_(kMaxPending),
      used_(kMaxBuffers, std::vector<int64_t>(kMaxVersions)),
      first_byte_(kMaxBuffers) {}

Status Executor::Run(const Kernel& kernel, Walker& walker, std::span<const int64_t> shape_args,
                     std::span<const std::span<std::byte>> tensors,
                     std::span<const std::span<const int64_t>> params) {
  const ls_trace_sink sink = Begin(kernel, tensors, params);
  return End(walker.Walk(shape_args, sink));
}

Status Executor::Rehearse(const Kernel& kernel, Walker& walker, std::span<const int64_t> shape_args,
                          std::span<const std::span<std::byte>> tensors,
                          std::span<const std::span<const int64_t>> params) {
  stores_ = false;
  Status status = Run(kernel, walker, shape_args, tensors, params);
  stores_ = true;
  return status;
}

ls_trace_sink Executor::Begin(const Kernel& kernel, std::span<const std::span<std::byte>> tensors,
                              std::span<const std::span<const int64_t>> params) {
  LS_CHECK(kernel.buffers.size() <= kMaxBuffers);
  kernel_ = &kernel;
  tensors_ = tensors;
  params_ = params;
  pending_count_ = 0;
  tile_ = item_ = -1;
  status_ = {};
  for (auto& versions : used_) versions.assign(kMaxVersions, -1);
  return {.context = this,
          .dispatch =
              [](void* self, const ls_trace_dispatch* r) {
                return static_cast<Executor*>(self)->OnDispatch(*r);
              },
          .dma = [](void* self,
                    const ls_trace_dma* r) { return static_cast<Executor*>(self)->OnDma(*r); },
          .compute =
              [](void* self, const ls_trace_compute* r) {
                return static_cast<Executor*>(self)->OnCompute(*r);
              },
          .barrier =
              [](void* self, const ls_trace_barrier* r) {
                return static_cast<Executor*>(self)->OnBarrier(*r);
              }};
}

Status Executor::End(int walked) {
  if (walked == 0) return {};
  AllocationPause pause;
  if (walked != kFailed) return Internal("the walk of `{}` ended with {}", kernel_->name, walked);
  return std::move(status_);
}

int Executor::Fail(Status status) {
  status_ = std::move(status);
  return kFailed;
}

int Executor::OnDispatch(const ls_trace_dispatch& record) {
  if (tile_ < 0) {
    variant_ = record.variant;
    int64_t at = 0;
    for (size_t b = 0; b < kernel_->buffers.size(); ++b) {
      const Buffer& buffer = kernel_->buffers[b];
      LS_CHECK(buffer.versions <= kMaxVersions);
      first_byte_[b] = at;
      const int64_t bytes = (buffer.bytes[variant_] + kAlignment - 1) / kAlignment * kAlignment;
      at += bytes * buffer.versions;
    }
  }
  tile_ = record.tile;
  item_ = record.item;
  return 0;
}

std::byte* Executor::Locate(const ls_trace_place& place) {
  if (place.buffer >= kernel_->buffers.size()) return nullptr;
  const Buffer& buffer = kernel_->buffers[place.buffer];
  const int64_t bytes = buffer.bytes[variant_];
  if (place.version >= buffer.versions || place.offset < 0 ||
      place.offset >= std::max<int64_t>(bytes, 1))
    return nullptr;
  const int64_t aligned = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::byte* const base = scratchpad_.data() + first_byte_[place.buffer] + place.version * aligned;
  const int64_t turn = buffer.turn == Turn::kTile ? tile_ : item_;
  int64_t& used = used_[place.buffer][place.version];
  if (used != turn) {
    used = turn;
    std::memset(base, kPoison, static_cast<size_t>(bytes));
  }
  return base + place.offset;
}

int Executor::OnDma(const ls_trace_dma& record) {
  int64_t last = record.element_bytes, extent = 1;
  for (uint32_t d = 0; d < record.rank; ++d) {
    last += (record.extent[d] - 1) * record.buffer_stride[d];
    extent = std::min(extent, record.extent[d]);
  }
  const Buffer& buffer = kernel_->buffers[record.place.buffer];
  if (extent < 1 || Locate(record.place) == nullptr ||
      record.place.offset + last > buffer.bytes[variant_]) {
    AllocationPause pause;
    return Fail(Internal("tile {} of `{}` moves {} bytes at {} of buffer `{}`, which has {}", tile_,
                         kernel_->name, last, record.place.offset, buffer.name,
                         buffer.bytes[variant_]));
  }
  if (record.store) return Move(record);
  if (pending_count_ == kMaxPending) {
    AllocationPause pause;
    return Fail(Internal("tile {} of `{}` has more than {} loads before a barrier", tile_,
                         kernel_->name, kMaxPending));
  }
  pending_[pending_count_++] = record;
  return 0;
}

int Executor::Move(const ls_trace_dma& record) {
  std::byte* const buffer = Locate(record.place);
  const std::byte* const index = record.indexed ? Locate(record.index) : nullptr;
  // The bytes that the box spans, from the tensor's base.
  int64_t first = record.offset, last = record.offset;
  for (uint32_t d = 0; d < record.rank; ++d) {
    int64_t least = 0, most = record.extent[d] - 1;
    if (d == 0 && index != nullptr) {
      least = INT64_MAX, most = INT64_MIN;
      for (int64_t i = 0; i < record.extent[0]; ++i) {
        int64_t at;
        std::memcpy(&at, index + 8 * i, sizeof(at));
        least = std::min(least, at), most = std::max(most, at);
      }
    }
    const int64_t stride = record.stride[d];
    first += (stride < 0 ? most : least) * stride;
    last += (stride < 0 ? least : most) * stride;
  }
  const std::span<std::byte> tensor = tensors_[record.tensor];
  if (first < 0 || last + record.element_bytes > static_cast<int64_t>(tensor.size())) {
    AllocationPause pause;
    return Fail(OutOfRange("tile {} of `{}` moves bytes {} to {} of `{}`, which has {}", tile_,
                           kernel_->name, first, last + record.element_bytes,
                           kernel_->tensors[record.tensor].name, tensor.size()));
  }
  std::byte* const memory = tensor.data() + record.offset;
  if (record.store && !stores_) return 0;
  if (record.store)
    MoveBox(record, 0, buffer, memory, record.buffer_stride, record.stride, index);
  else
    MoveBox(record, 0, memory, buffer, record.stride, record.buffer_stride, index);
  return 0;
}

int Executor::OnCompute(const ls_trace_compute& record) {
  std::byte* operands[LS_TRACE_MAX_OPERANDS];
  for (uint32_t i = 0; i < record.operands; ++i)
    if ((operands[i] = Locate(record.operand[i])) == nullptr) {
      AllocationPause pause;
      return Fail(Internal("tile {} of `{}`: operand {} of `{}` lies outside its buffer", tile_,
                           kernel_->name, i, kernel_->codes[record.code].name));
    }
  Status status = kernel_->values[record.code]({record, operands, params_[record.code]});
  return status.ok() ? 0 : Fail(std::move(status));
}

int Executor::OnBarrier(const ls_trace_barrier& record) {
  if (record.kind == LS_TRACE_BARRIER_TILE && pending_count_ > 0) {
    AllocationPause pause;
    return Fail(
        Internal("tile {} of `{}` ends with loads that nothing waited for", tile_, kernel_->name));
  }
  for (size_t i = 0; i < pending_count_; ++i)
    if (const int failed = Move(pending_[i])) return failed;
  pending_count_ = 0;
  return 0;
}

}  // namespace liveshape::npu
