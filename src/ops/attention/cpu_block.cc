// Prefill: a block of rows against the keys they see, block after block of keys, with the micro kernels of
// the GEMM for both products and an online softmax between them.
#include "ops/attention/cpu_block.h"

#include "ops/attention/cpu_call.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/cpu_block.cc"
// clang-format off: in this order
#include "backends/cpu/simd/dispatch.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "backends/cpu/gemm/micro-inl.h"
#include "ops/attention/softmax-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace liveshape::cpu::HWY_NAMESPACE {
namespace {

static_assert(kMaxRows <= kTileRows);

// Up to so many tiles read values where they lie: copying them to panels, 9 % of 16 queries by 512 keys, is paid by
// more. Rows of 4 KB apart share a set of L1: 256 queries that read them in place lose 6 %.
constexpr int64_t kInPlaceTiles = 3;

template <typename T>
class BlockOfRows {
 public:
  BlockOfRows(const AttentionCall& call, int64_t batch, int64_t group, int64_t begin, int64_t end,
              float* scratch)
      : call_(call),
        batch_(batch),
        group_(group),
        begin_(begin),
        rows_(end - begin),
        tiles_(rows_),
        depth_(call.depth()),
        padded_depth_(RoundUp16(depth_)),
        width_(call.width()),
        padded_width_(RoundUp16(width_)) {
    const BlockScratch layout(call.rows(), call.keys(), depth_, width_);
    nothing_ = {scratch, 0, 1};
    queries_ = scratch;
    key_panels_ = queries_ + layout.queries;
    value_panels_ = key_panels_ + layout.key_panels;
    scores_ = value_panels_ + layout.value_panels;
    sums_ = scores_ + layout.scores;
    maximum_ = sums_ + layout.sums;
    total_ = maximum_ + layout.state / 2;
    mean_ = maximum_ + layout.state;
    in_place_ = tiles_.count <= kInPlaceTiles && call.v->strides[3] == 1 && width_ == padded_width_;
    score_stride_ = std::min(RoundUp16(call.keys()), kAttentionKeys);
  }

  void Run() {
    int64_t seen = 0;  // keys that any row sees
    for (int64_t r = 0; r < rows_; ++r) {
      row_[r] = AttentionRow(call_, batch_, group_, begin_ + r);
      visible_[r] = row_[r].Visible(call_);
      seen = std::max(seen, visible_[r]);
      maximum_[r] = kMinusInf;
      total_[r] = 0;
    }
    LoadQueries();
    for (int64_t t = 0; t < tiles_.count; ++t) has_sums_[t] = false;
    for (int64_t key = 0; key < seen; key += kAttentionKeys) {
      Keys(key, std::min(kAttentionKeys, seen - key));
    }
    for (int64_t r = 0; r < rows_; ++r) Finish(r);
  }

 private:
  const T* Base(const View& x) const {
    return x.as<const T>() + batch_ * x.strides[0] + group_ * x.strides[1];
  }

  void LoadQueries() {
    const int64_t stride = call_.q->strides[3];
    for (int64_t r = 0; r < rows_; ++r) {
      const T* from = call_.q->as<const T>() + row_[r].Offset(*call_.q);
      float* to = queries_ + r * padded_depth_;
      if (stride == 1)
        WidenRow(from, depth_, to);
      else
        for (int64_t i = 0; i < depth_; ++i) to[i] = ToFloat(from[i * stride]);
      ScaleRow(to, padded_depth_, call_.scale);
    }
  }

  template <class Body>
  HWY_INLINE void WithMaskOf(int64_t r, int64_t count, const Body& body) const {
    WithMask<T>(call_, row_[r], key_, count, body);
  }

  void Keys(int64_t key, int64_t count) {
    key_ = key;
    bool any = false, hidden = call_.mask != nullptr;
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t visible = std::clamp<int64_t>(visible_[r] - key, 0, count);
      WithMaskOf(r, visible, [&](const auto& mask) HWY_ATTR { in_block_[r] = mask.Seen(visible); });
      any |= in_block_[r] != 0;
      hidden |= in_block_[r] != count;
    }
    if (!any) return;
    PackKeys(count);
    if (!in_place_) PackValues(count);
    skip_hidden_ = hidden && !FiniteValues(count);
    if (skip_hidden_ && in_place_) PackValues(count);
    for (int64_t t = 0; t < tiles_.count; ++t) Tile(t, count);
  }

