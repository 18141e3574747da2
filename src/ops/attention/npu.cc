// Attention with an online softmax: an item is a block of query rows of one group (its heads times some positions),
// which walks the keys it may see in tiles. Scores never leave the scratchpad; keys beyond the live limit are not read.
//
//   first tile:  load q            every tile: load k, v (mask, row limits), array: s = q k^T, vector: p = softmax
//   last tile:   divide, store                 so far, rescale what there is, array: o += p v
#include <algorithm>

#include "backends/npu/lower/builder.h"
#include "ops/attention/npu_values.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

constexpr int64_t kRows = 256, kKeys = 512;  // of a block, where they fit

class AttentionLowering {
 public:
  AttentionLowering(const Lowering& l, KernelBuilder& k)
      : l_(l), k_(k), q_(k.In(0)), key_(k.In(1)), v_(k.In(2)), out_(k.Out(0)) {
    if (l.has(3)) mask_ = k.In(3);
    if (l.has(4)) row_limits_ = k.In(4);
    heads_ = k.Let("heads", sym::FloorDiv(q_.dims[1], sym::Max(k.Int(1), key_.dims[1])));
    depth_ = q_.dims[3];
    width_ = v_.dims[3];
  }

  Status Run() {
    if (q_.dtype != DType::kF32 && q_.dtype != DType::kF16 && q_.dtype != DType::kBF16)
      return Unsupported("attention of {} on the NPU: f32, f16 and bf16 are served",
                         Name(q_.dtype));
    LS_RETURN_IF_ERROR(ChooseTiles());
    AddBuffers();
    AddCodes();
    k_.Loop("b", q_.dims[0], [&](Expr b) {
      k_.Loop("g", key_.dims[1],
              [&](Expr g) { k_.Tiles("s", q_.dims[2], tile_s_, [&](Span s) { Item(b, g, s); }); });
    });
    return {};
  }

 private:
  int64_t Bytes(int64_t rows, int64_t keys) const {
    const int64_t d = depth_hi_, e = width_hi_, size = q_.element();
    int64_t bytes = 2 * (rows * d + keys * (d + e) + rows * e) * size;
    bytes += rows * keys * 4 + 2 * rows * (e + 4) * 4 + 2 * e * 4;
    if (mask_) bytes += 2 * rows * keys * mask_->element();
    if (row_limits_) bytes += 2 * rows * 8;
    return bytes;
  }

  Status ChooseTiles() {
    depth_hi_ = std::max<int64_t>(1, k_.table().Bounds(depth_).hi);
    width_hi_ = std::max<int64_t>(1, k_.table().Bounds(width_).hi);
    const int64_t heads = std::max<int64_t>(1, k_.table().Bounds(heads_).hi);
    const int64_t scratchpad = l_.target.scratchpad_bytes;
    if (l_.target.forced_tile > 0) {
      positions_ = keys_ = l_.target.forced_tile;
    } else {
      positions_ = std::max<int64_t>(1, kRows / heads);
      keys_ = kKeys;
      while (Bytes(positions_ * heads, keys_) > scratchpad && keys_ > 32) keys_ /= 2;
      while (Bytes(positions_ * heads, keys_) > scratchpad && positions_ > 1) positions_ /= 2;
    }
    rows_ = positions_ * heads;
    tile_s_ = k_.Int(positions_);
    return {};
  }

  void AddBuffers() {
    const int64_t size = q_.element();
    q_buffer_ = k_.AddBuffer("q", rows_ * depth_hi_ * size, 2, Turn::kItem);
    k_buffer_ = k_.AddBuffer("k", keys_ * depth_hi_ * size);
    v_buffer_ = k_.AddBuffer("v", keys_ * width_hi_ * size);
    scores_ = k_.AddBuffer("scores", rows_ * keys_ * 4, 1);
    state_ = k_.AddBuffer("state", rows_ * 4 * 4, 2, Turn::kItem);
    sums_ = k_.AddBuffer("sums", rows_ * width_hi_ * 4, 2, Turn::kItem);
    if (needs_mean()) mean_ = k_.AddBuffer("mean", width_hi_ * 4, 2, Turn::kItem);
    out_buffer_ = k_.AddBuffer("out", rows_ * width_hi_ * size, 2, Turn::kItem);
    if (mask_) mask_buffer_ = k_.AddBuffer("mask", rows_ * keys_ * mask_->element());
    if (row_limits_) limits_buffer_ = k_.AddBuffer("row_limits", rows_ * 8, 2, Turn::kItem);
  }

