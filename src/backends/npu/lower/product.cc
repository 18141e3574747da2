#include "backends/npu/lower/product.h"

#include <algorithm>

#include "backends/npu/values/product_values.h"
#include "ops/linear/quantised.h"

namespace liveshape::npu {
namespace {

using ops::kPanelRows;
using ops::kQuantGroup;

struct TileSize { int64_t m, k, n; };

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

int64_t Weight::block_bytes() const {
  return form == WeightForm::kQ8Panel16 ? sizeof(ops::QuantBlock<8>) : sizeof(ops::QuantBlock<4>);
}

Weight WeightOf(const Lowering& l, KernelBuilder& k, size_t input) {
  Weight weight{.view = k.In(input)};
  if (const ir::Constant* constant = l.constant(input); constant && constant->packed())
    weight.form = constant->encoding == ir::Encoding::kQ8SymG32   ? WeightForm::kQ8Panel16
                  : constant->encoding == ir::Encoding::kQ4SymG32 ? WeightForm::kQ4Panel16
                                                                  : WeightForm::kPanel16;
  weight.k = weight.view.dims[1];
  weight.n_stride = weight.view.strides[0];
  weight.k_stride = weight.view.strides[1];
  return weight;
}

void LoadWeight(KernelBuilder& b, const Weight& weight, Expr at, uint32_t buffer, Span n, Span k) {
  const int64_t size = weight.element();
  const Expr element = b.Int(size), row = n.live * size;
  if (weight.form == WeightForm::kStrided) {
    b.Load(weight.view, b.At(buffer), at + k.start * weight.k_stride + n.start * weight.n_stride,
           {{k.live, weight.k_stride, row}, {n.live, weight.n_stride, element}});
    return;
  }
  const Expr first_panel = sym::FloorDiv(n.start, b.Int(kPanelRows));
  if (weight.quantised()) {
    // Whole blocks, as words: [panels][groups of this tile].
    View words = weight.view;
    words.dtype = DType::kI32;
    const int64_t block = weight.block_bytes();
    const Expr groups = sym::CeilDiv(weight.k, b.Int(kQuantGroup));
    const Expr live_words = b.Let("words", sym::CeilDiv(k.live, b.Int(kQuantGroup)) * (block / 4));
    b.Load(words, b.At(buffer),
           at + (first_panel * groups + sym::FloorDiv(k.start, b.Int(kQuantGroup))) * block,
           {{sym::CeilDiv(n.live, b.Int(kPanelRows)), groups * block, live_words * 4},
            {live_words, b.Int(4), b.Int(4)}});
    return;
  }
  // [panel][k][16]: whole panels, then what the last one has beside its padding.
  const Expr k_stride = b.Int(kPanelRows * size), panel = weight.k * (kPanelRows * size);
  const Expr whole = b.Let("panels", sym::FloorDiv(n.live, b.Int(kPanelRows)));
  const Expr rest = b.Let("rest", sym::Mod(n.live, b.Int(kPanelRows)));
  const Expr from = at + first_panel * panel + sym::Mod(n.start, b.Int(kPanelRows)) * size +
                    k.start * (kPanelRows * size);
  b.If(sym::Lt(b.Int(0), whole), [&] {
    b.Load(
        weight.view, b.At(buffer), from,
        {{whole, panel, k_stride}, {k.live, k_stride, row}, {b.Int(kPanelRows), element, element}});
  });
  b.If(sym::Lt(b.Int(0), rest), [&] {
    b.Load(weight.view, b.At(buffer, whole * (kPanelRows * size)), from + whole * panel,
           {{k.live, k_stride, row}, {rest, element, element}});
  });
}

namespace {

class ProductLowering {
 public:
  ProductLowering(const Lowering& l, KernelBuilder& k, Product p)
      : l_(l), k_(k), p_(std::move(p)), parts_(p_.epilogue.columns().size()) {}