  void PackKeys(int64_t count) const {
    const View& k = *call_.k;
    for (int64_t n = 0; n < count; n += 16) {
      PackPanel(Base(k) + (key_ + n) * k.strides[2], k.strides[3], k.strides[2], depth_,
                std::min<int64_t>(16, count - n), key_panels_ + n * depth_);
    }
  }

  void PackValues(int64_t count) const {
    const View& v = *call_.v;
    for (int64_t e = 0; e < width_; e += 16) {
      PackPanel(Base(v) + key_ * v.strides[2] + e * v.strides[3], v.strides[2], v.strides[3], count,
                std::min<int64_t>(16, width_ - e), value_panels_ + e * count);
    }
  }

  bool FiniteValues(int64_t count) const {
    if (!in_place_) return AllFinite(value_panels_, count * padded_width_);
    bool finite = true;
    for (int64_t n = 0; n < count && finite; ++n)
      finite = AllFinite(Base(*call_.v) + (key_ + n) * call_.v->strides[2], width_);
    return finite;
  }

  void Tile(int64_t t, int64_t count) {
    const int64_t begin = tiles_.Begin(t), height = tiles_.Height(t);
    int64_t keys = 0;
    for (int64_t r = begin; r < begin + height; ++r) keys = std::max(keys, in_block_[r]);
    if (keys == 0) return;
    Scores(begin, height, keys, NextBlock(t, count));
    Weights(begin, height, RoundUp16(keys));
    if (skip_hidden_)
      AddVisible(begin, height, count, has_sums_[t]);
    else
      AddAll(begin, height, keys, count, has_sums_[t]);
    has_sums_[t] = true;
  }

  float* ScoresOf(int64_t i) const { return scores_ + i * score_stride_; }

  // What to ask for while a tile's scores are computed, which takes as many steps as the next block's keys have lines;
  // its values go with the second tile. Without, 16 queries by 512 keys from memory wait a third of the time.
  LinesAhead NextBlock(int64_t tile, int64_t count) const {
    if (tile > 1) return nothing_;
    const View& x = tile == 0 ? *call_.k : *call_.v;
    const T* data = Base(x) + (key_ + count) * x.strides[2];
    const int64_t row = x.strides[2] * static_cast<int64_t>(sizeof(T)) / 4;
    const bool dense = x.strides[2] == x.dims[3];
    return {reinterpret_cast<const float*>(data), dense ? 16 : row,
            dense ? count * padded_depth_ + 1 : count};
  }

  void Scores(int64_t begin, int64_t height, int64_t keys, const LinesAhead& ahead) const {
    const float* queries[kTileRows];
    for (int64_t i = 0; i < height; ++i) queries[i] = queries_ + (begin + i) * padded_depth_;
    MicroArgs args = {};
    args.k = depth_;
    args.rows = queries;
    args.b = key_panels_;
    args.b_panel = 16 * depth_;
    args.c = scores_;
    args.ldc = score_stride_;
    RowsTimesPanels<float, false>(args, height, DivideUp(keys, 16), ahead);
  }

  void Weights(int64_t begin, int64_t height, int64_t padded) const {
    float maxima[kTileRows];  // all rows' first: none waits for the last lanes of the one before
    for (int64_t i = 0; i < height; ++i) {
      const int64_t r = begin + i;
      WithMaskOf(r, in_block_[r], [&](const auto& mask) HWY_ATTR {
        maxima[i] = MaskedMaximum(ScoresOf(i), in_block_[r], mask, maximum_[r]);
      });
    }
    for (int64_t i = 0; i < height; ++i) {
      const int64_t r = begin + i;
      const float added = Weigh(ScoresOf(i), in_block_[r], padded, maxima[i]);
      if (maxima[i] != maximum_[r] && maximum_[r] != kMinusInf) {
        const float shrink = ShrinkFactor(maximum_[r], maxima[i]);
        total_[r] *= shrink;
        ScaleRow(sums_ + r * padded_width_, padded_width_, shrink);
      }
      total_[r] += added;
      maximum_[r] = maxima[i];
    }
  }

  void AddVisible(int64_t begin, int64_t height, int64_t count, bool accumulate) const {
    for (int64_t i = 0; i < height; ++i) {
      const int64_t r = begin + i;
      if (!accumulate) std::fill_n(sums_ + r * padded_width_, padded_width_, 0.0f);
      WithMaskOf(r, in_block_[r], [&](const auto& mask) HWY_ATTR {
        for (int64_t e = 0; e < padded_width_; e += 16) {
          AddVisibleValues(value_panels_ + e * count, ScoresOf(i), mask, in_block_[r],
                           sums_ + r * padded_width_ + e);
        }
      });
    }
  }

