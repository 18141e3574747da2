// Convolution as an implicit matrix product: rows are output pixels, columns output channels, and K runs over input
// channels times taps in the order of the weight. The DMA lays the pixels of each tap beside each other in the
// scratchpad (im2col on the way in); where a tap reaches into the padding its rows are zeroed first and its box is
// clamped.
#include <algorithm>

#include "backends/npu/lower/product.h"
#include "backends/npu/values/product_values.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::npu {
namespace {

constexpr int64_t kMostTaps = 128;  // loads of one tile

class ConvLowering {
 public:
  ConvLowering(const Lowering& l, KernelBuilder& k, const ops::Windows& windows)
      : l_(l),
        k_(k),
        h_(windows[0]),
        w_(windows[1]),
        x_(k.In(0)),
        weight_(WeightOf(l, k, 1)),
        epilogue_(l, k, l.has(2) ? std::optional(k.In(2)) : std::nullopt),
        y_(epilogue_.Shaped()[0]),
        groups_(l.node->Int("groups")),
        taps_(h_.size * w_.size) {}

  Status Run() {
    if (x_.dtype != DType::kF32 && x_.dtype != DType::kF16 && x_.dtype != DType::kBF16)
      return Unsupported("a convolution of {} on the NPU", Name(x_.dtype));
    if (taps_ > kMostTaps)
      return Unsupported("a window of {} taps on the NPU: at most {} are served", taps_, kMostTaps);
    if (weight_.quantised()) return Unsupported("a quantised convolution on the NPU");
    channels_ = x_.dims[1].value() / groups_;  // C and O are fixed
    out_channels_ = y_.dims[1].value() / groups_;
    LS_RETURN_IF_ERROR(ChooseTiles());
    AddBuffers();
    AddCodes();
    k_.Loop("image", x_.dims[0], [&](Expr n) {
      k_.Loop("group", k_.Int(groups_), [&](Expr g) {
        k_.Tiles("i", y_.dims[2], tile_rows_, [&](Span i) {
          k_.Tiles("j", y_.dims[3], tile_cols_, [&](Span j) {
            k_.Tiles("o", k_.Int(out_channels_), k_.Int(tile_o_),
                     [&](Span o) { Item(n, g, i, j, o); });
          });
        });
      });
    });
    return {};
  }

 private:
  bool padded() const { return h_.before + h_.after + w_.before + w_.after > 0; }
  int64_t Bytes(int64_t m) const {
    const int64_t k = tile_c_ * taps_;
    return 2 * (m * k + k * tile_o_) * x_.element() + 2 * m * tile_o_ * 4 +
           epilogue_.Bytes(m * tile_o_, tile_o_);
  }

  Status ChooseTiles() {
    const Target& target = l_.target;
    tile_c_ = std::min(channels_, std::max<int64_t>(1, target.array_rows / taps_));
    tile_o_ = std::min<int64_t>(out_channels_, 4 * target.array_cols);
    // A panel of the weight is not cut: groups that do not begin at one go channel by channel.
    if (weight_.form != WeightForm::kStrided && groups_ > 1 &&
        out_channels_ % weight_.n_alignment() != 0)
      tile_o_ = 1;
    pixels_ = 8 * target.array_rows;
    while (Bytes(pixels_) > target.scratchpad_bytes && pixels_ > 16) pixels_ /= 2;
    if (target.forced_tile > 0) pixels_ = target.forced_tile;
    tile_cols_ = k_.Let("tile_cols", sym::Max(k_.Int(1), sym::Min(y_.dims[3], k_.Int(pixels_))));
    tile_rows_ = k_.Let("tile_rows", sym::FloorDiv(k_.Int(pixels_), tile_cols_));
    return {};
  }

  void AddBuffers() {
    const int64_t k = tile_c_ * taps_, size = x_.element();
    a_ = k_.AddBuffer("a", pixels_ * k * size);
    b_ = k_.AddBuffer("b", k * tile_o_ * size);
    c_ = k_.AddBuffer("c", pixels_ * tile_o_ * 4, 2, Turn::kItem);
    epilogue_.AddBuffers({pixels_ * tile_o_}, {tile_o_});
  }

  void AddCodes() {
    Code simple{.name = "zero"};
    simple.per_element[VectorClass::kSimple] = 1;
    if (padded()) zero_ = k_.AddCode(simple, ZeroValues(x_.dtype));
    multiply_ = k_.AddCode({.name = "matmul", .unit = Unit::kArray},
                           MultiplyValues(x_.dtype, weight_.view.dtype));
  }

