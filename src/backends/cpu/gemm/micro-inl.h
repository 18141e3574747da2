// The inner kernel of every matmul and of attention: a few rows of A times a few panels of B, sums kept in
// registers. B is read as panels of 16 columns, [k][16]; A as rows, or packed [k][rows].
//
// One order of summation for every route (GEMV, few rows, blocked) and every tile: an output is the sum,
// over blocks of kBlockK in ascending k, of a chain of multiply-adds that starts at 0; bias comes last. So
// results are the same bits for any M, any tiling and any thread count, and the blocks keep the error of a
// long K near that of a pairwise sum.
#if defined(LIVESHAPE_CPU_MICRO_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef LIVESHAPE_CPU_MICRO_INL_H_
#undef LIVESHAPE_CPU_MICRO_INL_H_
#else
#define LIVESHAPE_CPU_MICRO_INL_H_
#endif

#include <array>
#include <cstdint>
#include <utility>

#include "backends/cpu/gemm/element-inl.h"
#include "backends/cpu/gemm/quantised-inl.h"
#include "backends/cpu/gemm/task.h"
#include "backends/cpu/simd/transpose-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// Accumulators: 12 of AVX2's 16 registers (2 hold B, 1-2 broadcasts of A), which also hides the latency of
// 8 multiply-adds in flight; the same count elsewhere.
constexpr int kMaxRows =
    12 / kVectors < 1 ? 1 : 12 / kVectors;  // 6 on AVX2, 12 on AVX-512, 3 on 128 bits

// How many panels go with `rows` rows to fill the accumulators: a power of two.
template <typename TB = float>
constexpr int WidePanels(int rows) {
  constexpr int kSums = kIsBlock<TB> ? 4 : 12;  // words and offsets of blocks want a register each
  int panels = 1;
  while (2 * panels * rows * kVectors <= kSums) panels *= 2;
  return panels;
}
constexpr int kMaxPanels = WidePanels(1);
// Blocks of packed A go over so many panels at once: with one, AVX-512 loads as often as it multiplies, and it has the
// registers for two.
constexpr int kBlockPanels = HWY_TARGET == HWY_AVX3 ? 2 : 1;

struct MicroArgs {
  int64_t k;                 // length of the sum, at most kBlockK for GEMM
  const float* packed;       // A as [k][rows], or
  const float* const* rows;  // A as pointers to `rows` rows, read from column `column`
  int64_t column;
  const void* b;       // first panel: elements of f32, f16 or bf16, or QuantBlocks
  int64_t b_panel;     // elements (or blocks) from one panel to the next
  int64_t b_row;       // elements from one k to the next: 16 unless B is read where it lies
  const float* start;  // [rows][panels * 16], `ldc` apart: what the chains go on from, or null: 0
  float* c;            // [rows][panels * 16]
  int64_t ldc;
  bool accumulate;         // c += sum, else c = sum
  const float* bias;       // [panels * 16] or null: added last
  const void* next;        // what comes next, fetched into L2 a line for each k. Any address
  int64_t next_row = 16;   // elements from one of its lines to the next
  int64_t next_panel = 0;  // and to the other one of each k, where there are two panels
};
using MicroKernel = void (*)(const MicroArgs& args);