  Status Run() {
    for (DType dtype : {p_.a.dtype, l_.step.outputs[0].dtype})
      if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
        return Unsupported("a product of {} on the NPU: f32, f16 and bf16 are served", Name(dtype));
    ChooseTiles();
    AddBuffers();
    AddCodes();
    Batch(p_.a.offset, p_.b.view.offset, {});
    return {};
  }

 private:
  bool quantised() const { return p_.b.quantised(); }
  int64_t b_element() const { return p_.b.element(); }

  int64_t RawBytes(const TileSize& t) const {  // of the quantised blocks of a tile of b
    return RoundUp(t.n, kPanelRows) / kPanelRows * (RoundUp(t.k, kQuantGroup) / kQuantGroup) *
           p_.b.block_bytes();
  }
  int64_t Bytes(const TileSize& t, int64_t strip_rows) const {
    int64_t part = 2 * (t.k * t.n * b_element() + t.m * t.n * 4);
    if (quantised()) part += 2 * RawBytes(t) - t.k * t.n * b_element();  // dequantised once a tile
    return 2 * t.m * t.k * p_.a.element() + static_cast<int64_t>(parts_) * part +
           p_.epilogue.Bytes({t.m * t.n, t.n, strip_rows * t.n});
  }
  int64_t StripRowsOf(const TileSize& t) const {
    return StripRows(t.m,
                     [&](int64_t rows) { return Bytes(t, rows) <= l_.target.scratchpad_bytes; });
  }
  int64_t Bytes(const TileSize& t) const { return Bytes(t, StripRowsOf(t)); }

  // Panels and groups of a packed weight are not cut.
  TileSize Aligned(TileSize t) const {
    return {t.m, RoundUp(t.k, p_.b.k_alignment()), RoundUp(t.n, p_.b.n_alignment())};
  }

  // Two sizes: for many rows, and for few (a decode step), where a large tile of c would only keep others out.
  void ChooseTiles() {
    const Target& target = l_.target;
    if (target.forced_tile > 0) {
      const int64_t t = target.forced_tile;
      sizes_ = {Aligned({t, t, t})};
    } else {
      const int64_t rows = target.array_rows, cols = target.array_cols;
      const bool whole = p_.epilogue.whole_rows();
      TileSize large = Aligned({8 * rows, rows, whole ? LongestRow(target, *l_.fusion) : 8 * cols});
      while (Bytes(large) > target.scratchpad_bytes &&
             (whole ? large.m : std::max(large.m, large.n)) > kPanelRows)
        (whole || large.m >= large.n ? large.m : large.n) /= 2;
      TileSize small = Aligned({std::min(rows, large.m), rows, whole ? large.n : 4 * cols});
      while (!whole && Bytes(small) > target.scratchpad_bytes && small.n > kPanelRows) small.n /= 2;
      sizes_ = {Aligned(small), Aligned(large)};
      k_.SetVariants(2, sym::Lt(k_.Int(small.m), p_.m));
    }
    const auto by_variant = [&](int64_t TileSize::* field) {
      std::vector<int64_t> numbers;
      for (const TileSize& t : sizes_) numbers.push_back(t.*field);
      return k_.ByVariant(numbers);
    };
    tile_m_ = k_.Let("tile_m", by_variant(&TileSize::m));
    tile_k_ = k_.Let("tile_k", by_variant(&TileSize::k));
    tile_n_ = k_.Let("tile_n", by_variant(&TileSize::n));
    if (!p_.epilogue.in_strips()) return;
    std::vector<int64_t> strips;
    for (const TileSize& t : sizes_) strips.push_back(StripRowsOf(t));
    strip_m_ = k_.Let("strip_m", k_.ByVariant(strips));
  }

