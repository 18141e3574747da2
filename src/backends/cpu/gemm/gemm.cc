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

// One tile of rows on some panels: at once if they are as many as its kernel takes, else one by one.
template <typename TB, bool kStridedB>
HWY_INLINE void RunRows(const MicroArgs& args, int64_t height, int64_t panels) {
  if (panels > 1 && panels == WidePanels<TB>(static_cast<int>(height)))
    return kRowsMicro<TB, kStridedB, true>[height - 1](args);
  // Not through a copy: reading fields together that were just written apart stalls.
  if (panels == 1) return kRowsMicro<TB, kStridedB, false>[height - 1](args);
  for (int64_t p = 0; p < panels; ++p) {
    MicroArgs one = args;
    one.b = static_cast<const TB*>(args.b) + p * args.b_panel;
    one.c += p * 16;
    if (args.start != nullptr) one.start += p * 16;
    if (args.bias != nullptr) one.bias += p * 16;
    kRowsMicro<TB, kStridedB, false>[height - 1](one);
  }
}

// One stream alone does not reach memory's bandwidth, so where the registers do not hold the sums of kStreams
// panels, these take turns of kTurn columns while sums wait in L1. 8192 x 8192 beside other programs, in turns and
// panel by panel: M = 2 10.1 and 12.8 ms, M = 4 11.6 and 14.8, M = 6 17.1 and 17.7. B that caches hold is read
// panel by panel, as turns cost up to 20 % there; so is a quantised B, which is bound by its decoding.
constexpr int64_t kStreams = kMaxPanels < 4 ? 4 : kMaxPanels;
constexpr int64_t kTurn = 32;
constexpr int64_t kCachedBytes = int64_t{8} << 20;
static_assert(kStreams <= kMaxPackedPanels);

