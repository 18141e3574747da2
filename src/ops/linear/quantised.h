// Encoding::kQ8SymG32 and kQ4SymG32 of a weight [rows, cols]: groups of 32 along a row share a scale, and an
// element is q * scale. The one packed form, ConstantLayout::kPanel16 of these encodings, is
// [ceil(rows/16)][ceil(cols/32)] blocks, one after the other as the matmul streams them:
//
//   QuantBlock<8>, 544 bytes        QuantBlock<4>, 288 bytes
//     f16 scales[16]                  f16 scales[16]       of the panel's 16 rows
//     u32 words[8][16]                u32 words[4][16]     a word: 4 or 8 consecutive columns of one row
//
// A column's code is q + 128 (or q + 8), the first column's in the word's lowest bits. So a vector of words is
// 8 or 16 rows on any ISA, a byte of a word is what VNNI's u8 x s8 dot takes, and a shader reads u32. Columns
// beyond the last have q = 0; rows beyond the last have scale 0 too.
//
// q * scale has at most 8 + 11 bits: exact in f32. A product with these weights is therefore, to the bit, the
// product with the dequantised f32 weights, however it is computed.
//
//   std::vector<std::byte> packed(QuantisedBytes(encoding, rows, cols));
//   LS_RETURN_IF_ERROR(Quantise(encoding, {.data = w, .rows = rows, .cols = cols, ...}, packed.data()));
//   float w35 = QuantisedAt(reinterpret_cast<const QuantBlock<8>*>(packed.data()), cols, 3, 5);
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"
#include "base/status.h"
#include "ir/graph.h"
#include "ops/linear/panel.h"

namespace liveshape::ops {

inline constexpr int64_t kQuantGroup = 32;

template <int bits>
struct QuantBlock {
  static constexpr int kBits = bits;
  static constexpr int kPerWord = 32 / kBits;
  static constexpr int kWords = kQuantGroup / kPerWord;  // of a row
  static constexpr int kZero = 1 << (kBits - 1);         // the code of q = 0

  uint16_t scales[kPanelRows];
  uint32_t words[kWords][kPanelRows];
};
static_assert(sizeof(QuantBlock<8>) == 544 && sizeof(QuantBlock<4>) == 288);

constexpr int64_t QuantGroups(int64_t cols) { return (cols + kQuantGroup - 1) / kQuantGroup; }

// Of a matrix that fits into memory.
int64_t QuantisedBytes(ir::Encoding encoding, int64_t rows, int64_t cols);

// Encodes a weight of f32, f16 or bf16 into `to`, QuantisedBytes long:
//   scale = f16(max|w| / 7), q = clamp(round_half_even(w / scale), -8, 7), 0 where scale is 0
// in f32, with the rounded scale; 127 and -128 for 8 bits. An element that is not finite, or too large for
// an f16 scale, is an error that names its place.
Status Quantise(ir::Encoding encoding, const PanelSource& source, std::byte* to);

template <int bits>
float QuantisedAt(const QuantBlock<bits>* blocks, int64_t cols, int64_t row, int64_t col) {
  using Block = QuantBlock<bits>;
  const Block& block = blocks[row / kPanelRows * QuantGroups(cols) + col / kQuantGroup];
  const int64_t k = col % kQuantGroup, r = row % kPanelRows;
  const uint32_t code = block.words[k / Block::kPerWord][r] >> (k % Block::kPerWord * bits);
  const int q = static_cast<int>(code & ((1u << bits) - 1)) - Block::kZero;
  return static_cast<float>(q) * F32FromF16(block.scales[r]);
}

// Calls f with the blocks of a quantised constant, as their type.
template <typename F>
void WithBlocks(ir::Encoding encoding, const std::byte* packed, F&& f) {
  if (encoding == ir::Encoding::kQ8SymG32)
    f(reinterpret_cast<const QuantBlock<8>*>(packed));
  else
    f(reinterpret_cast<const QuantBlock<4>*>(packed));
}

}  // namespace liveshape::ops
