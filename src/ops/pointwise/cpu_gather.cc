#include "ops/pointwise/cpu_gather.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/transpose.h"

namespace liveshape::cpu::pw {
namespace {

template <typename T>
void CopyRun(const std::byte* from, int64_t stride, std::byte* to, int64_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  if (stride == 1) {
    std::memcpy(y, x, n * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(y, n, *x);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i * stride];
  }
}

void CopyRun(size_t size, const std::byte* from, int64_t stride, std::byte* to, int64_t n) {
  switch (size) {
    case 1: return CopyRun<uint8_t>(from, stride, to, n);
    case 2: return CopyRun<uint16_t>(from, stride, to, n);
    case 4: return CopyRun<uint32_t>(from, stride, to, n);
    default: return CopyRun<uint64_t>(from, stride, to, n);
  }
}

}  // namespace

Space Collapse(const View& out, std::span<const View> inputs, Source* sources) {
  Space space;
  for (size_t s = 0; s < inputs.size(); ++s) {
    sources[s].size = SizeOf(inputs[s].dtype);
    sources[s].data = inputs[s].data;
  }
  for (int d = 0; d < out.rank; ++d) {
    const int64_t extent = out.dims[d];
    space.numel *= extent;
    if (extent == 1) continue;
    bool merge = space.rank > 0;
    for (size_t s = 0; merge && s < inputs.size(); ++s)
      merge = sources[s].strides[space.rank - 1] == inputs[s].strides[d] * extent;
    if (!merge) space.dims[space.rank++] = 1;
    space.dims[space.rank - 1] *= extent;
    for (size_t s = 0; s < inputs.size(); ++s)
      sources[s].strides[space.rank - 1] = inputs[s].strides[d];
  }
  for (size_t s = 0; s < inputs.size(); ++s) {
    Source& source = sources[s];
    int64_t dense = 1;
    source.flat = source.same = true;
    for (int d = space.rank - 1; d >= 0; --d) {
      source.flat &= source.strides[d] == dense;
      source.same &= source.strides[d] == 0;
      dense *= space.dims[d];
    }
  }
  return space;
}

Gathered Gather(const Source& source, const Space& space, const Place& place, int64_t n,
                bool may_splat, std::byte* to) {
  const size_t size = source.size;
  if (source.flat) return {source.data + place.begin * size};
  if (source.same && may_splat) return {source.data, true};
  int64_t offset = 0;
  for (int d = 0; d < space.rank; ++d) offset += place.at[d] * source.strides[d];
  const int last = space.rank - 1;
  const int64_t inner = space.inner(), stride = last < 0 ? 0 : source.strides[last];
  int64_t column = last < 0 ? 0 : place.at[last];
  if (column + n <= inner && (stride == 1 || (stride == 0 && may_splat)))
    return {source.data + offset * size, stride == 0};
  int64_t at[kMaxRank];
  std::copy_n(place.at, space.rank, at);
  const bool transposed = source.transposed(space);
  const TransposeStripFn transpose = transposed ? FindTransposeStrip() : nullptr;
  for (int64_t done = 0;;) {
    const std::byte* const from = source.data + offset * size;
    int64_t rows = 1, run = std::min(n - done, inner - column);
    if (transposed && column == 0 && n - done >= kStrip * inner &&
        space.dims[last - 1] - at[last - 1] >= kStrip) {
      rows = kStrip, run = kStrip * inner;
      transpose(reinterpret_cast<const uint32_t*>(from), stride,
                reinterpret_cast<uint32_t*>(to + done * size), inner, inner);
    } else {
      CopyRun(size, from, stride, to + done * size, run);
    }
    if ((done += run) == n) return {to};
    offset -= column * stride;
    column = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += rows * source.strides[d];
      if ((at[d] += rows) < space.dims[d]) break;
      offset -= at[d] * source.strides[d];
      at[d] = 0;
      rows = 1;
    }
  }
}

}  // namespace liveshape::cpu::pw