// Few rows, read where they lie (f32, k_stride 1): some panels at a time, all of K, so that B streams.
template <typename TB, bool kStridedB>
void FewRowsTyped(const GemmCall& call, const GemmTask& task) {
  const RowTiles tiles(call.m);
  // One tile reads B in its own type or at its own strides; more tiles share a widened, packed block, and so do
  // rows whose sums leave no registers for decoding (M = 6 of 1024 x 1024 in 8 bits: 332 us, packed 222).
  const bool own_type = tiles.count == 1 ? !kIsBlock<TB> || tiles.rows <= kFewQuantised
                                         : call.b.panels && std::is_same_v<TB, float>;
  const int64_t height = tiles.MaxHeight();
  int64_t wide =
      own_type ? WidePanels<TB>(static_cast<int>(height)) : WidePanels(static_cast<int>(height));
  const auto in_place = [&](int64_t panel, int64_t panels) HWY_ATTR {
    return own_type && (call.b.panels || (kStridedB && (panel + panels) * 16 <= call.n));
  };
  const bool in_turns = tiles.count == 1 && wide < kStreams && !kIsBlock<TB> &&
                        call.n * call.k * static_cast<int64_t>(sizeof(TB)) > kCachedBytes;
  // Two panels at once have the lines of neither fetched: M = 4, 5 and 6 took 17 ms where one by one they take 11, 10 and
  // 9.5 (8192 x 8192 on Zen 5, AVX-512).
  if (in_turns && wide == 2 && kVectors == 1) wide = 1;
  const int64_t streams = in_turns ? kStreams : wide, turn = in_turns ? kTurn : kBlockK;
  constexpr int64_t kLd = kStreams * 16;
  const float* rows[kFewRows];
  for (int64_t r = 0; r < call.m; ++r) {
    rows[r] = reinterpret_cast<const float*>(RowAddress(call.a, task.a, r));
  }
  HWY_ALIGN float sums[kFewRows * kLd];    // of the blocks of K that are done
  HWY_ALIGN float chains[kFewRows * kLd];  // of the turns of this block
  HWY_ALIGN float bias[kLd];
  for (int64_t first = task.panel_begin; first < task.panel_end; first += streams) {
    const int64_t last = std::min(first + streams, task.panel_end);
    if (call.bias != nullptr) LoadBias(call, first * 16, (last - first) * 16, bias);
    for (int64_t k0 = 0; k0 == 0 || k0 < call.k; k0 += turn) {
      const int64_t block = k0 / kBlockK * kBlockK;
      MicroArgs args = {};
      args.k = std::min(turn, call.k - k0);
      args.column = k0;
      args.ldc = kLd;
      const bool ends_block = k0 + args.k == std::min(block + kBlockK, call.k);
      args.accumulate = ends_block && block > 0;
      for (int64_t panel = first, panels; panel < last; panel += panels) {
        // The last of stored panels is padded; B as it lies ends with its columns.
        const bool is_wide =
            panel + wide <= last && (call.b.panels || (panel + wide) * 16 <= call.n);
        panels = is_wide ? wide : 1;
        const int64_t column = (panel - first) * 16;
        const bool direct = in_place(panel, panels);
        if (direct) {
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
        if (call.bias != nullptr && k0 + turn >= call.k) args.bias = bias + column;
        // What this panel is read for next but one turn, or next, is fetched by the first tile that reads it.
        args.next = static_cast<const TB*>(args.b) + UnitsOf<TB>(in_turns ? 2 * kTurn : kBlockK);
        for (int64_t t = 0; t < tiles.count; ++t) {
          const int64_t tile = tiles.Begin(t) * kLd + column;
          if (t == 1) args.next = args.b;
          args.rows = rows + tiles.Begin(t);
          args.start = k0 > block ? chains + tile : nullptr;
          args.c = (ends_block ? sums : chains) + tile;
          if (direct)
            RunRows<TB, kStridedB>(args, tiles.Height(t), panels);
          else
            RunRows<float, false>(args, tiles.Height(t), panels);
        }
      }
    }
    const int64_t columns = std::min((last - first) * 16, call.n - first * 16);
    StoreTile(call, task.c, 0, call.m, first * 16, columns, sums, kLd);
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

// By the height of a tile, whose rows are read where they lie or from their packed form.
const std::array<MicroKernel, kMaxRows>& BlockMicro(bool in_place, bool several, bool fetch) {
  if (!several) return in_place ? kRowsMicro<float, false, false> : kPackedMicro<1, true>;
  if (fetch)
    return in_place ? kRowsBlockMicro<float, false, true> : kPackedMicro<kBlockPanels, true>;
  return in_place ? kRowsBlockMicro<float, false> : kPackedMicro<kBlockPanels, false>;
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
  // Rows of A that lie well are read there: 768 x 768 by 128 rows takes 7 % less time.
  const bool in_place = call.a.dtype == DType::kF32 && call.a.k_stride == 1 && !RowsCollide(call.a);
  const float* a[kBlockRows];
  for (int64_t r = 0; r < rows && in_place; ++r)
    a[r] = reinterpret_cast<const float*>(RowAddress(call.a, task.a, task.row_begin + r));
  for (int64_t k0 = 0; k0 == 0 || k0 < call.k; k0 += kBlockK) {
    const int64_t k = std::min(kBlockK, call.k - k0);
    if (!in_place) PackTiles(call, task, tiles, k0, k, packed_a);
    for (int64_t panel = task.panel_begin, panels; panel < task.panel_end; panel += panels) {
      const bool several =
          f32 && panel + kBlockPanels <= task.panel_end && (panel + kBlockPanels) * 16 <= call.n;
      panels = several ? kBlockPanels : 1;
      const bool direct = f32 && (panel + panels) * 16 <= call.n;
      MicroArgs args = {};
      args.k = k;
      args.column = k0;
      args.accumulate = k0 > 0;
      args.ldc = direct ? call.n : 16;
      float* c = direct ? reinterpret_cast<float*>(task.c) + task.row_begin * call.n + panel * 16
                 : f32  ? tile  // only the last panel
                        : tile + (panel - task.panel_begin) * rows * 16;
      if (call.b.f32_panels()) {
        args.b = reinterpret_cast<const float*>(task.b) + (panel * call.k + k0) * 16;
        args.b_panel = call.k * 16;
      } else {
        for (int64_t p = 0; p < panels; ++p)
          PackBlock(call, task.b, panel + p, k0, k, packed_b + p * k * 16);
        args.b = packed_b;
        args.b_panel = k * 16;
      }
      HWY_ALIGN float bias[kBlockPanels * 16];
      if (call.bias != nullptr && k0 + kBlockK >= call.k) {
        LoadBias(call, panel * 16, panels * 16, bias);
        args.bias = bias;
      }
      // While the first tile works, the next panels' block comes.
      const bool streams = args.b != packed_b;
      args.next = static_cast<const float*>(args.b) + (streams ? panels * call.k * 16 : 0);
      args.next_panel = args.b_panel;
      for (int64_t t = 0; t < tiles.count; ++t) {
        if (t == 1) args.next = args.b;
        args.packed = packed_a + tiles.Begin(t) * k;
        args.rows = a + tiles.Begin(t);
        args.c = c + tiles.Begin(t) * args.ldc;
        BlockMicro(in_place, several, streams && t == 0)[tiles.Height(t) - 1](args);
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
// An element of B that comes from L3 or beyond takes as long as this many, so fewer rows than that cost the same.
constexpr int64_t kStreamedRows = 8;

// Floats from one copied row of A to the next: an odd number of cache lines.
template <typename Int>
Int RowStep(Int k) {
  return (DivideUp(k, 32) * 2 + 1) * 16;
}

// M = 8 of 1024 x 1024 took 218 us, and takes 212 with rows apart. A few rows have their ways, and few columns do not
// repay the copy.
bool RepaysACopy(const GemmCall& call) {
  return call.m >= 4 && call.n >= 128 && RowsCollide(call.a);
}

}  // namespace

template <typename Int>
Int GemmScratchBytes(const GemmCall& call, Int m, Int n, Int k, int threads) {
  const Int shared = AtMost(m, kFewRows) * RowStep(k);
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
  const int64_t few_strides[1] = {RowStep(call.k)};
  const int64_t few_dims[1] = {call.m};
  bool in_place = call.a.dtype == DType::kF32 && (call.a.k_stride == 1 || call.k <= 1);

  // A is small and shared: widened once, or copied where its rows would share a set of L1.
  if (batch == 1 && call.m <= kFewRows && (!in_place || RepaysACopy(call))) {
    float* const wide = floats + pool.size() * worker_floats;
    const auto widen = LS_SIMD(WidenLeft);
    for (int64_t r = 0; r < call.m; ++r) widen(call, call.a.data, r, wide + r * few_strides[0]);
    live.a = {.data = reinterpret_cast<const std::byte*>(wide),
              .dtype = DType::kF32,
              .rank = 1,
              .dims = few_dims,
              .strides = few_strides,
              .k_stride = 1};
    in_place = true;
  }

  const bool few_rows = in_place && call.m <= kFewRows;
  const int64_t panels = DivideUp(call.n, 16);
  const int64_t row_blocks = few_rows ? 1 : DivideUp(call.m, kBlockRows);
  // Panels in one task: few rows, as many as make a task worth its start; blocked, as many as leave
  // several tasks a thread, since A is packed anew for each.
  const int64_t cost = few_rows ? std::max(call.m, kStreamedRows) : call.m;
  int64_t group = kGroupPanels;
  if (few_rows) {
    group =
        std::clamp<int64_t>(kTaskWork / std::max<int64_t>(1, cost * call.k * 16), 8, panels + 8);
  } else if (call.c_dtype == DType::kF32) {
    const int64_t wanted = DivideUp(4 * pool.size(), batch * row_blocks);
    group = std::max(kGroupPanels, DivideUp(panels, wanted));
  }
  const int64_t groups = DivideUp(panels, group);
  const int64_t tasks = batch * row_blocks * groups;
  const int64_t work =
      std::max<int64_t>(1, cost * call.k * std::min(call.n, group * 16) / row_blocks);
  const auto run = few_rows ? LS_SIMD(FewRows) : LS_SIMD(Block);
  const int64_t element = static_cast<int64_t>(SizeOf(call.c_dtype));
  pool.ParallelFor(tasks, DivideUp(kTaskWork / 4, work),
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