template <int kRows, int kPanels, bool kPacked, typename TB, bool kStridedB, bool kFetch>
void Micro(const MicroArgs& args) {
  constexpr int kWide = kPanels * kVectors;
  constexpr bool kFits = kRows * kWide + kWide + 1 <= 16;  // sums, B and one of A
  const PanelTag d;
  using V = hn::Vec<PanelTag>;
  V sum[kRows][kWide];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWide; ++v) sum[r][v] = hn::Zero(d);
  }
  if (args.start != nullptr) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(16)
      for (int v = 0; v < kWide; ++v)
        sum[r][v] = hn::LoadU(d, args.start + r * args.ldc + v * kLanes);
    }
  }

  // C's rows are often a power of two apart and then share a set of L1: ask early.
  if (kPacked) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) __builtin_prefetch(args.c + r * args.ldc, 1, 3);
  }
  const float* a[kRows];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    a[r] = kPacked ? args.packed + r : args.rows[r] + args.column;
  }
  if constexpr (kIsBlock<TB>) {
    SumBlocks<kRows, kPanels>(args.k, static_cast<const TB*>(args.b), args.b_panel, a, sum);
  } else {
    const TB* b = static_cast<const TB*>(args.b);
    const int64_t b_panel = args.b_panel;
    const int64_t b_row = kStridedB ? args.b_row : 16;
    const TB* next = static_cast<const TB*>(args.next);
    const int64_t next_row = args.next_row;
    for (int64_t k = 0; k < args.k; ++k) {
      V vb[kWide];
      HWY_UNROLL(16)
      for (int v = 0; v < kWide; ++v) {
        vb[v] = LoadAsFloat(d, b + v / kVectors * b_panel + v % kVectors * kLanes);
        // 6 loads and 4 cycles for 10 loads and 5 (M = 2).
        if (kRows > 1 && kFits) KeepInRegister(vb[v]);
      }
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) {
        const V va = hn::Set(d, kPacked ? a[0][k * kRows + r] : a[r][k]);
        HWY_UNROLL(16)
        for (int v = 0; v < kWide; ++v) sum[r][v] = hn::MulAdd(va, vb[v], sum[r][v]);
      }
      // One stream or two need help to reach memory's bandwidth, four do not: M = 8 of 8192 x 8192 went
      // from 34 to 20 ms, M = 17 by two panels from 10.4 to 8.0, while M = 1 (4 panels) lost 40 % in L3.
      if (!kStridedB && kFetch) {
        __builtin_prefetch(next, 0, 2);
        if (kPanels == 2) __builtin_prefetch(next + args.next_panel, 0, 2);
        next += next_row;
      }
      b += b_row;
    }
  }

  if (args.accumulate) {
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      HWY_UNROLL(16)
      for (int v = 0; v < kWide; ++v) {
        sum[r][v] = hn::Add(hn::LoadU(d, args.c + r * args.ldc + v * kLanes), sum[r][v]);
      }
    }
  }
  if (args.bias != nullptr) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWide; ++v) {
      const V bias = hn::LoadU(d, args.bias + v * kLanes);
      HWY_UNROLL(16)
      for (int r = 0; r < kRows; ++r) sum[r][v] = hn::Add(sum[r][v], bias);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWide; ++v) hn::StoreU(sum[r][v], d, args.c + r * args.ldc + v * kLanes);
  }
}

// [rows - 1]: the kernel for that many rows on kPanels panels; 0: on WidePanels(rows); -1: on half of those.
template <typename TB, int kPanels>
constexpr int PanelsAtOnce(int rows) {
  return kPanels > 0 ? kPanels : HWY_MAX(1, WidePanels<TB>(rows) / (kPanels == 0 ? 1 : 2));
}
template <bool kPacked, typename TB, bool kStridedB, int kPanels, bool kFetch, int... kIndex>
constexpr std::array<MicroKernel, kMaxRows> MicroTable(std::integer_sequence<int, kIndex...>) {
  return {&Micro < kIndex + 1,
          PanelsAtOnce<TB, kPanels>(kIndex + 1),
          kPacked,
          TB,
          kStridedB,
          kFetch || PanelsAtOnce<TB, kPanels>(kIndex + 1) == 1 > ...};
}
using RowCounts = std::make_integer_sequence<int, kMaxRows>;
// kFetch: the two panels that come next too. What is in L1 already is not asked for again: that takes 4 % of a product.
template <int kPanels, bool kFetch>
constexpr auto kPackedMicro = MicroTable<true, float, false, kPanels, kFetch>(RowCounts());
template <typename TB, bool kStridedB, bool kWide>
constexpr auto kRowsMicro = MicroTable<false, TB, kStridedB, kWide ? 0 : 1, false>(RowCounts());
template <typename TB, bool kStridedB>
constexpr auto kRowsHalfMicro = MicroTable<false, TB, kStridedB, -1, false>(RowCounts());
template <typename TB, bool kStridedB, bool kFetch = false>
constexpr auto kRowsBlockMicro =
    MicroTable<false, TB, kStridedB, kBlockPanels, kFetch>(RowCounts());

// What a product of panels fetches on the way, a line for each k of a panel: `rows` lines that are `row` floats apart,
// then the lines behind those.
struct LinesAhead {
  const float* data;
  int64_t row, rows;
};

