#include "backends/cpu/gemm/gemm.h"

#include <algorithm>

#include "backends/cpu/gemm/task.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/gemm.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backends/cpu/gemm/micro-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

// Calls f with a null pointer of the element type.
template <typename F>
HWY_INLINE void WithType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF16: return f(static_cast<const Half*>(nullptr));
    case DType::kBF16: return f(static_cast<const BFloat*>(nullptr));
    default: return f(static_cast<const float*>(nullptr));
  }
}

// Panel `panel`, k in [k0, k0 + k), as f32 [k][16].
void PackBlock(const GemmCall& call, const std::byte* b, int64_t panel, int64_t k0, int64_t k,
               float* to) {
  if (call.b.quantised()) {
    return ops::WithBlocks(call.b.encoding, b, [&](const auto* blocks) HWY_ATTR {
      Dequantise(blocks + panel * ops::QuantGroups(call.k) + k0 / ops::kQuantGroup, k, to);
    });
  }
  const int64_t columns = std::min<int64_t>(16, call.n - panel * 16);
  WithType(call.b.dtype, [&](auto type) HWY_ATTR {
    const auto* data = reinterpret_cast<decltype(type)>(b);
    if (call.b.panels) {
      WidenRow(data + (panel * call.k + k0) * 16, k * 16, to);
    } else {
      PackPanel(data + k0 * call.b.k_stride + panel * 16 * call.b.n_stride, call.b.k_stride,
                call.b.n_stride, k, columns, to);
    }
  });
}

void LoadBias(const GemmCall& call, int64_t column, int64_t count, float* to) {
  WithType(call.bias_dtype, [&](auto type) HWY_ATTR {
    const auto* bias = reinterpret_cast<decltype(type)>(call.bias);
    for (int64_t i = 0; i < count; ++i) {
      to[i] = column + i < call.n ? ToFloat(bias[(column + i) * call.bias_stride]) : 0.0f;
    }
  });
}

// Finished sums [rows][...] to C's dtype.
void StoreTile(const GemmCall& call, std::byte* c, int64_t row, int64_t rows, int64_t column,
               int64_t columns, const float* tile, int64_t ld) {
  WithType(call.c_dtype, [&](auto type) HWY_ATTR {
    using T = std::remove_const_t<std::remove_pointer_t<decltype(type)>>;
    T* to = reinterpret_cast<T*>(c) + row * call.n + column;
    for (int64_t r = 0; r < rows; ++r) NarrowRow(tile + r * ld, columns, to + r * call.n);
  });
}

// How many TB there are in `k` columns of a panel: 16 elements each, or a block for 32 of them.
template <typename TB>
constexpr int64_t UnitsOf(int64_t k) {
  return kIsBlock<TB> ? ops::QuantGroups(k) : k * 16;
}

