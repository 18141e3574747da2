// Elements by strides and by index, for the ops that move data: index, index_put, view_write, cat,
// embedding. Serial: the caller decides what may run in parallel.
#pragma once

#include <cstdint>
#include <cstring>

#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

// A box of elements on both sides; strides in elements.
struct Box {
  int rank = 0;
  const int64_t* dims = nullptr;
  const int64_t* from = nullptr;
  const int64_t* to = nullptr;
};

namespace elements_internal {

// Calls visit(to, from) for every element, in row-major order.
template <typename T, typename Visit>
void ForEach(const Box& box, int dim, const T* from, T* to, const Visit& visit) {
  if (dim == box.rank) return visit(*to, *from);
  const int64_t count = box.dims[dim], from_step = box.from[dim], to_step = box.to[dim];
  if (dim + 1 == box.rank) {
    for (int64_t i = 0; i < count; ++i) visit(to[i * to_step], from[i * from_step]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    ForEach(box, dim + 1, from + i * from_step, to + i * to_step, visit);
  }
}

// Trailing dims that are dense on both sides are one run: *run elements; returns the rank left.
inline int DenseTail(const Box& box, int64_t* run) {
  int rank = box.rank;
  *run = 1;
  while (rank > 0) {
    const int d = rank - 1;
    if (box.dims[d] != 1 && (box.from[d] != *run || box.to[d] != *run)) break;
    *run *= box.dims[d];
    --rank;
  }
  return rank;
}

inline void CopyRuns(const Box& box, int dim, int rank, int64_t bytes, int64_t size,
                     const std::byte* from, std::byte* to) {
  if (dim == rank) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (int64_t i = 0; i < box.dims[dim]; ++i) {
    CopyRuns(box, dim + 1, rank, bytes, size, from + i * box.from[dim] * size,
             to + i * box.to[dim] * size);
  }
}

}  // namespace elements_internal

// Calls f with an unsigned integer of `size` bytes: moving bits needs no dtype.
template <typename F>
void WithSize(size_t size, F&& f) {
  switch (size) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

inline void CopyBox(const Box& box, size_t size, const std::byte* from, std::byte* to) {
  for (int d = 0; d < box.rank; ++d) {
    if (box.dims[d] == 0) return;
  }
  int64_t run;
  const int rank = elements_internal::DenseTail(box, &run);
  if (run > 1 || rank == 0) {
    return elements_internal::CopyRuns(box, 0, rank, run * static_cast<int64_t>(size),
                                       static_cast<int64_t>(size), from, to);
  }
  WithSize(size, [&](auto type) {
    using T = decltype(type);
    elements_internal::ForEach(box, 0, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to),
                               [](T& out, T in) { out = in; });
  });
}

// Where element `flat` (row-major) of a view lies, in elements.
inline int64_t OffsetOf(const View& view, int64_t flat) {
  int64_t offset = 0;
  for (int i = view.rank - 1; i >= 0; --i) {
    offset += flat % view.dims[i] * view.strides[i];
    flat /= view.dims[i];
  }
  return offset;
}

// Element `flat` of an i64 or i32 view.
inline int64_t IndexAt(const View& view, int64_t flat) {
  const int64_t offset = OffsetOf(view, flat);
  return view.dtype == DType::kI32 ? view.as<const int32_t>()[offset]
                                   : view.as<const int64_t>()[offset];
}

}  // namespace liveshape::cpu
