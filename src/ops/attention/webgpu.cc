// Attention in one pass over the keys that are visible at the live shape, without a scratch of scores.
#include <bit>

#include "backends/webgpu/kernel.h"
#include "backends/webgpu/wgsl.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

// `fn name(a, b, c, d)`: an element of a rank-4 (or rank-3) operand by its indices, whatever its strides.
void AddElement(const Lowering& l, size_t input, const char* name, Dispatch& d) {
  const plan::Operand& operand = l.in(input);
  std::string arguments, place = fmt::format("p.{}_offset", name);
  d.params.push_back({.name = fmt::format("{}_offset", name), .slot = operand.offset_at});
  for (uint32_t i = 0; i < operand.rank; ++i) {
    d.params.push_back({.name = fmt::format("{}_s{}", name, i), .slot = operand.strides_at + i});
    arguments += fmt::format("{}i{}: u32", i ? ", " : "", i);
    place += fmt::format(" + i{1} * p.{0}_s{1}", name, i);
  }
  d.body += fmt::format("fn {}({}) -> {} {{ return in{}({}); }}\n", name, arguments,
                        ValueType(operand.dtype), input, place);
}

std::string AllMasked(const std::string& kind) {
  std::string value = kind == "nan" ? "return f32_bits(0x7fc00000u);" : "return 0.0;";
  if (kind == "mean")
    value = R"(
  var sum = 0.0;
  for (var t = 0u; t < p.keys; t++) { sum += v(b, g, t, e); }
  return sum / f32(p.keys);
)";
  return fmt::format("fn all_masked(b: u32, g: u32, e: u32) -> f32 {{ {} }}\n", value);
}

// How many keys a row sees before a mask is asked.
std::string Visible(const Lowering& l) {
  std::string value = "return p.keys;";
  if (l.node->Has("limit"))
    value = "return u32(clamp(bitcast<i32>(p.limit) + bitcast<i32>(s), 0, bitcast<i32>(p.keys)));";
  if (l.has(4))
    value =
        "let n = row_limit(b, h, s);\n"
        "  if (bitcast<i32>(n.y) < 0) { return 0u; }\n"
        "  return select(min(n.x, p.keys), p.keys, n.y != 0u);";
  return fmt::format("fn visible(b: u32, h: u32, s: u32) -> u32 {{\n  {}\n}}\n", value);
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  LS_RETURN_IF_ERROR(NeedF32(l));
  const ir::Dims &q = l.in_dims(0), &k = l.in_dims(1), &v = l.in_dims(2);
  if (!q[3].is_int() || !v[3].is_int()) return Unsupported("a dynamic head size on WebGPU");
  const int64_t depth = q[3].value(), width = v[3].value();
  Dispatch d;
  d.groups = q[0] * q[1] * q[2];
  d.params = {{.name = "batch", .expr = q[0]},
              {.name = "heads", .expr = q[1]},
              {.name = "rows", .expr = q[2]},
              {.name = "groups", .expr = k[1]},
              {.name = "keys", .expr = k[2]}};
  if (l.node->Has("limit"))
    d.params.push_back({.name = "limit", .expr = l.node->Exprs("limit")[0]});
  d.body = fmt::format("const DEPTH = {}u;\nconst WIDTH = {}u;\nconst WIDTH_LANES = {}u;\n", depth,
                       width, (width + 63) / 64);
  d.body += fmt::format("fn scale() -> f32 {{ return f32_bits({}u); }}\n",
                        std::bit_cast<uint32_t>(static_cast<float>(l.node->Float("scale"))));
  AddElement(l, 0, "q", d);
  AddElement(l, 1, "k", d);
  AddElement(l, 2, "v", d);
  const bool masked = l.has(3), boolean = masked && l.in(3).dtype == DType::kBool;
  if (masked) AddElement(l, 3, "mask", d);
  if (l.has(4)) AddElement(l, 4, "row_limit", d);
  d.body += fmt::format("fn keep(b: u32, h: u32, s: u32, t: u32) -> bool {{ return {}; }}\n",
                        boolean ? "mask(b, h, s, t)" : "true");
  d.body += fmt::format("fn bias(b: u32, h: u32, s: u32, t: u32) -> f32 {{ return {}; }}\n",
                        masked && !boolean ? "mask(b, h, s, t)" : "0.0");
  d.body += AllMasked(l.node->String("all_masked")) + Visible(l);
  d.body += wgsl::kAttention;
  return std::vector{std::move(d)};
}

}  // namespace

extern const WebGpuKernel kAttentionKernel = {.op = &ops::kAttention, .lower = Lower};

}  // namespace liveshape::webgpu