  void AddCodes() {
    AttentionNumbers numbers{.dtype = q_.dtype,
                             .scale = static_cast<float>(l_.node->Float("scale")),
                             .all_masked = l_.node->String("all_masked"),
                             .has_limit = l_.node->Has("limit"),
                             .has_row_limits = row_limits_.has_value()};
    if (mask_) numbers.mask = mask_->dtype;
    score_ = k_.AddCode({.name = "scores", .unit = Unit::kArray}, ScoreValues(numbers));
    Code softmax{.name = "online_softmax"};
    // Scale, compare with the limit, maximum; x - max, exp, sum.
    softmax.per_element[VectorClass::kSimple] = 5.0f + (mask_ ? 1 : 0);
    softmax.per_element[VectorClass::kTranscendental] = 1;
    softmax.per_row[VectorClass::kSimple] = 3;
    softmax.per_row[VectorClass::kTranscendental] = 1;
    softmax.lane_reductions = 2;
    softmax.outputs = 2;
    softmax_ = k_.AddCode(softmax, SoftmaxValues(numbers));
    Code rescale{.name = "rescale"};
    rescale.per_element[VectorClass::kSimple] = 1;
    rescale_ = k_.AddCode(rescale, RescaleValues());
    values_ = k_.AddCode({.name = "values", .unit = Unit::kArray}, WeightedSumValues(numbers));
    Code clear{.name = "clear"};
    clear.per_element[VectorClass::kSimple] = 1;
    clear.outputs = 2;
    clear_ = k_.AddCode(clear, ClearValues());
    if (needs_mean()) {
      Code mean{.name = "sum_of_values"};
      mean.per_element[VectorClass::kSimple] = 1;
      sum_values_ = k_.AddCode(mean, SumOfValues(numbers));
    }
    Code finish{.name = "divide"};
    finish.per_element[VectorClass::kSimple] = 1;
    finish.per_row[VectorClass::kDivide] = 1;
    finish_ = k_.AddCode(finish, FinishValues(numbers));
  }

  bool needs_mean() const { return l_.node->String("all_masked") == "mean"; }

  // Keys that some row of the block may see. A row that sees none is the mean of all: then all are read.
  Expr KeysOf(Span s) {
    if (!l_.node->Has("limit") || needs_mean()) return key_.dims[2];
    const Expr last = limit() + s.start + s.live - 1;
    return k_.Let("keys", sym::Min(key_.dims[2], sym::Max(k_.Int(0), last)));
  }

  Expr limit() { return l_.node->Has("limit") ? k_.Import(l_.node->Exprs("limit")[0]) : k_.Int(0); }

  void Item(Expr b, Expr g, Span s) {
    const Expr keys = KeysOf(s);
    const Expr steps = k_.Let("steps", sym::Max(k_.Int(1), sym::CeilDiv(keys, k_.Int(keys_))));
    k_.Item();
    k_.Loop("t", steps, [&](Expr i) {
      const Expr start = k_.Let("t_start", i * keys_);
      const Span t = {start, k_.Let("t_live", sym::Min(k_.Int(keys_), keys - start))};
      Tile(b, g, s, t, keys, sym::Eq(i, k_.Int(0)), sym::Eq(i, steps - 1));
    });
  }

  // [heads of the group, positions, last]: rows of a block lie head by head.
  std::vector<BoxDim> Rows(const View& view, Span s, Expr last, Expr last_stride) {
    const Expr row = last * view.element();
    return {{heads_, view.strides[1], s.live * row},
            {s.live, view.strides[2], row},
            {last, last_stride, k_.Int(view.element())}};
  }
  Expr RowsAt(const View& view, Expr b, Expr g, Span s) {
    return view.offset + b * view.strides[0] + g * heads_ * view.strides[1] +
           s.start * view.strides[2];
  }