// Few rows, read where they lie (f32, k_stride 1): panel after panel, all of K, so that B streams.
template <typename TB, bool kStridedB>
void FewRowsTyped(const GemmCall& call, const GemmTask& task) {
  const RowTiles tiles(call.m);
  // One tile reads B in its own type or at its own strides; more tiles share a widened, packed block.
  const auto wide_of = [&](int64_t height) HWY_ATTR -> int64_t {
    return tiles.count == 1 ? WidePanels<TB>(static_cast<int>(height))
                            : WidePanels(static_cast<int>(height));
  };
  const int64_t wide = wide_of(tiles.MaxHeight());
  constexpr bool kPlain = std::is_same_v<TB, float> && !kStridedB;
  const float* rows[kFewRows];
  for (int64_t r = 0; r < call.m; ++r) {
    rows[r] = reinterpret_cast<const float*>(RowAddress(call.a, task.a, r));
  }
  for (int64_t panel = task.panel_begin; panel < task.panel_end;) {
    const bool whole = panel * 16 + wide * 16 <= call.n;
    const int64_t panels = panel + wide <= task.panel_end && whole ? wide : 1;
    const bool is_wide = panels > 1;
    const bool in_place = call.b.panels
                              ? kPlain || tiles.count == 1
                              : kStridedB && tiles.count == 1 && panel * 16 + panels * 16 <= call.n;
    HWY_ALIGN float tile[kFewRows * 16 * kMaxPanels];
    HWY_ALIGN float bias[16 * kMaxPanels];
    for (int64_t k0 = 0; k0 == 0 || k0 < call.k; k0 += kBlockK) {
      MicroArgs args = {};
      args.k = std::min(kBlockK, call.k - k0);
      args.column = k0;
      args.ldc = panels * 16;
      args.accumulate = k0 > 0;
      if (in_place) {
        const TB* b = reinterpret_cast<const TB*>(task.b);
        args.b = kStridedB ? b + k0 * call.b.k_stride + panel * 16
                           : b + panel * UnitsOf<TB>(call.k) + UnitsOf<TB>(k0);
        args.b_panel = kStridedB ? 16 : UnitsOf<TB>(call.k);
        args.b_row = call.b.k_stride;
      } else {
        for (int64_t p = 0; p < panels; ++p) {
          PackBlock(call, task.b, panel + p, k0, args.k, task.scratch + p * args.k * 16);
        }
        args.b = task.scratch;
        args.b_panel = args.k * 16;
      }
      if (call.bias != nullptr && k0 + kBlockK >= call.k) {
        LoadBias(call, panel * 16, panels * 16, bias);
        args.bias = bias;
      }
      // Panels are contiguous in k: while the first tile reads a block, the next one is fetched.
      args.next = static_cast<const TB*>(args.b) + UnitsOf<TB>(kBlockK);
      for (int64_t t = 0; t < tiles.count; ++t) {
        if (t == 1) args.next = args.b;
        args.rows = rows + tiles.Begin(t);
        args.c = tile + tiles.Begin(t) * args.ldc;
        const int64_t height = tiles.Height(t);
        // A shorter tile goes on fewer panels than WidePanels(height) would allow: the widest common.
        if (is_wide && wide_of(height) == panels) {
          (in_place ? kRowsMicro<TB, kStridedB, true>
                    : kRowsMicro<float, false, true>)[height - 1](args);
          continue;
        }
        for (int64_t p = 0; p < panels; ++p) {
          MicroArgs one = args;
          one.c = args.c + p * 16;
          if (args.bias != nullptr) one.bias = bias + p * 16;
          one.b = in_place
                      ? static_cast<const void*>(static_cast<const TB*>(args.b) + p * args.b_panel)
                      : static_cast<const float*>(args.b) + p * args.b_panel;
          (in_place ? kRowsMicro<TB, kStridedB, false>
                    : kRowsMicro<float, false, false>)[height - 1](one);
        }
      }
    }
    StoreTile(call, task.c, 0, call.m, panel * 16, std::min(panels * 16, call.n - panel * 16), tile,
              panels * 16);
    panel += panels;
  }
}

void FewRows(const GemmCall& call, const GemmTask& task) {
  if (!call.b.panels && call.b.dtype == DType::kF32 && call.b.n_stride == 1) {
    return FewRowsTyped<float, true>(call, task);
  }
  if (call.b.encoding == ir::Encoding::kQ8SymG32)
    return FewRowsTyped<ops::QuantBlock<8>, false>(call, task);
  if (call.b.encoding == ir::Encoding::kQ4SymG32)
    return FewRowsTyped<ops::QuantBlock<4>, false>(call, task);
  WithType(call.b.dtype, [&](auto type) HWY_ATTR {
    FewRowsTyped<std::remove_const_t<std::remove_pointer_t<decltype(type)>>, false>(call, task);
  });
}

