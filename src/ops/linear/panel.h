// ConstantLayout::kPanel16, the layout of a weight [rows, cols] that the CPU's matmul streams:
// [ceil(rows/16)][cols][16], zero-padded. One panel row is a cache line of f32, two AVX2 vectors or one of
// AVX-512, so every ISA reads the same bytes and a load is an mmap. Row r is still there, at a stride of
// 16, so a tied embedding reads the same constant. Scalar code: the packer runs at compile or at load.
//
//   std::vector<std::byte> packed(Panel16Bytes(rows, cols, DType::kF32));
//   PackPanel16({.data = w, .rows = rows, .cols = cols, .row_stride = cols, .col_stride = 1}, packed.data());
//   UnpackPanel16Row(packed.data(), DType::kF32, cols, /*row=*/3, out);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ir/dtype.h"

namespace liveshape::ops {

inline constexpr int64_t kPanelRows = 16;

// A weight as it is before packing; strides in elements.
struct PanelSource {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_stride = 0;
  int64_t col_stride = 1;
};

inline int64_t Panel16Bytes(int64_t rows, int64_t cols, DType dtype) {
  const int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  return panels * kPanelRows * cols * static_cast<int64_t>(SizeOf(dtype));
}

namespace panel_internal {

template <typename T>  // an integer of the element's size: packing moves bits
void Pack(const PanelSource& source, T* to) {
  const T* from = reinterpret_cast<const T*>(source.data);
  for (int64_t row = 0; row < source.rows; row += kPanelRows) {
    const int64_t live = std::min(kPanelRows, source.rows - row);
    for (int64_t col = 0; col < source.cols; ++col, to += kPanelRows) {
      const T* column = from + row * source.row_stride + col * source.col_stride;
      for (int64_t r = 0; r < live; ++r) to[r] = column[r * source.row_stride];
      for (int64_t r = live; r < kPanelRows; ++r) to[r] = 0;
    }
  }
}

template <typename T>
void UnpackRow(const T* packed, int64_t cols, int64_t row, T* to) {
  const int64_t first = row / kPanelRows * kPanelRows * cols + row % kPanelRows;
  for (int64_t col = 0; col < cols; ++col) to[col] = packed[first + col * kPanelRows];
}

}  // namespace panel_internal

// dtype must be of 1, 2, 4 or 8 bytes, as all are; `to` holds Panel16Bytes.
inline void PackPanel16(const PanelSource& source, std::byte* to) {
  switch (SizeOf(source.dtype)) {
    case 1: return panel_internal::Pack(source, reinterpret_cast<uint8_t*>(to));
    case 2: return panel_internal::Pack(source, reinterpret_cast<uint16_t*>(to));
    case 4: return panel_internal::Pack(source, reinterpret_cast<uint32_t*>(to));
    default: return panel_internal::Pack(source, reinterpret_cast<uint64_t*>(to));
  }
}

// Row `row` of a packed weight of `cols` columns, dense, to `to`.
inline void UnpackPanel16Row(const std::byte* packed, DType dtype, int64_t cols, int64_t row,
                             std::byte* to) {
  const auto as = [&]<typename T>(T) {
    panel_internal::UnpackRow(reinterpret_cast<const T*>(packed), cols, row,
                              reinterpret_cast<T*>(to));
  };
  switch (SizeOf(dtype)) {
    case 1: return as(uint8_t{});
    case 2: return as(uint16_t{});
    case 4: return as(uint32_t{});
    default: return as(uint64_t{});
  }
}

}  // namespace liveshape::ops
