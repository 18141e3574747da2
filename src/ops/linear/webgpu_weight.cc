#include "ops/linear/webgpu_weight.h"

#include "ops/linear/quantised.h"

namespace liveshape::webgpu {
namespace {

// The block of ops/linear/quantised.h in words.
template <int bits>
std::string Quantised(size_t input, int64_t groups) {
  using Block = ops::QuantBlock<bits>;
  constexpr int kScaleWords = ops::kPanelRows / 2;
  return fmt::format(R"(fn weight(row: u32, col: u32) -> f32 {{
  let block = (row / 16u * {groups}u + col / 32u) * {words}u;
  let scale = unpack2x16float(in{input}_word(block + (row % 16u) / 2u) >> (16u * (row % 2u))).x;
  let k = col % 32u;
  let word = in{input}_word(block + {scales}u + k / {per}u * 16u + row % 16u);
  return f32(i32(extractBits(word, k % {per}u * {bits}u, {bits}u)) - {zero}) * scale;
}}
)",
                     fmt::arg("groups", groups), fmt::arg("words", sizeof(Block) / 4),
                     fmt::arg("input", input), fmt::arg("scales", kScaleWords),
                     fmt::arg("per", Block::kPerWord), fmt::arg("bits", bits),
                     fmt::arg("zero", Block::kZero));
}

}  // namespace

void AddWeight(const Lowering& l, size_t input, Dispatch& d) {
  const ir::Constant* constant = l.constant(input);
  if (constant && constant->encoding != ir::Encoding::kPlain) {
    const int64_t groups = ops::QuantGroups(constant->dims[1]);
    d.body += constant->encoding == ir::Encoding::kQ8SymG32 ? Quantised<8>(input, groups)
                                                            : Quantised<4>(input, groups);
  } else if (constant && constant->layout == ir::ConstantLayout::kPanel16) {
    d.body += fmt::format(
        "fn weight(row: u32, col: u32) -> f32 {{\n"
        "  return in{}((row / 16u * {}u + col) * 16u + row % 16u);\n}}\n",
        input, constant->dims[1]);
  } else {
    const plan::Operand& w = l.in(input);
    d.params.push_back({.name = "weight_offset", .slot = w.offset_at});
    d.params.push_back({.name = "weight_row", .slot = w.strides_at});
    d.params.push_back({.name = "weight_col", .slot = w.strides_at + 1});
    d.body += fmt::format(
        "fn weight(row: u32, col: u32) -> f32 {{\n"
        "  return in{}(p.weight_offset + row * p.weight_row + col * p.weight_col);\n}}\n",
        input);
  }
}

}  // namespace liveshape::webgpu