void PackTiles(const GemmCall& call, const GemmTask& task, const RowTiles& tiles, int64_t k0,
               int64_t k, float* to) {
  WithType(call.a.dtype, [&](auto type) HWY_ATTR {
    for (int64_t t = 0; t < tiles.count; ++t) {
      decltype(type) rows[kMaxRows];
      const int64_t begin = tiles.Begin(t), height = tiles.Height(t);
      for (int64_t r = 0; r < height; ++r) {
        rows[r] = reinterpret_cast<decltype(type)>(
                      RowAddress(call.a, task.a, task.row_begin + begin + r)) +
                  k0 * call.a.k_stride;
      }
      PackRows(rows, height, call.a.k_stride, k, to + begin * k);
    }
  });
}

// A block of rows times a range of panels. Full f32 panels are summed in C itself, others in a tile.
void Block(const GemmCall& call, const GemmTask& task) {
  const int64_t rows = task.row_end - task.row_begin;
  const RowTiles tiles(rows);
  const auto layout = LiveScratch(call);
  float* const packed_a = task.scratch;
  float* const packed_b = packed_a + layout.a;
  float* const tile = packed_b + layout.b;
  const bool f32 = call.c_dtype == DType::kF32;
  for (int64_t k0 = 0; k0 == 0 || k0 < call.k; k0 += kBlockK) {
    const int64_t k = std::min(kBlockK, call.k - k0);
    PackTiles(call, task, tiles, k0, k, packed_a);
    for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
      const bool direct = f32 && panel * 16 + 16 <= call.n;
      MicroArgs args = {};
      args.k = k;
      args.accumulate = k0 > 0;
      args.ldc = direct ? call.n : 16;
      float* c = direct ? reinterpret_cast<float*>(task.c) + task.row_begin * call.n + panel * 16
                 : f32  ? tile  // only the last panel
                        : tile + (panel - task.panel_begin) * rows * 16;
      if (call.b.f32_panels()) {
        args.b = reinterpret_cast<const float*>(task.b) + (panel * call.k + k0) * 16;
      } else {
        PackBlock(call, task.b, panel, k0, k, packed_b);
        args.b = packed_b;
      }
      HWY_ALIGN float bias[16];
      if (call.bias != nullptr && k0 + kBlockK >= call.k) {
        LoadBias(call, panel * 16, 16, bias);
        args.bias = bias;
      }
      // While the first tile works, the next panel's block comes.
      args.next = args.b == packed_b ? args.b : static_cast<const float*>(args.b) + call.k * 16;
      for (int64_t t = 0; t < tiles.count; ++t) {
        if (t == 1) args.next = args.b;
        args.packed = packed_a + tiles.Begin(t) * k;
        args.c = c + tiles.Begin(t) * args.ldc;
        kPackedMicro[tiles.Height(t) - 1](args);
      }
      if (!direct && k0 + kBlockK >= call.k) {
        StoreTile(call, task.c, task.row_begin, rows, panel * 16,
                  std::min<int64_t>(16, call.n - panel * 16), c, 16);
      }
    }
  }
}

