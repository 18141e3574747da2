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
  ProductLowering(const Lowering& l, KernelBuilder& k, const Product& p) : l_(l), k_(k), p_(p) {}

  Status Run() {
    for (DType dtype : {p_.a.dtype, p_.c.dtype})
      if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16)
        return Unsupported("a product of {} on the NPU: f32, f16 and bf16 are served", Name(dtype));
    ChooseTiles();
    AddBuffers();
    AddCodes();
    Batch(0, p_.a.offset, p_.b.view.offset, p_.c.offset);
    return {};
  }

 private:
  bool quantised() const { return p_.b.quantised(); }
  bool rounds() const { return p_.c.dtype != DType::kF32; }
  int64_t b_element() const { return p_.b.element(); }

  int64_t RawBytes(const TileSize& t) const {  // of the quantised blocks of a tile of b
    return RoundUp(t.n, kPanelRows) / kPanelRows * (RoundUp(t.k, kQuantGroup) / kQuantGroup) *
           p_.b.block_bytes();
  }
  int64_t Bytes(const TileSize& t) const {
    int64_t bytes = 2 * (t.m * t.k * p_.a.element() + t.k * t.n * b_element() + t.m * t.n * 4);
    if (p_.bias) bytes += 2 * t.n * p_.bias->element();
    if (rounds()) bytes += 2 * t.m * t.n * p_.c.element();
    if (quantised()) bytes += 2 * RawBytes(t) - t.k * t.n * b_element();  // dequantised once a tile
    return bytes;
  }

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
      TileSize large = Aligned({8 * rows, rows, 8 * cols});
      while (Bytes(large) > target.scratchpad_bytes && std::max(large.m, large.n) > kPanelRows)
        (large.m >= large.n ? large.m : large.n) /= 2;
      TileSize small = Aligned({std::min(rows, large.m), rows, 4 * cols});
      while (Bytes(small) > target.scratchpad_bytes && small.n > kPanelRows) small.n /= 2;
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
  }

  void AddBuffers() {
    const auto bytes = [&](auto of) {
      std::vector<int64_t> list;
      for (const TileSize& t : sizes_) list.push_back(of(t));
      return list;
    };
    a_ = k_.AddBuffer("a", bytes([&](auto& t) { return t.m * t.k * p_.a.element(); }));
    if (quantised()) raw_ = k_.AddBuffer("b_raw", bytes([&](auto& t) { return RawBytes(t); }));
    b_ = k_.AddBuffer("b", bytes([&](auto& t) { return t.k * t.n * b_element(); }),
                      quantised() ? 1 : 2);
    c_ = k_.AddBuffer("c", bytes([&](auto& t) { return t.m * t.n * 4; }), 2, Turn::kItem);
    if (p_.bias)
      bias_ = k_.AddBuffer("bias", bytes([&](auto& t) { return t.n * p_.bias->element(); }), 2,
                           Turn::kItem);
    if (rounds())
      out_ = k_.AddBuffer("out", bytes([&](auto& t) { return t.m * t.n * p_.c.element(); }), 2,
                          Turn::kItem);
  }

  void AddCodes() {
    multiply_ = k_.AddCode({.name = "matmul", .unit = Unit::kArray},
                           MultiplyValues(p_.a.dtype, quantised() ? DType::kF32 : p_.b.view.dtype));
    Code simple{.name = "bias"};
    simple.per_element[VectorClass::kSimple] = 1;
    if (p_.bias) add_bias_ = k_.AddCode(simple, BiasValues(p_.bias->dtype));
    simple.name = "round";
    if (rounds()) round_ = k_.AddCode(simple, RoundValues(p_.c.dtype));
    if (quantised()) {
      Code code{.name = "dequantise"};
      code.per_element[VectorClass::kSimple] = 3;  // shift and mask, convert and subtract, scale
      dequantise_ = k_.AddCode(code, DequantiseValues(p_.b.form == WeightForm::kQ8Panel16 ? 8 : 4));
    }
  }

  void Batch(size_t dim, Expr a, Expr b, Expr c) {
    if (dim == p_.batch.size()) return Tiles(a, b, c);
    k_.Loop(fmt::format("batch{}", dim), p_.batch[dim], [&](Expr i) {
      Batch(dim + 1, k_.Let("a_at", a + i * p_.a_batch[dim]),
            k_.Let("b_at", b + i * p_.b_batch[dim]), k_.Let("c_at", c + i * p_.c_batch[dim]));
    });
  }

  void Tiles(Expr a, Expr b, Expr c) {
    k_.Tiles("m", p_.m, tile_m_, [&](Span m) {
      k_.Tiles("n", p_.n, tile_n_, [&](Span n) {
        k_.Item();
        // An empty sum is still a tile: of zeros.
        const Expr steps = k_.Let("k_count", sym::Max(k_.Int(1), sym::CeilDiv(p_.k, tile_k_)));
        k_.Loop("k", steps, [&](Expr i) {
          const Expr start = k_.Let("k_start", i * tile_k_);
          const Span k = {start, k_.Let("k_live", sym::Min(tile_k_, p_.k - start))};
          Step(a, b, c, m, n, k, sym::Eq(i, k_.Int(0)), sym::Eq(i, steps - 1));
        });
      });
    });
  }

  void Step(Expr a, Expr b, Expr c, Span m, Span n, Span k, Expr first, Expr last) {
    k_.Dispatch();
    k_.If(sym::Lt(k_.Int(0), p_.k), [&] {
      k_.Load(
          p_.a, k_.At(a_), a + m.start * p_.a_m + k.start * p_.a_k,
          {{m.live, p_.a_m, k.live * p_.a.element()}, {k.live, p_.a_k, k_.Int(p_.a.element())}});
      LoadWeight(k_, p_.b, b, quantised() ? raw_ : b_, n, k);
    });
    if (p_.bias)
      k_.If(last, [&] {
        k_.Load(*p_.bias, k_.At(bias_), p_.bias->offset + n.start * p_.bias->strides[0],
                {{n.live, p_.bias->strides[0], k_.Int(p_.bias->element())}});
      });
    k_.BarrierLoads();
    const Expr some = sym::Lt(k_.Int(0), p_.k);
    k_.If(some, [&] {
      if (quantised()) k_.Compute(dequantise_, {k.live, n.live}, {k_.At(b_), k_.At(raw_)});
      k_.Compute(multiply_, {k_.Int(1), m.live, k.live, n.live}, {k_.At(c_), k_.At(a_), k_.At(b_)},
                 {first});
    });
    k_.If(sym::Not(some), [&] {  // nothing was loaded
      k_.Compute(multiply_, {k_.Int(1), m.live, k_.Int(0), n.live}, {k_.At(c_)}, {k_.Int(1)});
    });
    k_.If(last, [&] {
      if (p_.bias) k_.Compute(add_bias_, {m.live, n.live}, {k_.At(c_), k_.At(bias_)});
      if (rounds()) k_.Compute(round_, {m.live, n.live}, {k_.At(out_), k_.At(c_)});
      k_.Store(
          p_.c, k_.At(rounds() ? out_ : c_), c + m.start * p_.c_m + n.start * p_.c_n,
          {{m.live, p_.c_m, n.live * p_.c.element()}, {n.live, p_.c_n, k_.Int(p_.c.element())}});
    });
    k_.BarrierTile();
  }

  const Lowering& l_;
  KernelBuilder& k_;
  const Product& p_;
  std::vector<TileSize> sizes_;  // by variant
  Expr tile_m_, tile_k_, tile_n_;
  uint32_t a_ = 0, b_ = 0, c_ = 0, raw_ = 0, bias_ = 0, out_ = 0;
  uint32_t multiply_ = 0, add_bias_ = 0, round_ = 0, dequantise_ = 0;
};

}  // namespace

Status LowerProduct(const Lowering& l, KernelBuilder& k, const Product& product) {
  return ProductLowering(l, k, product).Run();
}

}  // namespace liveshape::npu