  void Item(Expr n, Expr g, Span i, Span j, Span o) {
    k_.Item();
    const Expr pixels = k_.Let("pixels", i.live * j.live);
    const int64_t steps = (channels_ + tile_c_ - 1) / tile_c_;
    const Span out = {k_.Let("o_at", g * out_channels_ + o.start), o.live};
    const Epilogue::Tile tile = {pixels, out, [&](const View& y) {
                                   const Expr row = o.live * y.element();
                                   return Epilogue::Box{
                                       y.offset + n * y.strides[0] + out.start * y.strides[1] +
                                           i.start * y.strides[2] + j.start * y.strides[3],
                                       {{i.live, y.strides[2], j.live * row},
                                        {j.live, y.strides[3], row},
                                        {o.live, y.strides[1], k_.Int(y.element())}}};
                                 }};
    k_.Loop("c", k_.Int(steps), [&](Expr step) {
      const Expr start = k_.Let("c_start", step * tile_c_);
      const Span c = {start,
                      k_.Let("c_live", sym::Min(k_.Int(tile_c_), k_.Int(channels_) - start))};
      const Expr depth = k_.Let("depth", c.live * taps_);
      const Expr last = sym::Eq(step, k_.Int(steps - 1));
      k_.Dispatch();
      if (padded()) k_.Compute(zero_, {pixels, depth}, {k_.At(a_)});
      for (int64_t p = 0; p < h_.size; ++p)
        for (int64_t q = 0; q < w_.size; ++q) LoadTap(n, g, i, j, c, depth, p, q);
      LoadWeight(k_, weight_, weight_.view.offset, b_, out, {c.start * taps_, depth});
      k_.If(last, [&] { epilogue_.Load(tile); });
      k_.BarrierLoads();
      k_.Compute(multiply_, {k_.Int(1), pixels, depth, o.live}, {k_.At(c_), k_.At(a_), k_.At(b_)},
                 {sym::Eq(step, k_.Int(0))});
      k_.If(last, [&] { epilogue_.FinishTile(tile, {k_.At(c_)}); });
      k_.BarrierTile();
    });
  }

  // Output places of a tile for which tap `tap` of window `w` lies inside the input.
  Span Inside(const ops::Window& w, int64_t tap, Expr extent, Span tile) {
    const int64_t shift =
        w.before - tap * w.dilation;  // place * stride - shift is the input's index
    const Expr stride = k_.Int(w.stride);
    const Expr first = sym::Max(tile.start, sym::CeilDiv(k_.Int(shift), stride));
    const Expr end =
        sym::Min(tile.start + tile.live, sym::FloorDiv(extent - 1 + shift, stride) + 1);
    return {first, k_.Let("inside", sym::Max(k_.Int(0), end - first))};
  }

  void LoadTap(Expr n, Expr g, Span i, Span j, Span c, Expr depth, int64_t p, int64_t q) {
    const int64_t size = x_.element();
    const Span rows = Inside(h_, p, x_.dims[2], i), cols = Inside(w_, q, x_.dims[3], j);
    const Expr row = rows.start * h_.stride - (h_.before - p * h_.dilation);
    const Expr col = cols.start * w_.stride - (w_.before - q * w_.dilation);
    const Expr pixel = depth * size;  // of the buffer
    const Expr to = ((rows.start - i.start) * j.live + (cols.start - j.start)) * pixel +
                    (p * w_.size + q) * size;
    const auto load = [&] {
      k_.Load(x_, k_.At(a_, to),
              x_.offset + n * x_.strides[0] + (g * channels_ + c.start) * x_.strides[1] +
                  row * x_.strides[2] + col * x_.strides[3],
              {{rows.live, x_.strides[2] * h_.stride, j.live * pixel},
               {cols.live, x_.strides[3] * w_.stride, pixel},
               {c.live, x_.strides[1], k_.Int(taps_ * size)}});
    };
    if (padded())
      k_.If(sym::Lt(k_.Int(0), rows.live * cols.live), load);
    else
      load();
  }

  const Lowering& l_;
  KernelBuilder& k_;
  const ops::Window h_, w_;
  View x_;
  Weight weight_;
  Epilogue epilogue_;
  View y_;
  const int64_t groups_, taps_;
  int64_t channels_ = 1, out_channels_ = 1, tile_c_ = 1, tile_o_ = 1, pixels_ = 1;
  Expr tile_rows_, tile_cols_;
  uint32_t a_ = 0, b_ = 0, c_ = 0, zero_ = 0, multiply_ = 0;
};

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  LS_ASSIGN_OR_RETURN(const ops::Windows windows, ops::ReadWindows(*l.node));
  KernelBuilder k(l);
  LS_RETURN_IF_ERROR(ConvLowering(l, k, windows).Run());
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kConvNpu = {.op = &ops::kConv, .lower = Lower, .stages = Stages::kElements};

}  // namespace liveshape::npu