  void AddAll(int64_t begin, int64_t height, int64_t keys, int64_t count, bool accumulate) const {
    const float* weights[kTileRows];
    for (int64_t i = 0; i < height; ++i) weights[i] = ScoresOf(i);
    MicroArgs args = {};
    args.k = keys;
    args.rows = weights;
    args.c = sums_ + begin * padded_width_;
    args.ldc = padded_width_;
    args.accumulate = accumulate;
    if (in_place_) {
      args.b = Base(*call_.v) + key_ * call_.v->strides[2];
      args.b_panel = 16;
      args.b_row = call_.v->strides[2];
      return RowsTimesPanels<T, true>(args, height, padded_width_ / 16, nothing_);
    }
    args.b = value_panels_;
    args.b_panel = count * 16;
    RowsTimesPanels<float, false>(args, height, padded_width_ / 16, nothing_);
  }

  void Finish(int64_t r) {
    T* to = call_.out->as<T>() + row_[r].OutOffset(call_);
    if (maximum_[r] != kMinusInf || total_[r] != 0) {
      return FinishRow(sums_ + r * padded_width_, total_[r], width_, to);
    }
    // torch sums over no keys at all to 0, whatever the form.
    if (call_.all_masked == AllMasked::kZero || call_.keys() == 0) return FillRow(0.0f, width_, to);
    if (call_.all_masked == AllMasked::kNan) return FillRow(std::nanf(""), width_, to);
    if (!has_mean_) MeanOfValues<T>(call_, batch_, group_, mean_, mean_ + padded_width_);
    has_mean_ = true;
    NarrowRow(mean_, width_, to);
  }

  const AttentionCall& call_;
  const int64_t batch_, group_, begin_, rows_;
  const RowTiles tiles_;
  const int64_t depth_, padded_depth_, width_, padded_width_;
  LinesAhead nothing_;  // a line that is there anyway
  int64_t score_stride_;
  float *queries_, *key_panels_, *value_panels_, *scores_, *sums_, *maximum_, *total_, *mean_;
  int64_t key_ = 0;  // first of this block
  bool in_place_;    // values are read where they lie
  AttentionRow row_[kAttentionRows];
  bool has_sums_[kAttentionRows];     // by tile; before its first block, nothing is there to add to
  int64_t visible_[kAttentionRows];   // keys in all
  int64_t in_block_[kAttentionRows];  // keys in this block, to the last that the mask shows
  bool skip_hidden_ = false;  // a row does not see a key of this block, and a value is not finite
  bool has_mean_ = false;
};

void AttentionBlock(const AttentionCall& call, int64_t batch, int64_t group, int64_t begin,
                    int64_t end, float* scratch) {
  switch (call.q->dtype) {
    case DType::kF16: return BlockOfRows<Half>(call, batch, group, begin, end, scratch).Run();
    case DType::kBF16: return BlockOfRows<BFloat>(call, batch, group, begin, end, scratch).Run();
    default: return BlockOfRows<float>(call, batch, group, begin, end, scratch).Run();
  }
}

}  // namespace
}  // namespace liveshape::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace liveshape::cpu {
namespace {

LS_SIMD_TABLE(AttentionBlock);

}  // namespace

void BlockedAttention(const AttentionCall& call, ThreadPool& pool, std::byte* scratch) {
  const int64_t rows = call.rows(), outer = call.batch() * call.groups();
  // Every block packs the keys it sees, so there are few, unless threads would wait for the last of them.
  const int64_t wanted = DivideUp(4 * pool.size(), std::max<int64_t>(1, outer));
  const int64_t blocks =
      std::max(DivideUp(rows, kAttentionRows),
               std::min(DivideUp(rows, kFewestRows), pool.size() > 1 ? wanted : 1));
  const int64_t worker_floats = BlockScratch(rows, call.keys(), call.depth(), call.width()).total();
  const auto run = LS_SIMD(AttentionBlock);
  const int64_t grain = AttentionGrain(call, rows / std::max<int64_t>(1, blocks), call.keys());
  pool.ParallelFor(outer * blocks, grain, [&](int64_t begin, int64_t end, int worker) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = blocks - 1 - i % blocks;  // the longest of a causal triangle first
      const int64_t group = i / blocks;
      run(call, group / call.groups(), group % call.groups(), rows * block / blocks,
          rows * (block + 1) / blocks, reinterpret_cast<float*>(scratch) + worker * worker_floats);
    }
  });
}

}  // namespace liveshape::cpu
#endif