  void Tile(Expr b, Expr g, Span s, Span t, Expr keys, Expr first, Expr last) {
    const Expr rows = k_.Let("rows", heads_ * s.live);
    const Expr some = sym::Lt(k_.Int(0), keys);
    k_.Dispatch();
    k_.If(first, [&] {
      k_.Load(q_, k_.At(q_buffer_), RowsAt(q_, b, g, s), Rows(q_, s, depth_, q_.strides[3]));
      if (row_limits_) {
        const View& view = *row_limits_;
        k_.Load(view, k_.At(limits_buffer_), RowsAt(view, b, g, s),
                {{heads_, view.strides[1], s.live * 8}, {s.live, view.strides[2], k_.Int(8)}});
      }
    });
    k_.If(some, [&] {
      const auto load = [&](const View& view, uint32_t buffer) {
        k_.Load(view, k_.At(buffer),
                view.offset + b * view.strides[0] + g * view.strides[1] + t.start * view.strides[2],
                {{t.live, view.strides[2], view.dims[3] * view.element()},
                 {view.dims[3], view.strides[3], k_.Int(view.element())}});
      };
      load(key_, k_buffer_);
      load(v_, v_buffer_);
      if (mask_)
        k_.Load(*mask_, k_.At(mask_buffer_), RowsAt(*mask_, b, g, s) + t.start * mask_->strides[3],
                Rows(*mask_, s, t.live, mask_->strides[3]));
    });
    k_.BarrierLoads();
    k_.If(some, [&] { AddKeys(rows, s, t, first); });
    k_.If(sym::Not(some),
          [&] { k_.Compute(clear_, {rows, width_}, {k_.At(sums_), k_.At(state_)}); });
    k_.If(last, [&] {
      std::vector<Place> operands = {k_.At(out_buffer_), k_.At(sums_), k_.At(state_)};
      if (needs_mean()) operands.push_back(k_.At(mean_));
      k_.Compute(finish_, {rows, width_}, operands, {keys});
      k_.Store(out_, k_.At(out_buffer_), RowsAt(out_, b, g, s),
               Rows(out_, s, width_, out_.strides[3]));
    });
    k_.BarrierTile();
  }

  void AddKeys(Expr rows, Span s, Span t, Expr first) {
    k_.Compute(score_, {k_.Int(1), rows, depth_, t.live},
               {k_.At(scores_), k_.At(q_buffer_), k_.At(k_buffer_)});
    std::vector<Place> operands = {k_.At(scores_), k_.At(state_)};
    if (mask_) operands.push_back(k_.At(mask_buffer_));
    if (row_limits_) operands.push_back(k_.At(limits_buffer_));
    k_.Compute(softmax_, {rows, t.live}, operands, {first, t.start, s.start, s.live, limit()});
    k_.If(sym::Not(first),
          [&] { k_.Compute(rescale_, {rows, width_}, {k_.At(sums_), k_.At(state_)}); });
    k_.Compute(values_, {k_.Int(1), rows, t.live, width_},
               {k_.At(sums_), k_.At(scores_), k_.At(v_buffer_)}, {first});
    if (needs_mean())
      k_.Compute(sum_values_, {t.live, width_}, {k_.At(mean_), k_.At(v_buffer_)}, {first});
  }

  const Lowering& l_;
  KernelBuilder& k_;
  View q_, key_, v_, out_;
  std::optional<View> mask_, row_limits_;
  Expr heads_, depth_, width_, tile_s_;
  int64_t depth_hi_ = 1, width_hi_ = 1, positions_ = 1, rows_ = 1, keys_ = 1;
  uint32_t q_buffer_ = 0, k_buffer_ = 0, v_buffer_ = 0, scores_ = 0, state_ = 0, sums_ = 0,
           mean_ = 0, out_buffer_ = 0, mask_buffer_ = 0, limits_buffer_ = 0;
  uint32_t score_ = 0, softmax_ = 0, rescale_ = 0, values_ = 0, sum_values_ = 0, clear_ = 0,
           finish_ = 0;
};

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  LS_RETURN_IF_ERROR(AttentionLowering(l, k).Run());
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kAttentionNpu = {.op = &ops::kAttention, .lower = Lower};

}  // namespace liveshape::npu
