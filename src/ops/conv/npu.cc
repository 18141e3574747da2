// Convolution as an implicit matrix product: rows are output pixels, columns output channels, and K runs over input
// channels times taps in the order of the weight, in steps of several channels, or of a part of a large window. Of a step
// the scratchpad holds the band of the image that its pixels see, once, and the array's address generators find the taps
// in it. Windows with gaps (dilation, strides beyond their size) would hold more than they see: there the DMA lays the
// pixels of each tap beside each other, a box each. Padding is zeroed before. Small images go several to a tile.
#include <algorithm>

#include "backends/npu/lower/product.h"
#include "backends/npu/values/product_values.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::npu {
namespace {

constexpr int64_t kMostTaps = 128;  // loads of one step

// One step of K.
struct Depth {
  Span c, p, q;  // channels of the group, rows and columns of the window
  Expr all, first, last;
};

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
    if (weight_.quantised()) return Unsupported("a quantised convolution on the NPU");
    channels_ = x_.dims[1].value() / groups_;  // C and O are fixed
    out_channels_ = y_.dims[1].value() / groups_;
    ChooseTiles();
    AddBuffers();
    AddCodes();
    k_.Tiles("image", x_.dims[0], tile_images_, [&](Span n) {
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
  // Many pixels, and few (a small image at a small batch): those wait for weights, and take more of them at a time.
  static constexpr size_t kVariants = 2;
  static constexpr int64_t kFewPixels = 256, kFewDepth = 4;
  int64_t depth(size_t variant) const { return tile_c_[variant] * tile_p_ * tile_q_; }
  int64_t Bytes(size_t variant, int64_t m, int64_t strip) const {
    const int64_t k = depth(variant);
    return 2 * (m * k + k * tile_o_) * x_.element() + 2 * m * tile_o_ * 4 +
           epilogue_.Bytes({m * tile_o_, tile_o_, strip * tile_o_});
  }
  int64_t StripPixels(size_t variant) const {
    return StripRows(pixels_[variant], [&](int64_t strip) {
      return Bytes(variant, pixels_[variant], strip) <= l_.target.scratchpad_bytes;
    });
  }
  bool Fits(size_t variant) const {
    return Bytes(variant, pixels_[variant], StripPixels(variant)) <= l_.target.scratchpad_bytes;
  }

  void ChooseTiles() {
    const Target& target = l_.target;
    const int64_t rows = target.array_rows, taps = std::min(rows, kMostTaps);
    // A window that is cut goes channel by channel: a step of K is one stretch of the weight.
    for (size_t v : {0, 1})
      tile_c_[v] =
          taps_ > taps
              ? 1
              : std::min(channels_, std::max<int64_t>(1, (v ? kFewDepth : 1) * rows / taps_));
    tile_q_ = std::min(w_.size, taps);
    tile_p_ = std::min(h_.size, std::max<int64_t>(1, taps / tile_q_));
    tile_o_ = std::min<int64_t>(out_channels_, 4 * target.array_cols);
    // A panel of the weight is not cut: groups that do not begin at one go channel by channel.
    if (weight_.form != WeightForm::kStrided && groups_ > 1 &&
        out_channels_ % weight_.n_alignment() != 0)
      tile_o_ = 1;
    pixels_[0] = 8 * rows;
    while (!Fits(0) && pixels_[0] > 16) pixels_[0] /= 2;
    while (!Fits(0) && tile_o_ > 16) tile_o_ = (tile_o_ / 2 + 15) / 16 * 16;
    if (target.forced_tile > 0) pixels_[0] = target.forced_tile;
    pixels_[1] = std::min(pixels_[0], kFewPixels);
    while (!Fits(1) && tile_c_[1] > tile_c_[0]) tile_c_[1] = std::max(tile_c_[0], tile_c_[1] / 2);
    const Expr all = y_.dims[0] * y_.dims[2] * y_.dims[3];
    k_.SetVariants(kVariants, sym::Select(sym::Le(all, k_.Int(pixels_[1])), k_.Int(1), k_.Int(0)));
    step_c_ = k_.Let("step_c", k_.ByVariant(tile_c_));
    const Expr pixels = k_.Let("most_pixels", k_.ByVariant(pixels_));
    tile_cols_ = k_.Let("tile_cols", sym::Max(k_.Int(1), sym::Min(y_.dims[3], pixels)));
    tile_rows_ = k_.Let("tile_rows", sym::FloorDiv(pixels, tile_cols_));
    const Expr image = sym::Max(k_.Int(1), y_.dims[2] * y_.dims[3]);
    tile_images_ = k_.Let("tile_images", sym::Max(k_.Int(1), sym::FloorDiv(pixels, image)));
    in_bands_ = std::max(h_.stride, Reach(h_, tile_p_)) * std::max(w_.stride, Reach(w_, tile_q_)) <=
                tile_p_ * tile_q_;
  }
  // What so many taps of a window span.
  static int64_t Reach(const ops::Window& w, int64_t taps) { return (taps - 1) * w.dilation + 1; }

  void AddBuffers() {
    const int64_t size = x_.element();
    std::vector<int64_t> a, b, c;
    std::vector<Epilogue::Sizes> stages;
    for (size_t v = 0; v < kVariants; ++v) {
      a.push_back(pixels_[v] * depth(v) * size);
      b.push_back(depth(v) * tile_o_ * size);
      c.push_back(pixels_[v] * tile_o_ * 4);
      stages.push_back({pixels_[v] * tile_o_, tile_o_, StripPixels(v) * tile_o_});
    }
    a_ = k_.AddBuffer("a", a);
    b_ = k_.AddBuffer("b", b);
    c_ = k_.AddBuffer("c", c, 2, Turn::kItem);
    epilogue_.AddBuffers(stages);
  }

  void AddCodes() {
    Code simple{.name = "zero"};
    simple.per_element[VectorClass::kSimple] = 1;
    if (padded()) zero_ = k_.AddCode(simple, ZeroValues(x_.dtype));
    const Code matmul{.name = "matmul", .unit = Unit::kArray};
    multiply_ = k_.AddCode(
        matmul, in_bands_
                    ? MultiplyBandValues(x_.dtype, weight_.view.dtype, {h_.stride, h_.dilation},
                                         {w_.stride, w_.dilation},
                                         std::max(pixels_[0] * depth(0), pixels_[1] * depth(1)))
                    : MultiplyValues(x_.dtype, weight_.view.dtype));
  }

  void Item(Span n, Expr g, Span i, Span j, Span o) {
    k_.Item();
    const Expr pixels = k_.Let("pixels", n.live * i.live * j.live);
    const Span out = {k_.Let("o_at", g * out_channels_ + o.start), o.live};
    const auto box = [&](const View& y, Span images, Span rows, Span cols) {
      const Expr pixel = o.live * y.element();
      return Epilogue::Box{y.offset + images.start * y.strides[0] + out.start * y.strides[1] +
                               rows.start * y.strides[2] + cols.start * y.strides[3],
                           {{images.live, y.strides[0], rows.live * cols.live * pixel},
                            {rows.live, y.strides[2], cols.live * pixel},
                            {cols.live, y.strides[3], pixel},
                            {o.live, y.strides[1], k_.Int(y.element())}}};
    };
    const Epilogue::Tile tile = {{pixels}, out, [&](const View& y) { return box(y, n, i, j); }};
    const auto steps = [&](const char* name, int64_t extent, Expr size, const auto& body) {
      const Expr count = sym::CeilDiv(k_.Int(extent), size);
      k_.Loop(name, count, [&](Expr step) {
        const Expr start = k_.Let(fmt::format("{}_start", name), step * size);
        const Expr live = sym::Min(size, k_.Int(extent) - start);
        body(Span{start, k_.Let(fmt::format("{}_live", name), live)}, sym::Eq(step, k_.Int(0)),
             sym::Eq(step, count - k_.Int(1)));
      });
    };
    steps("c", channels_, step_c_, [&](Span c, Expr first_c, Expr last_c) {
      steps("p", h_.size, k_.Int(tile_p_), [&](Span p, Expr first_p, Expr last_p) {
        steps("q", w_.size, k_.Int(tile_q_), [&](Span q, Expr first_q, Expr last_q) {
          Step(n, g, i, j, tile,
               {c, p, q, k_.Let("depth", c.live * p.live * q.live),
                sym::And(first_c, sym::And(first_p, first_q)),
                sym::And(last_c, sym::And(last_p, last_q))});
        });
      });
    });
    if (!epilogue_.in_strips()) return;
    // Whole rows of pixels, or parts of one: either way a strip is dense in the tile.
    const int64_t strips[] = {StripPixels(0), StripPixels(1)};
    const Expr most = k_.Let("strip_pixels", k_.ByVariant(strips));
    const Expr strip_cols = k_.Let("strip_cols", sym::Min(tile_cols_, most));
    const Expr strip_rows = k_.Let(
        "strip_rows",
        sym::Select(sym::Eq(strip_cols, tile_cols_), sym::FloorDiv(most, strip_cols), k_.Int(1)));
    k_.Loop("sn", n.live, [&](Expr sn) {
      k_.Tiles("si", i.live, strip_rows, [&](Span si) {
        k_.Tiles("sj", j.live, strip_cols, [&](Span sj) {
          const Span image = {n.start + sn, k_.Int(1)}, rows = {i.start + si.start, si.live},
                     cols = {j.start + sj.start, sj.live};
          epilogue_.RunStrip({{si.live, sj.live},
                              out,
                              [&](const View& y) { return box(y, image, rows, cols); },
                              (sn * i.live + si.start) * j.live + sj.start},
                             {k_.At(c_)});
        });
      });
    });
  }

  void Step(Span n, Expr g, Span i, Span j, const Epilogue::Tile& tile, const Depth& d) {
    const Expr pixels = tile.rows[0];
    k_.Dispatch();
    if (in_bands_) {
      LoadBand(n, g, i, j, d);
    } else {
      if (padded()) k_.Compute(zero_, {pixels, d.all}, {k_.At(a_)});
      for (int64_t p = 0; p < tile_p_; ++p)
        for (int64_t q = 0; q < tile_q_; ++q)
          k_.If(sym::And(sym::Lt(k_.Int(p), d.p.live), sym::Lt(k_.Int(q), d.q.live)),
                [&] { LoadTap(n, g, i, j, d, p, q); });
    }
    LoadWeight(k_, weight_, weight_.view.offset, b_, tile.columns,
               {d.c.start * taps_ + d.p.start * w_.size + d.q.start, d.all});
    k_.If(d.last, [&] { epilogue_.LoadVectors(tile.columns); });
    k_.BarrierLoads();
    k_.Compute(multiply_, {k_.Int(1), pixels, d.all, tile.columns.live},
               {k_.At(c_), k_.At(a_), k_.At(b_)}, {d.first, i.live, j.live, d.p.live, d.q.live});
    k_.If(d.last, [&] { epilogue_.FinishSums(tile, {k_.At(c_)}); });
    k_.BarrierTile();
  }

  // Of the first image and the channels of this step.
  Expr At(Span n, Expr g, const Depth& d, Expr row, Expr col) const {
    return x_.offset + n.start * x_.strides[0] + (g * channels_ + d.c.start) * x_.strides[1] +
           row * x_.strides[2] + col * x_.strides[3];
  }

  // The part of the input's extent that a band from `first` on, `live` long, covers.
  Span Covered(Expr first, Expr live, Expr extent) {
    const Expr start = sym::Max(k_.Int(0), first), end = sym::Min(extent, first + live);
    return {start, k_.Let("covered", sym::Max(k_.Int(0), end - start))};
  }

  void LoadBand(Span n, Expr g, Span i, Span j, const Depth& d) {
    const Expr size = k_.Int(x_.element());
    const auto first = [&](const ops::Window& w, Span tile, Span taps) {
      return tile.start * w.stride + taps.start * w.dilation - k_.Int(w.before);
    };
    const auto length = [&](const ops::Window& w, Span tile, Span taps) {
      return (tile.live - k_.Int(1)) * w.stride + (taps.live - k_.Int(1)) * w.dilation + k_.Int(1);
    };
    const Expr top = first(h_, i, d.p), left = first(w_, j, d.q);
    const Expr rows = k_.Let("band_rows", length(h_, i, d.p)),
               cols = k_.Let("band_cols", length(w_, j, d.q));
    const Span down = Covered(top, rows, x_.dims[2]), across = Covered(left, cols, x_.dims[3]);
    if (padded())
      k_.If(sym::Lt(down.live * across.live, rows * cols),
            [&] { k_.Compute(zero_, {n.live * d.c.live * rows, cols}, {k_.At(a_)}); });
    const Expr to = ((down.start - top) * cols + (across.start - left)) * size;
    k_.If(sym::Lt(k_.Int(0), down.live * across.live), [&] {
      k_.Load(x_, k_.At(a_, to), At(n, g, d, down.start, across.start),
              {{n.live, x_.strides[0], d.c.live * rows * cols * size},
               {d.c.live, x_.strides[1], rows * cols * size},
               {down.live, x_.strides[2], cols * size},
               {across.live, x_.strides[3], size}});
    });
  }

  // Output places of a tile for which a tap of window `w` lies inside the input.
  Span Inside(const ops::Window& w, Expr tap, Expr extent, Span tile) {
    const Expr shift =
        k_.Int(w.before) - tap * w.dilation;  // place * stride - shift is the input's index
    const Expr stride = k_.Int(w.stride);
    const Expr first = sym::Max(tile.start, sym::CeilDiv(shift, stride));
    const Expr end =
        sym::Min(tile.start + tile.live, sym::FloorDiv(extent - 1 + shift, stride) + 1);
    return {first, k_.Let("inside", sym::Max(k_.Int(0), end - first))};
  }

  void LoadTap(Span n, Expr g, Span i, Span j, const Depth& d, int64_t p, int64_t q) {
    const int64_t size = x_.element();
    const Expr tap_p = d.p.start + p, tap_q = d.q.start + q;
    const Span rows = Inside(h_, tap_p, x_.dims[2], i), cols = Inside(w_, tap_q, x_.dims[3], j);
    const Expr row = rows.start * h_.stride + tap_p * h_.dilation - h_.before;
    const Expr col = cols.start * w_.stride + tap_q * w_.dilation - w_.before;
    const Expr pixel = d.all * size;  // of the buffer
    const Expr to = ((rows.start - i.start) * j.live + (cols.start - j.start)) * pixel +
                    (d.q.live * p + q) * size;
    k_.If(sym::Lt(k_.Int(0), rows.live * cols.live), [&] {
      k_.Load(x_, k_.At(a_, to), At(n, g, d, row, col),
              {{n.live, x_.strides[0], i.live * j.live * pixel},
               {rows.live, x_.strides[2] * h_.stride, j.live * pixel},
               {cols.live, x_.strides[3] * w_.stride, pixel},
               {d.c.live, x_.strides[1], d.p.live * d.q.live * size}});
    });
  }

  const Lowering& l_;
  KernelBuilder& k_;
  const ops::Window h_, w_;
  View x_;
  Weight weight_;
  Epilogue epilogue_;
  View y_;
  const int64_t groups_, taps_;
  int64_t channels_ = 1, out_channels_ = 1, tile_o_ = 1;
  int64_t pixels_[kVariants] = {1, 1};
  int64_t tile_c_[kVariants] = {1, 1}, tile_p_ = 1, tile_q_ = 1;  // of K
  Expr step_c_, tile_images_, tile_rows_, tile_cols_;
  bool in_bands_ = false;
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
