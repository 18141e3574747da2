#include "ops/linear/webgpu_packed.h"

#include <bit>

#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"

namespace liveshape::webgpu {
namespace {

constexpr int64_t kChunk = 2048;  // of K in workgroup memory: 8 KB of the 16 that every device has

std::string Rounded(DType dtype, const std::string& value) {
  if (dtype == DType::kF32) return value;
  return fmt::format("{}({})", dtype == DType::kF16 ? "round_f16" : "round_bf16", value);
}

// How many loads a lane has on the way at once: memory answers after hundreds of cycles. As many as K divides into.
int64_t LoadsAtOnce(const PackedWeight& w, int64_t span) {
  const int64_t chunk = std::min(w.cols, kChunk);
  for (int64_t n : {4, 2})
    if (chunk % (n * span) == 0 && w.cols % chunk % (n * span) == 0) return n;
  return 1;
}

// Load u of a lane, at i<u>: of plain panels 4 or 8 columns at one k, of quantised ones 4 columns at 4 or 8 k.
std::string LoadWeight(const PackedWeight& w, int64_t u, size_t j, int64_t panel) {
  if (w.bits == 0)
    return fmt::format(
        "    let w{0}{1} = WEIGHT(((panel + {2}u) * K + k0 + i{0}) * {3}u + lane % {3}u);\n", u, j,
        panel, w.parts);
  const int64_t words = 32 / w.per_word();  // of a group
  return fmt::format(
      "    let block{0}{1} = ((panel + {2}u) * {3}u + k0 / 32u + i{0} / {5}u) * {4}u;\n"
      "    let w{0}{1} = WEIGHT(block{0}{1} + 2u + i{0} % {5}u * 4u + lane % 4u);\n"
      "    let f{0}{1} = WEIGHT(block{0}{1} + lane % 4u / 2u);\n",
      u, j, panel, w.groups(), w.block_vectors(), words);
}

std::string AddLoaded(const PackedWeight& w, int64_t u, size_t j) {
  if (w.bits == 0 && w.quads == 1)
    return fmt::format("    sum{1}0 += a{0} * bitcast<vec4<f32>>(w{0}{1});\n", u, j);
  if (w.bits == 0)
    return fmt::format(
        "    sum{1}0 += a{0} * vec4<f32>(unpack_pair(w{0}{1}.x), unpack_pair(w{0}{1}.y));\n"
        "    sum{1}1 += a{0} * vec4<f32>(unpack_pair(w{0}{1}.z), unpack_pair(w{0}{1}.w));\n",
        u, j);
  std::string codes;
  for (char c : std::string_view("xyzw"))
    codes += fmt::format("{}codes(w{}{}.{}, a{}{})", c == 'x' ? "" : ", ", u, j, c, u,
                         w.bits == 4 ? fmt::format(", c{}", u) : "");
  return fmt::format(
      "    let g{0}{1} = select(f{0}{1}.zw, f{0}{1}.xy, lane % 2u == 0u);\n"
      "    sum{1}0 += vec4<f32>(unpack2x16float(g{0}{1}.x), unpack2x16float(g{0}{1}.y)) *\n"
      "               (vec4<f32>({2}) - zero{0});\n",
      u, j, codes);
}

// What a lane has of the input beside load u. The code of q = 0 is taken off once for all columns.
std::string LoadInput(const PackedWeight& w, int64_t u) {
  if (w.bits == 0) return fmt::format("    let a{0} = input_chunk[i{0}];\n", u);
  if (w.bits == 8)
    return fmt::format(
        "    let a{0} = input_chunk[i{0}];\n"
        "    let zero{0} = 128.0 * dot(a{0}, vec4<f32>(1.0));\n",
        u);
  return fmt::format(
      "    let a{0} = input_chunk[2u * i{0}];\n"
      "    let c{0} = input_chunk[2u * i{0} + 1u];\n"
      "    let zero{0} = 8.0 * dot(a{0} + c{0}, vec4<f32>(1.0));\n",
      u);
}

std::string AddProducts(const PackedWeight& w, const PanelProduct& product, int64_t lanes) {
  std::string text;
  const size_t results = product.joined.size();
  for (size_t j = 0; j < results; ++j)
    for (int64_t q = 0; q < w.quads; ++q)
      text += fmt::format("var<private> sum{}{}: vec4<f32>;\n", j, q);
  const int64_t each = w.bits ? w.per_word() : 1, beside = lanes / w.parts;
  const int64_t loads = LoadsAtOnce(w, beside * each);
  text += fmt::format(
      "fn add_products(panel: u32, lane: u32, k0: u32) {{\n"
      "  for (var i0 = lane / {}u; i0 < min(CHUNK, K - k0) / {}u; i0 += {}u) {{\n",
      w.parts, each, loads * beside);
  for (int64_t u = 0; u < loads; ++u) {
    if (u > 0) text += fmt::format("    let i{} = i0 + {}u;\n", u, u * beside);
    for (size_t j = 0; j < results; ++j) text += LoadWeight(w, u, j, product.joined[j] / 16);
  }
  for (int64_t u = 0; u < loads; ++u) {
    text += LoadInput(w, u);
    for (size_t j = 0; j < results; ++j) text += AddLoaded(w, u, j);
  }
  text += "  }\n}\nfn put_sums(j: u32, lane: u32) {\n";
  for (size_t j = 0; j < results; ++j) {
    text += fmt::format("  if (j == {}u) {{\n", j);
    for (int64_t q = 0; q < w.quads; ++q)
      text += fmt::format("    partial[lane * QUADS + {}u] = sum{}{};\n", q, j, q);
    text += "  }\n";
  }
  return text + "}\n";
}

constexpr char kCodes4[] = R"(fn codes(w: u32, a: vec4<f32>, c: vec4<f32>) -> f32 {
  let low = vec4<u32>(w, w >> 4u, w >> 8u, w >> 12u) & vec4<u32>(15u);
  let high = vec4<u32>(w >> 16u, w >> 20u, w >> 24u, w >> 28u) & vec4<u32>(15u);
  return dot(vec4<f32>(low), a) + dot(vec4<f32>(high), c);
}
)";
constexpr char kCodes8[] = R"(fn codes(w: u32, a: vec4<f32>) -> f32 {
  return dot(vec4<f32>(vec4<u32>(w, w >> 8u, w >> 16u, w >> 24u) & vec4<u32>(255u)), a);
}
)";

