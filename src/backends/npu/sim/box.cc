#include "backends/npu/sim/box.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace liveshape::npu {

int64_t BoxWalker::Row(int64_t i) const {
  if (gather_rows_ <= 0) return 0;
  const uint64_t turn = ((seed_ + static_cast<uint64_t>(i)) * 0x9E3779B97F4A7C15ull) >> 32;
  return static_cast<int64_t>((turn * static_cast<uint64_t>(gather_rows_)) >> 32);
}

Status BoxWalker::Start(const ls_trace_dma& record, int64_t base, int64_t tensor_bytes,
                        int burst_bits, uint64_t seed) {
  *this = {};
  burst_bits_ = burst_bits;
  seed_ = seed;
  if (record.rank > LS_TRACE_MAX_RANK || record.element_bytes == 0 || record.element_bytes > 16)
    return InvalidArgument("a DMA record has rank {} and elements of {} bytes", record.rank,
                           record.element_bytes);
  const int64_t element = record.element_bytes;
  int64_t low = record.offset, high = record.offset;  // of the first bytes of elements
  asked_ = element;
  bool overflow = false;
  for (uint32_t i = 0; i < record.rank; ++i) {
    const int64_t extent = record.extent[i], stride = record.stride[i];
    if (extent < 0) return InvalidArgument("a DMA record has extent {} in dim {}", extent, i);
    if (extent == 0) {
      asked_ = 0;
      return {};
    }
    const bool gather = record.indexed != 0 && i == 0;
    if (stride != 0 || gather) overflow |= __builtin_mul_overflow(asked_, extent, &asked_);
    if (gather) {
      gathered_ = extent;
      gather_stride_ = stride;
      continue;
    }
    if (extent == 1 || stride == 0) continue;
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(extent - 1, stride, &reach);
    overflow |= __builtin_add_overflow(stride < 0 ? low : high, reach, stride < 0 ? &low : &high);
    dims_[static_cast<size_t>(rank_++)] = {extent, std::abs(stride), 0};
  }
  if (overflow || low < 0 || high > tensor_bytes - element)
    return OutOfRange("a DMA of tensor {} reaches bytes [{}, {}) of {}: extents [{}], strides [{}]",
                      record.tensor, low, high + element, tensor_bytes,
                      fmt::join(record.extent, record.extent + record.rank, ", "),
                      fmt::join(record.stride, record.stride + record.rank, ", "));
  if (gathered_ != 0 && gather_stride_ > 0)
    gather_rows_ = std::min((tensor_bytes - element - high) / gather_stride_ + 1, int64_t{1} << 31);
  // By insertion: a handful of dims, once a record, and nothing is allocated.
  for (int i = 1; i < rank_; ++i)
    for (int j = i; j > 0; --j) {
      Dim &outer = dims_[static_cast<size_t>(j - 1)], &inner = dims_[static_cast<size_t>(j)];
      if (outer.stride >= inner.stride) break;
      std::swap(outer, inner);
    }
  run_bytes_ = element;
  while (rank_ > 0 && dims_[static_cast<size_t>(rank_ - 1)].stride == run_bytes_)
    run_bytes_ *= dims_[static_cast<size_t>(--rank_)].extent;
  first_ = base + low;
  address_ = first_ + Row(0) * gather_stride_;
  more_ = true;
  return {};
}

bool BoxWalker::NextRun() {
  if (!more_) return false;
  next_burst_ = static_cast<uint64_t>(address_) >> burst_bits_;
  last_burst_ = static_cast<uint64_t>(address_ + run_bytes_ - 1) >> burst_bits_;
  useful_ += run_bytes_;
  if (next_burst_ == emitted_) ++next_burst_;
  emitted_ = last_burst_;
  for (int d = rank_ - 1; d >= 0; --d) {
    Dim& dim = dims_[static_cast<size_t>(d)];
    address_ += dim.stride;
    if (++dim.index < dim.extent) return true;
    address_ -= dim.extent * dim.stride;
    dim.index = 0;
  }
  more_ = ++gather_index_ < gathered_;
  if (more_) address_ = first_ + Row(gather_index_) * gather_stride_;
  return true;
}

bool BoxWalker::Next(uint64_t* burst) {
  while (next_burst_ > last_burst_)
    if (!NextRun()) return false;
  *burst = next_burst_++;
  return true;
}

}  // namespace liveshape::npu
