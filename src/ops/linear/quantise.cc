#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/linear/quantised.h"

namespace liveshape::ops {
namespace {

float ElementAt(const PanelSource& source, int64_t row, int64_t col) {
  const int64_t at = row * source.row_stride + col * source.col_stride;
  if (source.dtype == DType::kF32) {
    float value;
    std::memcpy(&value, source.data + at * 4, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, source.data + at * 2, 2);
  return source.dtype == DType::kF16 ? F32FromF16(bits) : F32FromBF16(bits);
}

// To the nearest integer, ties to even, of |x| < 2^22: the sum has no bits for the fraction.
float RoundHalfEven(float x) {
  constexpr float kMagic = 0x1.8p23f;
  return (x + kMagic) - kMagic;
}

template <int bits>
Status QuantiseGroup(const PanelSource& source, int64_t row, int64_t first, QuantBlock<bits>& to) {
  constexpr int kZero = QuantBlock<bits>::kZero;
  const int64_t count = std::min(kQuantGroup, source.cols - first);
  float values[kQuantGroup];
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    values[i] = ElementAt(source, row, first + i);
    if (!std::isfinite(values[i]))
      return InvalidArgument("element [{}, {}] is {}, which has no {}-bit form", row, first + i,
                             values[i], bits);
    largest = std::max(largest, std::fabs(values[i]));
  }
  const uint16_t scale_bits = F16FromF32(largest / (kZero - 1));
  const float scale = F32FromF16(scale_bits);
  if (std::isinf(scale))
    return InvalidArgument(
        "elements [{}, {}..{}] reach {:g}: their {}-bit scale {:g} is beyond f16's largest, 65504",
        row, first, first + count - 1, largest, bits, largest / (kZero - 1));
  const int64_t r = row % kPanelRows;
  to.scales[r] = scale_bits;
  if (scale == 0) return {};
  for (int64_t i = 0; i < count; ++i) {
    const float limited =
        std::clamp(values[i] / scale, static_cast<float>(-kZero), static_cast<float>(kZero - 1));
    const uint32_t code = static_cast<uint32_t>(static_cast<int>(RoundHalfEven(limited)) + kZero);
    const int64_t shift = i % QuantBlock<bits>::kPerWord * bits;
    uint32_t& word = to.words[i / QuantBlock<bits>::kPerWord][r];
    word = (word & ~(((1u << bits) - 1) << shift)) | code << shift;
  }
  return {};
}

template <int bits>
Status QuantiseAs(const PanelSource& source, QuantBlock<bits>* to) {
  for (int64_t panel = 0; panel < source.rows; panel += kPanelRows) {
    const int64_t end = std::min(panel + kPanelRows, source.rows);
    for (int64_t first = 0; first < source.cols; first += kQuantGroup, ++to) {
      std::memset(to->scales, 0, sizeof(to->scales));
      std::memset(to->words, bits == 8 ? 0x80 : 0x88, sizeof(to->words));  // q = 0 everywhere
      for (int64_t row = panel; row < end; ++row)
        LS_RETURN_IF_ERROR(QuantiseGroup(source, row, first, *to));
    }
  }
  return {};
}

}  // namespace

int64_t QuantisedBytes(ir::Encoding encoding, int64_t rows, int64_t cols) {
  const ir::Constant constant{
      .dims = {rows, cols}, .encoding = encoding, .layout = ir::ConstantLayout::kPanel16};
  return static_cast<int64_t>(*ir::StoredBytes(constant));
}

Status Quantise(ir::Encoding encoding, const PanelSource& source, std::byte* to) {
  return encoding == ir::Encoding::kQ8SymG32
             ? QuantiseAs(source, reinterpret_cast<QuantBlock<8>*>(to))
             : QuantiseAs(source, reinterpret_cast<QuantBlock<4>*>(to));
}

}  // namespace liveshape::ops
