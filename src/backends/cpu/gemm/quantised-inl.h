// Panels of quantised weights (ops/linear/quantised.h) in the inner kernel: dequantised in registers, exactly,
// so sums have the bits of the same sums over dequantised f32 panels.
//
// A code at bit s of a word becomes a weight in three instructions: masked where it stands it is code * 2^s,
// and fma(code * 2^s, scale * 2^-s, -zero * scale) has an exact product and an exact sum. The highest code is
// shifted down instead, as its bit 31 would be a sign.
#if defined(LIVESHAPE_CPU_QUANTISED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CPU_QUANTISED_INL_H_
#undef LIVESHAPE_CPU_QUANTISED_INL_H_
#else
#define LIVESHAPE_CPU_QUANTISED_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "backends/cpu/simd/half-inl.h"
#include "hwy/highway.h"
#include "ops/linear/quantised.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

using PanelTag = hn::CappedTag<float, 16>;
using PanelVec = hn::Vec<PanelTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(PanelTag()));
constexpr int kVectors = 16 / kLanes;  // a panel row

constexpr int64_t kFetchAhead = 8;  // blocks: the next kBlockK

template <typename T>
constexpr bool kIsBlock = false;
template <int kBits>
constexpr bool kIsBlock<ops::QuantBlock<kBits>> = true;

// The scales of one vector of a block's rows, as its codes need them: constant over 32 columns.
template <typename Block>
struct GroupScales {
  PanelVec
      at[Block::kPerWord];  // times 2^-s for the code at bit s; the highest is shifted: times 1
  PanelVec offset;          // -zero * scale

  HWY_INLINE void Load(const Block& block, int vector) {
    const PanelTag d;
    const PanelVec scale = LoadF32(F16{}, d, block.scales + vector * kLanes);
    offset = hn::Mul(scale, hn::Set(d, static_cast<float>(-Block::kZero)));
    at[0] = at[Block::kPerWord - 1] = scale;
    const PanelVec step = hn::Set(d, 1.0f / (1 << Block::kBits));
    HWY_UNROLL(8)
    for (int i = 1; i + 1 < Block::kPerWord; ++i) at[i] = hn::Mul(at[i - 1], step);
  }
};

template <typename Block>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<PanelTag>> LoadWords(const Block& block, int64_t word,
                                                             int vector) {
  return hn::LoadU(hn::RebindToUnsigned<PanelTag>(), block.words[word] + vector * kLanes);
}

// The weights of column `i` of a word.
template <typename Block, class VU>
HWY_INLINE PanelVec WeightsAt(VU words, int i, const GroupScales<Block>& scales) {
  const PanelTag d;
  const hn::RebindToUnsigned<PanelTag> du;
  const hn::RebindToSigned<PanelTag> di;
  const uint32_t mask = (1u << Block::kBits) - 1;
  const auto codes = i + 1 == Block::kPerWord
                         ? hn::ShiftRight<32 - Block::kBits>(words)
                         : hn::And(words, hn::Set(du, mask << (i * Block::kBits)));
  return hn::MulAdd(hn::ConvertTo(d, hn::BitCast(di, codes)), scales.at[i], scales.offset);
}

// As in Micro, one stream needs help and several do not: of 8192 x 8192 in 8 bits M = 8 went from 27 to 20 ms
// with it, while M = 1 (2 panels) took 5.5 ms with it and takes 4.4 without.
template <typename Block>
HWY_INLINE void FetchBlock(const Block* block) {
  constexpr int kLines = (sizeof(Block) + 63) / 64;
  HWY_UNROLL(9)
  for (int i = 0; i < kLines; ++i) {
    __builtin_prefetch(reinterpret_cast<const char*>(block) + i * 64, 0, 2);
  }
}

// `k` columns of a panel as f32 [k][16].
template <typename Block>
void Dequantise(const Block* blocks, int64_t k, float* to) {
  const PanelTag d;
  for (int64_t k0 = 0; k0 < k; k0 += ops::kQuantGroup, ++blocks) {
    const int64_t columns = std::min(ops::kQuantGroup, k - k0);
    FetchBlock(blocks + kFetchAhead);
    for (int v = 0; v < kVectors; ++v) {
      GroupScales<Block> scales;
      scales.Load(*blocks, v);
      float* column = to + k0 * 16 + v * kLanes;
      int64_t done = 0;
      for (; done + Block::kPerWord <= columns; done += Block::kPerWord) {
        const auto words = LoadWords(*blocks, done / Block::kPerWord, v);
        HWY_UNROLL(8)
        for (int i = 0; i < Block::kPerWord; ++i) {
          hn::StoreU(WeightsAt(words, i, scales), d, column + (done + i) * 16);
        }
      }
      for (int i = 0; done < columns; ++done, ++i) {
        const auto words = LoadWords(*blocks, done / Block::kPerWord, v);
        hn::StoreU(WeightsAt(words, i, scales), d, column + done * 16);
      }
    }
  }
}

// sum[r][v] += a[r][k] * weights of vector v, in ascending k. `kCount`: columns of this word, if known.
template <int kRows, int kPanels, typename Block, int kCount>
HWY_INLINE void SumWord(const Block* block, int64_t b_panel, int64_t word, int count,
                        const float* const* a, int64_t k,
                        const GroupScales<Block> (&scales)[kPanels * kVectors],
                        PanelVec (&sum)[kRows][kPanels * kVectors]) {
  const PanelTag d;
  const int columns = kCount > 0 ? kCount : count;
  hn::Vec<hn::RebindToUnsigned<PanelTag>> words[kPanels * kVectors];
  HWY_UNROLL(16)
  for (int v = 0; v < kPanels * kVectors; ++v) {
    words[v] = LoadWords(block[v / kVectors * b_panel], word, v % kVectors);
  }
  HWY_UNROLL(8)
  for (int i = 0; i < columns; ++i) {
    HWY_UNROLL(16)
    for (int v = 0; v < kPanels * kVectors; ++v) {
      const PanelVec weights = WeightsAt(words[v], i, scales[v]);
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        sum[r][v] = hn::MulAdd(hn::Set(d, a[r][k + i]), weights, sum[r][v]);
      }
    }
  }
}

template <int kRows, int kPanels, typename Block>
HWY_INLINE void SumBlocks(int64_t columns, const Block* block, int64_t b_panel,
                          const float* const* a, PanelVec (&sum)[kRows][kPanels * kVectors]) {
  for (int64_t k = 0; k < columns; ++block) {
    if (kPanels == 1) FetchBlock(block + kFetchAhead);
    GroupScales<Block> scales[kPanels * kVectors];
    HWY_UNROLL(16)
    for (int v = 0; v < kPanels * kVectors; ++v) {
      scales[v].Load(block[v / kVectors * b_panel], v % kVectors);
    }
    int64_t word = 0;
    for (; word < Block::kWords && k + Block::kPerWord <= columns; ++word, k += Block::kPerWord) {
      SumWord<kRows, kPanels, Block, Block::kPerWord>(block, b_panel, word, 0, a, k, scales, sum);
    }
    if (word < Block::kWords && k < columns) {
      SumWord<kRows, kPanels, Block, 0>(block, b_panel, word, static_cast<int>(columns - k), a, k,
                                        scales, sum);
      return;
    }
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