void WidenLeft(const GemmCall& call, const std::byte* a, int64_t row, float* to) {
  WithType(call.a.dtype, [&](auto type) HWY_ATTR {
    const auto* from = reinterpret_cast<decltype(type)>(RowAddress(call.a, a, row));
    if (call.a.k_stride == 1) return WidenRow(from, call.k, to);
    for (int64_t k = 0; k < call.k; ++k) to[k] = ToFloat(from[k * call.a.k_stride]);
  });
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {

LS_SIMD_TABLE(FewRows);
LS_SIMD_TABLE(Block);
LS_SIMD_TABLE(WidenLeft);

// A task of about this many multiply-adds is worth waking a thread for: some 20 us on one core.
constexpr int64_t kTaskWork = 1 << 20;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

template <typename Int>
Int GemmScratchBytes(const GemmCall& call, Int m, Int n, Int k, int threads) {
  const bool a_in_place = call.a.dtype == DType::kF32 && call.a.k_stride == 1;
  const Int shared = AtMost(m, kFewRows) * k * (a_in_place ? 0 : 1);
  return (GemmScratch(call, m, n, k).total() * threads + shared) *
         static_cast<int64_t>(sizeof(float));
}
template int64_t GemmScratchBytes(const GemmCall&, int64_t, int64_t, int64_t, int);
template sym::Expr GemmScratchBytes(const GemmCall&, sym::Expr, sym::Expr, sym::Expr, int);

void Gemm(const GemmCall& call, ThreadPool& pool, std::byte* scratch) {
  int64_t batch = 1;
  for (int i = 0; i < call.batch_rank; ++i) batch *= call.batch_dims[i];
  if (batch == 0 || call.m == 0 || call.n == 0) return;
  float* const floats = reinterpret_cast<float*>(scratch);
  const int64_t worker_floats = LiveScratch(call).total();
  GemmCall live = call;
  const int64_t few_strides[1] = {call.k};
  const int64_t few_dims[1] = {call.m};
  bool in_place = call.a.dtype == DType::kF32 && (call.a.k_stride == 1 || call.k <= 1);

  if (!in_place && batch == 1 && call.m <= kFewRows) {  // A is small and shared: widen it once
    float* const wide = floats + pool.size() * worker_floats;
    const auto widen = LS_SIMD(WidenLeft);
    for (int64_t r = 0; r < call.m; ++r) widen(call, call.a.data, r, wide + r * call.k);
    live.a = {.data = reinterpret_cast<const std::byte*>(wide),
              .dtype = DType::kF32,
              .rank = 1,
              .dims = few_dims,
              .strides = few_strides,
              .k_stride = 1};
    in_place = true;
  }

  const bool few_rows = in_place && call.m <= kFewRows;
  const int64_t panels = CeilDiv(call.n, 16);
  const int64_t row_blocks = few_rows ? 1 : CeilDiv(call.m, kBlockRows);
  // Panels in one task: few rows, as many as make a task worth its start; blocked, as many as leave
  // several tasks a thread, since A is packed anew for each.
  int64_t group = kGroupPanels;
  if (few_rows) {
    group =
        std::clamp<int64_t>(kTaskWork / std::max<int64_t>(1, call.m * call.k * 16), 8, panels + 8);
  } else if (call.c_dtype == DType::kF32) {
    const int64_t wanted = CeilDiv(4 * pool.size(), batch * row_blocks);
    group = std::max(kGroupPanels, CeilDiv(panels, wanted));
  }
  const int64_t groups = CeilDiv(panels, group);
  const int64_t tasks = batch * row_blocks * groups;
  const int64_t work =
      std::max<int64_t>(1, call.m * call.k * std::min(call.n, group * 16) / row_blocks);
  const auto run = few_rows ? LS_SIMD(FewRows) : LS_SIMD(Block);
  const int64_t element = static_cast<int64_t>(SizeOf(call.c_dtype));
  pool.ParallelFor(tasks, CeilDiv(kTaskWork / 4, work),
                   [&](int64_t begin, int64_t end, int worker) {
                     for (int64_t i = begin; i < end; ++i) {
                       const int64_t b = i / (row_blocks * groups);
                       const int64_t row_block = i / groups % row_blocks;
                       GemmTask task;
                       task.a = live.a.data + BatchOffset(call, call.a_batch_strides, b) *
                                                  static_cast<int64_t>(SizeOf(live.a.dtype));
                       task.b = call.b.data + BatchOffset(call, call.b_batch_strides, b) *
                                                  static_cast<int64_t>(SizeOf(call.b.dtype));
                       task.c = call.c + b * call.m * call.n * element;
                       task.row_begin = call.m * row_block / row_blocks;
                       task.row_end = call.m * (row_block + 1) / row_blocks;
                       task.panel_begin = i % groups * group;
                       task.panel_end = std::min(panels, task.panel_begin + group);
                       task.scratch = floats + worker * worker_floats;
                       run(live, task);
                     }
                   });
}

}  // namespace liveshape::cpu
#endif
