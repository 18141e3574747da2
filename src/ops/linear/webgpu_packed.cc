#include "ops/linear/webgpu_packed.h"

#include "backends/webgpu/text.h"
#include "ops/linear/quantised.h"

namespace liveshape::webgpu {

int64_t PackedWeight::groups() const { return ops::QuantGroups(cols); }

PackedWeight PackedOf(const Lowering& l, const PanelProduct& product) {
  const ir::Constant& c = *l.constant(product.weight);
  PackedWeight w;
  w.rows = c.dims[0], w.cols = c.dims[1], w.dtype = c.dtype;
  if (c.encoding == ir::Encoding::kQ8SymG32) w.bits = 8;
  if (c.encoding == ir::Encoding::kQ4SymG32) w.bits = 4;
  w.parts = w.bits == 0 && SizeOf(w.dtype) == 2 ? 2 : 4;
  w.quads = 4 / w.parts;
  return w;
}

Dispatch BeginProduct(const Lowering& l, const PanelProduct& product, const PackedWeight& w) {
  Dispatch d;
  const int64_t columns = Columns(w, product);
  d.params = {{.name = "m", .expr = product.m},
              {.name = "x_offset", .slot = l.in(product.x).offset_at}};
  d.body = fmt::format("const K = {}u;\nconst COLUMNS = {}u;\n", w.cols, columns);
  d.body += PairFunctions(w.dtype);
  d.body += fmt::format("fn x(m: u32, k: u32) -> f32 {{ return in{}(p.x_offset + m * K + k); }}\n",
                        product.x);
  if (product.bias == kAbsent) {
    d.body += "fn addend(n: u32) -> f32 { return 0.0; }\n";
  } else {
    const plan::Operand& bias = l.in(product.bias);
    d.params.push_back({.name = "bias_offset", .slot = bias.offset_at});
    d.params.push_back({.name = "bias_stride", .slot = bias.strides_at});
    d.body += fmt::format(
        "fn addend(n: u32) -> f32 {{ return in{}(p.bias_offset + n * p.bias_stride); }}\n",
        product.bias);
  }
  return d;
}

std::string VectorFunction(const Lowering& l, const char* name, const char* arguments,
                           const char* at, size_t input, int64_t length) {
  const DType dtype = l.in(input).dtype;
  const int64_t per = PerVector(dtype);
  std::string text =
      fmt::format("fn {}({}) -> vec4<u32> {{\n  let at = {};\n", name, arguments, at);
  if (length % per == 0 && HasAlignedRows(l, l.in(input), per))
    return text + fmt::format("  return in{}_vec4(at / {}u);\n}}\n", input, per);
  const auto element = [&](int64_t e) {
    return length % per == 0
               ? fmt::format("in{}(at + {}u)", input, e)
               : fmt::format("select(0.0, in{0}(at + {1}u), k + {1}u < {2}u)", input, e, length);
  };
  return text + "  return " + VectorOf(dtype, element) + ";\n}\n";
}

bool ServesPanels(const Lowering& l, const PanelProduct& product) {
  const ir::Constant* weight = l.constant(product.weight);
  if (weight == nullptr || weight->layout != ir::ConstantLayout::kPanel16) return false;
  const PackedWeight w = PackedOf(l, product);
  if (w.cols % (w.bits ? 32 : 4) != 0 || w.cols == 0) return false;
  if (IsHalf(l.out(0).dtype) && Columns(w, product) % 2 != 0) return false;
  for (int64_t offset : product.joined)
    if (offset % 16 != 0) return false;
  return product.joined.size() == 1 || Columns(w, product) % 16 == 0;
}

}  // namespace liveshape::webgpu