// Rows of A times `panels` panels of B, side by side in C: as many at a time as registers allow.
template <typename TB, bool kStridedB>
void RowsTimesPanels(MicroArgs args, int64_t height, int64_t panels, const LinesAhead& ahead) {
  const int64_t at = height - 1, wide = WidePanels<TB>(static_cast<int>(height));
  const int64_t most = wide < kBlockPanels ? kBlockPanels : wide;
  const MicroKernel many = wide < kBlockPanels ? kRowsBlockMicro<TB, kStridedB>[at]
                                               : kRowsMicro<TB, kStridedB, true>[at];
  args.next_row = ahead.row;
  for (int64_t panel = 0; panel < panels;) {
    const int64_t step = panels - panel < most ? 1 : most, line = panel * args.k;
    args.next = ahead.data + line % ahead.rows * ahead.row + line / ahead.rows * 16;
    (step == most ? many : kRowsMicro<TB, kStridedB, false>[at])(args);
    args.b = static_cast<const TB*>(args.b) + step * args.b_panel;
    args.c += step * 16;
    panel += step;
  }
}

// Rows split into tiles as even as can be, so that 7 rows cost 4 + 3 and not 6 + 1.
struct RowTiles {
  int64_t rows;
  int64_t count;
  explicit RowTiles(int64_t rows) : rows(rows), count((rows + kMaxRows - 1) / kMaxRows) {}
  int64_t Begin(int64_t tile) const { return rows * tile / count; }
  int64_t Height(int64_t tile) const { return Begin(tile + 1) - Begin(tile); }
  int64_t MaxHeight() const { return (rows + count - 1) / count; }
};

#if HWY_TARGET != HWY_SCALAR
// A vector of blocks of 4 elements, `step` apart.
template <class D, typename T>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const T* from, int64_t step) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return LoadAsFloat(d, from);
  } else {
    const hn::Half<D> half;
    constexpr int64_t kBlocks = hn::MaxLanes(hn::Half<D>()) / 4;
    return hn::Combine(d, LoadBlocks(half, from + kBlocks * step, step),
                       LoadBlocks(half, from, step));
  }
}
#endif

// One panel of B, [k][16] in f32, columns beyond `columns` zero, from any strides.
template <typename T>
void PackPanel(const T* from, int64_t k_stride, int64_t n_stride, int64_t k, int64_t columns,
               float* to) {
  int64_t done = 0;
  if (columns == 16 && n_stride == 1) {
    const PanelTag d;
    for (; done < k; ++done) {
      const T* row = from + done * k_stride;
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(LoadAsFloat(d, row + v * kLanes), d, to + done * 16 + v * kLanes);
      }
    }
  }
#if HWY_TARGET != HWY_SCALAR
  if (columns == 16 && k_stride == 1) {
    for (; done + 4 <= k; done += 4) {
      const PanelTag d;
      for (int v = 0; v < kVectors; ++v) {
        const T* at = from + v * kLanes * n_stride + done;
        TransposeBlocks(
            d, LoadBlocks(d, at, 4 * n_stride), LoadBlocks(d, at + n_stride, 4 * n_stride),
            LoadBlocks(d, at + 2 * n_stride, 4 * n_stride),
            LoadBlocks(d, at + 3 * n_stride, 4 * n_stride), to + done * 16 + v * kLanes, 16);
      }
    }
  }
#endif
  for (; done < k; ++done) {
    const T* row = from + done * k_stride;
    for (int64_t n = 0; n < columns; ++n) to[done * 16 + n] = ToFloat(row[n * n_stride]);
    for (int64_t n = columns; n < 16; ++n) to[done * 16 + n] = 0.0f;
  }
}

// `height` rows of A as [k][height] in f32. May write 3 floats beyond the end.
template <typename T>
void PackRows(const T* const* rows, int64_t height, int64_t k_stride, int64_t k, float* to) {
  int64_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  if (k_stride == 1) {
    for (; done + 4 <= k; done += 4) {
      // The last group of rows may be short: its spare lanes spill into the next k, written after it.
      const hn::FixedTag<float, 4> d;
      HWY_ALIGN float group[3][16];
      const int64_t groups = (height + 3) / 4;
      for (int64_t g = 0; g < groups; ++g) {
        const T* four[4];
        for (int64_t i = 0; i < 4; ++i) four[i] = rows[g * 4 + i < height ? g * 4 + i : height - 1];
        TransposeBlocks(d, LoadAsFloat(d, four[0] + done), LoadAsFloat(d, four[1] + done),
                        LoadAsFloat(d, four[2] + done), LoadAsFloat(d, four[3] + done), group[g],
                        4);
      }
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t g = 0; g < groups; ++g) {
          hn::StoreU(hn::LoadU(d, group[g] + i * 4), d, to + (done + i) * height + g * 4);
        }
      }
    }
  }
#endif
  for (; done < k; ++done) {
    for (int64_t r = 0; r < height; ++r) to[done * height + r] = ToFloat(rows[r][done * k_stride]);
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