  void AddBuffers() {
    const auto bytes = [&](auto of) {
      std::vector<int64_t> list;
      for (const TileSize& t : sizes_) list.push_back(of(t));
      return list;
    };
    a_ = k_.AddBuffer("a", bytes([&](auto& t) { return t.m * t.k * p_.a.element(); }));
    for (size_t part = 0; part < parts_; ++part) {
      const std::string number = part == 0 ? "" : fmt::format("{}", part);
      if (quantised())
        raw_.push_back(k_.AddBuffer("b_raw" + number, bytes([&](auto& t) { return RawBytes(t); })));
      b_.push_back(k_.AddBuffer("b" + number,
                                bytes([&](auto& t) { return t.k * t.n * b_element(); }),
                                quantised() ? 1 : 2));
      c_.push_back(k_.AddBuffer("c" + number, bytes([&](auto& t) { return t.m * t.n * 4; }), 2,
                                Turn::kItem));
    }
    std::vector<Epilogue::Sizes> epilogue;
    for (const TileSize& t : sizes_) epilogue.push_back({t.m * t.n, t.n, StripRowsOf(t) * t.n});
    p_.epilogue.AddBuffers(epilogue);
  }

  void AddCodes() {
    multiply_ = k_.AddCode({.name = "matmul", .unit = Unit::kArray},
                           MultiplyValues(p_.a.dtype, quantised() ? DType::kF32 : p_.b.view.dtype));
    if (quantised()) {
      Code code{.name = "dequantise"};
      code.per_element[VectorClass::kSimple] = 3;  // shift and mask, convert and subtract, scale
      dequantise_ = k_.AddCode(code, DequantiseValues(p_.b.form == WeightForm::kQ8Panel16 ? 8 : 4));
    }
  }

  void Batch(Expr a, Expr b, std::vector<Expr> at) {
    const size_t dim = at.size();
    if (dim == p_.batch.size()) return Tiles(a, b, at);
    k_.Loop(fmt::format("batch{}", dim), p_.batch[dim], [&](Expr i) {
      std::vector<Expr> inner = at;
      inner.push_back(i);
      Batch(k_.Let("a_at", a + i * p_.a_batch[dim]), k_.Let("b_at", b + i * p_.b_batch[dim]),
            std::move(inner));
    });
  }

  // Of a view with the dims of c.
  Epilogue::Box BoxOf(const View& view, const std::vector<Expr>& batch, Span m, Span n) const {
    const size_t rank = view.rank();
    const Expr by_m = rank > 1 ? view.strides[rank - 2] : k_.Int(0), by_n = view.strides.back();
    Expr at = view.offset;
    for (size_t d = 0; d < batch.size(); ++d) at = at + batch[d] * view.strides[d];
    return {k_.Let("c_at", at) + m.start * by_m + n.start * by_n,
            {{m.live, by_m, n.live * view.element()}, {n.live, by_n, k_.Int(view.element())}}};
  }

  void Tiles(Expr a, Expr b, const std::vector<Expr>& batch) {
    k_.Tiles("m", p_.m, tile_m_, [&](Span m) {
      k_.Tiles("n", p_.n, tile_n_, [&](Span n) {
        k_.Item();
        const Epilogue::Tile tile = {
            {m.live}, n, [&](const View& view) { return BoxOf(view, batch, m, n); }};
        // An empty sum is still a tile: of zeros.
        const Expr steps = k_.Let("k_count", sym::Max(k_.Int(1), sym::CeilDiv(p_.k, tile_k_)));
        k_.Loop("k", steps, [&](Expr i) {
          const Expr start = k_.Let("k_start", i * tile_k_);
          const Span k = {start, k_.Let("k_live", sym::Min(tile_k_, p_.k - start))};
          Step(a, b, m, k, tile, sym::Eq(i, k_.Int(0)), sym::Eq(i, steps - 1));
        });
        if (!p_.epilogue.in_strips()) return;
        k_.Tiles("strip", m.live, strip_m_, [&](Span strip) {
          const Span rows = {m.start + strip.start, strip.live};
          p_.epilogue.RunStrip({{strip.live},
                                n,
                                [&](const View& view) { return BoxOf(view, batch, rows, n); },
                                strip.start},
                               Sums());
        });
      });
    });
  }