// The norm's own arithmetic: see rms_norm.wgsl.
std::string Norm(const PanelProduct& product, DType dtype) {
  if (!product.normed)
    return "fn norm_row(m: u32, lane: u32) {}\n"
           "fn normalised(m: u32, k: u32) -> f32 { return x(m, k); }\n";
  std::string weight = "1.0";
  if (product.norm_weight != kAbsent)
    weight = fmt::format("in{}(p.norm_offset + k)", product.norm_weight);
  return fmt::format(
      R"(var<private> row_scale: f32;
var<workgroup> squares: array<f32, LANES>;
fn norm_row(m: u32, lane: u32) {{
  var sum = 0.0;
  for (var k = lane; k < K; k += LANES) {{
    let a = x(m, k);
    sum += a * a;
  }}
  squares[lane] = sum;
  for (var step = LANES / 2u; step > 0u; step /= 2u) {{
    workgroupBarrier();
    if (lane < step) {{ squares[lane] += squares[lane + step]; }}
  }}
  workgroupBarrier();
  row_scale = 1.0 / sqrt(squares[0] / f32(K) + f32_bits({}u));
}}
fn normalised(m: u32, k: u32) -> f32 {{ return {}; }}
)",
      std::bit_cast<uint32_t>(static_cast<float>(product.epsilon)),
      Rounded(dtype, fmt::format("{} * {}", Rounded(dtype, "x(m, k) * row_scale"), weight)));
}