  void Step(Expr a, Expr b, Span m, Span k, const Epilogue::Tile& tile, Expr first, Expr last) {
    const Span n = tile.columns;
    const Expr some = sym::Lt(k_.Int(0), p_.k);
    k_.Dispatch();
    k_.If(some, [&] {
      k_.Load(
          p_.a, k_.At(a_), a + m.start * p_.a_m + k.start * p_.a_k,
          {{m.live, p_.a_m, k.live * p_.a.element()}, {k.live, p_.a_k, k_.Int(p_.a.element())}});
      for (size_t part = 0; part < parts_; ++part)
        LoadWeight(k_, p_.b, b, quantised() ? raw_[part] : b_[part],
                   {p_.epilogue.columns()[part] + n.start, n.live}, k);
    });
    k_.If(last, [&] { p_.epilogue.LoadVectors(n); });
    k_.BarrierLoads();
    const std::vector<Place> sums = Sums();
    for (size_t part = 0; part < parts_; ++part) {
      k_.If(some, [&] {
        const Place weight = k_.At(b_[part]);
        if (quantised()) k_.Compute(dequantise_, {k.live, n.live}, {weight, k_.At(raw_[part])});
        k_.Compute(multiply_, {k_.Int(1), m.live, k.live, n.live}, {sums[part], k_.At(a_), weight},
                   {first});
      });
      k_.If(sym::Not(some), [&] {  // nothing was loaded
        k_.Compute(multiply_, {k_.Int(1), m.live, k_.Int(0), n.live}, {sums[part]}, {k_.Int(1)});
      });
    }
    k_.If(last, [&] { p_.epilogue.FinishSums(tile, sums); });
    k_.BarrierTile();
  }

  std::vector<Place> Sums() const {
    std::vector<Place> places;
    for (uint32_t buffer : c_) places.push_back(k_.At(buffer));
    return places;
  }

  const Lowering& l_;
  KernelBuilder& k_;
  Product p_;
  const size_t parts_;
  std::vector<TileSize> sizes_;  // by variant
  Expr tile_m_, tile_k_, tile_n_, strip_m_;
  uint32_t a_ = 0;
  std::vector<uint32_t> b_, c_, raw_;  // by part
  uint32_t multiply_ = 0, dequantise_ = 0;
};

}  // namespace

Status LowerProduct(const Lowering& l, KernelBuilder& k, Product product) {
  return ProductLowering(l, k, std::move(product)).Run();
}

int64_t LongestRow(const Target& target, const Fusion& fusion) {
  if (target.forced_tile > 0) return target.forced_tile;
  // What a column takes of the scratchpad: two versions of b, of c and of c rounded; and what strips take of it.
  const int64_t rows = target.array_rows, parts = static_cast<int64_t>(fusion.columns.size());
  const int64_t column = parts * 2 * (rows * 4 + rows * 4 + rows * 2);
  int64_t longest = 8 * target.array_cols, strips = 0, vectors = 0;
  for (const FusedStage& stage : fusion.stages) {
    strips += static_cast<int64_t>(SizeOf(stage.step->outputs[0].dtype));
    for (size_t i = 0; i < stage.part.size(); ++i)
      if (stage.part[i] == kNotATile && stage.step->inputs[i].storage != plan::kNoStorage)
        (stage.stage.whole_rows ? vectors : strips) +=
            static_cast<int64_t>(SizeOf(stage.step->inputs[i].dtype));
  }
  const auto bytes = [&](int64_t n) {
    return n * (column + 2 * vectors) + 8 * rows * rows +
           2 * strips * n * std::max<int64_t>(1, rows / 32);
  };
  while (longest > kPanelRows && bytes(longest) > target.scratchpad_bytes) longest /= 2;
  return longest;
}

}  // namespace liveshape::npu