std::string Stage(const PackedWeight& w) {
  if (w.bits == 0)
    return R"(var<workgroup> input_chunk: array<f32, CHUNK>;
fn stage(m: u32, k0: u32, lane: u32) {
  for (var i = lane; i < min(CHUNK, K - k0); i += LANES) { input_chunk[i] = normalised(m, k0 + i); }
}
)";
  return R"(var<workgroup> input_chunk: array<vec4<f32>, CHUNK / 4u>;
fn stage(m: u32, k0: u32, lane: u32) {
  for (var i = lane; i < min(CHUNK, K - k0) / 4u; i += LANES) {
    let k = k0 + i * 4u;
    input_chunk[i] =
        vec4<f32>(normalised(m, k), normalised(m, k + 1u), normalised(m, k + 2u), normalised(m, k + 3u));
  }
}
)";
}

std::string Store(const PanelProduct& product, DType dtype) {
  std::string text;
  if (product.value.empty()) {
    text += "fn finish(m: u32, n: u32) -> f32 { return columns[n % 16u] + addend(n); }\n";
  } else {
    for (size_t j = 0; j < product.joined.size(); ++j)
      text += fmt::format("var<private> joined{}: f32;\n", j);
    text += product.value + "fn finish(m: u32, n: u32) -> f32 {\n";
    for (size_t j = 0; j < product.joined.size(); ++j)
      text += fmt::format("  joined{} = {};\n", j,
                          Rounded(dtype, fmt::format("columns[{}u + n % 16u] + addend(n + {}u)",
                                                     16 * j, product.joined[j])));
    text += "  return value(m * COLUMNS + n);\n}\n";
  }
  if (!IsHalf(dtype))
    return text + R"(fn store(m: u32, n0: u32, lane: u32) {
  let n = n0 + lane;
  if (lane < 16u && n < COLUMNS) { set_out0(m * COLUMNS + n, finish(m, n)); }
}
)";
  return text + R"(fn store(m: u32, n0: u32, lane: u32) {
  let n = n0 + lane * 2u;
  if (lane < 8u && n < COLUMNS) {
    let low = encode_out0(finish(m, n));
    set_out0_word((m * COLUMNS + n) / 2u, low | (encode_out0(finish(m, n + 1u)) << 16u));
  }
}
)";
}

}  // namespace

Dispatch PanelGemv(const Lowering& l, const PanelProduct& product) {
  const PackedWeight w = PackedOf(l, product);
  const DType dtype = l.out(0).dtype;
  const int64_t lanes =
      std::min<int64_t>(l.tuning.gemv_lanes, int64_t{l.limits.workgroup_invocations});
  const int64_t panels = (Columns(w, product) + 15) / 16;
  Dispatch d = BeginProduct(l, product, w);
  d.groups = product.m * panels;
  if (product.normed && product.norm_weight != kAbsent)
    d.params.push_back({.name = "norm_offset", .slot = l.in(product.norm_weight).offset_at});
  d.params.insert(d.params.end(), product.value_params.begin(), product.value_params.end());
  d.body += fmt::format(
      "const PANELS = {}u;\nconst LANES = {}u;\nconst PARTS = {}u;\nconst QUADS = {}u;\n"
      "const JOINED = {}u;\nconst CHUNK = {}u;\n",
      panels, lanes, w.parts, w.quads, product.joined.size(), std::min(w.cols, kChunk));
  d.body += Norm(product, dtype) + Stage(w);
  if (w.bits) d.body += w.bits == 4 ? kCodes4 : kCodes8;
  d.body += AddProducts(w, product, lanes) + Store(product, dtype) + wgsl::kGemvPanels;
  Replace(d.body, "WEIGHT", fmt::format("in{}_vec4", product.weight));
  return d;
}

}  // namespace liveshape::webgpu
