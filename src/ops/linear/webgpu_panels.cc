#include "ops/linear/webgpu_panels.h"

#include <bit>

#include "backends/webgpu/wgsl.h"
#include "ops/linear/quantised.h"

namespace liveshape::webgpu {
namespace {

constexpr int64_t kChunk = 2048;  // of K in workgroup memory: 8 KB of the 16 that every device has

// How a weight lies in vectors of four words: what the shader's text depends on.
struct Packed {
  int bits = 0;  // 8 or 4: quantised; else 0
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
  int64_t parts = 4,
          quads = 1;  // lanes beside each other on 16 columns, and fours of columns each has
  int64_t panels() const { return (rows + 15) / 16; }
  int64_t groups() const { return ops::QuantGroups(cols); }
  int64_t block_vectors() const { return bits == 8 ? 34 : 18; }
  int64_t per_word() const { return 32 / bits; }
};

Packed PackedOf(const Lowering& l, const PanelProduct& product) {
  const ir::Constant& c = *l.constant(product.weight);
  Packed w;
  w.rows = c.dims[0], w.cols = c.dims[1], w.dtype = c.dtype;
  if (c.encoding == ir::Encoding::kQ8SymG32) w.bits = 8;
  if (c.encoding == ir::Encoding::kQ4SymG32) w.bits = 4;
  w.parts = w.bits == 0 && SizeOf(w.dtype) == 2 ? 2 : 4;
  w.quads = 4 / w.parts;
  return w;
}

bool IsHalf(DType dtype) { return SizeOf(dtype) == 2; }

std::string Rounded(DType dtype, const std::string& value) {
  if (dtype == DType::kF32) return value;
  return fmt::format("{}({})", dtype == DType::kF16 ? "round_f16" : "round_bf16", value);
}

// `fn unpack_pair(word) -> vec2<f32>`: two neighbours of 16 bits.
std::string UnpackPair(DType dtype) {
  return dtype == DType::kBF16
             ? "fn unpack_pair(w: u32) -> vec2<f32> {\n"
               "  return vec2<f32>(bitcast<f32>(w << 16u), bitcast<f32>(w & 0xffff0000u));\n}\n"
             : "fn unpack_pair(w: u32) -> vec2<f32> { return unpack2x16float(w); }\n";
}

int64_t Columns(const Packed& w, const PanelProduct& product) {
  return product.columns ? product.columns : w.rows;
}

// What both kernels begin with: constants, the input by element, the bias.
Dispatch Begin(const Lowering& l, const PanelProduct& product, const Packed& w) {
  Dispatch d;
  const int64_t columns = Columns(w, product);
  d.params = {{.name = "m", .expr = product.m},
              {.name = "x_offset", .slot = l.in(product.x).offset_at}};
  d.body = fmt::format("const K = {}u;\nconst COLUMNS = {}u;\n", w.cols, columns);
  d.body += UnpackPair(w.dtype);
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

// How many loads a lane has on the way at once: memory answers after hundreds of cycles. As many as K divides into.
int64_t LoadsAtOnce(const Packed& w, int64_t span) {
  const int64_t chunk = std::min(w.cols, kChunk);
  for (int64_t n : {4, 2})
    if (chunk % (n * span) == 0 && w.cols % chunk % (n * span) == 0) return n;
  return 1;
}

// Load u of a lane, at i<u>: of plain panels 4 or 8 columns at one k, of quantised ones 4 columns at 4 or 8 k.
std::string LoadWeight(const Packed& w, int64_t u, size_t j, int64_t panel) {
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

std::string AddLoaded(const Packed& w, int64_t u, size_t j) {
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
std::string LoadInput(const Packed& w, int64_t u) {
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

std::string AddProducts(const Packed& w, const PanelProduct& product, int64_t lanes) {
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

std::string Stage(const Packed& w) {
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

void Replace(std::string& text, std::string_view what, const std::string& by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// One invocation's share of the tiles: loads first, all on their way together, then what becomes of them. `AT` stands for
// the first row of K. Rows beyond the input and panels beyond the weight repeat the last ones: nobody stores their sums.
struct Share { std::string declare, fetch, put; };

// Two neighbours of a row a time; columns of tile_a are rows of the input.
void AddLeft(const Packed& w, Tile tile, Share& share) {
  const int64_t threads = tile.m * tile.n / 32, loads = tile.m * 8 / threads;
  share.declare += "  let a_k = lane % 8u * 2u;\n";
  for (int64_t n = 0; n < loads; ++n) {
    share.declare += fmt::format("  let a_m{0} = lane / 8u + {1}u;\n  var a{0} = vec2<f32>(0.0);\n",
                                 n, n * threads / 8);
    share.fetch += fmt::format("    a{0} = load_left(min(m0 + a_m{0}, p.m - 1u), {1});\n", n,
                               w.cols % 16 == 0 ? "AT + a_k" : "min(AT + a_k, K - 2u)");
    if (w.cols % 16 != 0)
      share.fetch += fmt::format("    if (AT + a_k >= K) {{ a{} = vec2<f32>(0.0); }}\n", n);
    share.put += fmt::format(
        "    tile_a[(a_k * TILE_M + a_m{0}) / 4u][a_m{0} % 4u] = a{0}.x;\n"
        "    tile_a[((a_k + 1u) * TILE_M + a_m{0}) / 4u][a_m{0} % 4u] = a{0}.y;\n",
        n);
  }
}

// A vector of words is 4 or 8 columns at one k.
void AddPlainRight(const Packed& w, Tile tile, Share& share) {
  const int64_t threads = tile.m * tile.n / 32, vectors = tile.n * w.parts;
  for (int64_t n = 0; n * threads < vectors; ++n) {
    share.declare += fmt::format(
        "  let b_i{0} = lane + {1}u;\n  let b_k{0} = b_i{0} / {2}u % 16u;\n"
        "  let b_panel{0} = min(n0 / 16u + b_i{0} / {3}u, PANELS - 1u);\n"
        "  var b{0} = vec4<u32>(0u);\n",
        n, n * threads, w.parts, 16 * w.parts);
    share.fetch += fmt::format(
        "    b{0} = WEIGHT((b_panel{0} * K + {2}) * {1}u + b_i{0} % {1}u);\n", n, w.parts,
        w.cols % 16 == 0 ? fmt::format("AT + b_k{}", n)
                         : fmt::format("min(AT + b_k{}, K - 1u)", n));
    const std::string at =
        fmt::format("(b_k{0} * TILE_N + b_i{0} / {1}u * 16u) / 4u + b_i{0} % {2}u * {3}u", n,
                    16 * w.parts, w.parts, w.quads);
    share.put += (n + 1) * threads > vectors ? fmt::format("    if (b_i{} < {}u) {{\n", n, vectors)
                                             : "    {\n";
    share.put +=
        w.quads == 1
            ? fmt::format("      tile_b[{}] = bitcast<vec4<f32>>(b{});\n    }}\n", at, n)
            : fmt::format(
                  "      let at = {0};\n"
                  "      tile_b[at] = vec4<f32>(unpack_pair(b{1}.x), unpack_pair(b{1}.y));\n"
                  "      tile_b[at + 1u] = vec4<f32>(unpack_pair(b{1}.z), unpack_pair(b{1}.w));\n"
                  "    }}\n",
                  at, n);
  }
}

// A word is 4 or 8 consecutive k of one column. Groups are whole: K is a multiple of 32.
void AddQuantisedRight(const Packed& w, Tile tile, Share& share) {
  const int64_t threads = tile.m * tile.n / 32, per = w.per_word(), words = 16 / per;
  for (int64_t n = 0; n * threads < tile.n * words; ++n) {
    share.declare += fmt::format(
        "  let b_i{0} = lane + {1}u;\n  let b_column{0} = b_i{0} % 16u;\n"
        "  let b_k{0} = b_i{0} / 16u % {2}u * {3}u;\n"
        "  let b_panel{0} = min(n0 / 16u + b_i{0} / {4}u, PANELS - 1u);\n"
        "  var b{0} = 0u;\n  var b_scale{0} = 0u;\n",
        n, n * threads, words, per, 16 * words);
    share.fetch += fmt::format(
        "    b_scale{0} = WEIGHT((b_panel{0} * {1}u + AT / 32u) * {2}u + b_column{0} / 2u);\n"
        "    b{0} = WEIGHT((b_panel{0} * {1}u + AT / 32u) * {2}u + 8u + (AT % 32u + b_k{0}) / {3}u "
        "* "
        "16u + b_column{0});\n",
        n, w.groups(), w.block_vectors() * 4, per);
    share.put += (n + 1) * threads > tile.n * words
                     ? fmt::format("    if (b_i{} < {}u) {{\n", n, tile.n * words)
                     : "    {\n";
    share.put += fmt::format(
        "      let scale = unpack2x16float(b_scale{0} >> (16u * (b_column{0} % 2u))).x;\n"
        "      let n = b_i{0} / {1}u * 16u + b_column{0};\n",
        n, 16 * words);
    for (int64_t e = 0; e < per; ++e)
      share.put += fmt::format(
          "      tile_b[((b_k{0} + {1}u) * TILE_N + n) / 4u][n % 4u] =\n"
          "          (f32(extractBits(b{0}, {2}u, {3}u)) - {4}.0) * scale;\n",
          n, e, e * w.bits, w.bits, 1 << (w.bits - 1));
    share.put += "    }\n";
  }
}

std::string Multiply() {
  std::string text;
  for (int k = 0; k < 16; ++k) {
    text += fmt::format(
        "    {{\n"
        "      let a = tile_a[{0}u * (TILE_M / 4u) + row * 2u];\n"
        "      let c = tile_a[{0}u * (TILE_M / 4u) + row * 2u + 1u];\n"
        "      let b = tile_b[{0}u * (TILE_N / 4u) + col];\n",
        k);
    for (int r = 0; r < 8; ++r)
      text += fmt::format("      s{} += {}.{} * b;\n", r, r < 4 ? 'a' : 'c', "xyzw"[r % 4]);
    text += "    }\n";
  }
  return text;
}

}  // namespace

bool ServesPanels(const Lowering& l, const PanelProduct& product) {
  const ir::Constant* weight = l.constant(product.weight);
  if (weight == nullptr || weight->layout != ir::ConstantLayout::kPanel16) return false;
  const Packed w = PackedOf(l, product);
  if (w.cols % (w.bits ? 32 : 4) != 0 || w.cols == 0) return false;
  if (IsHalf(l.out(0).dtype) && Columns(w, product) % 2 != 0) return false;
  for (int64_t offset : product.joined)
    if (offset % 16 != 0) return false;
  return product.joined.size() == 1 || Columns(w, product) % 16 == 0;
}

Dispatch PanelGemv(const Lowering& l, const PanelProduct& product) {
  const Packed w = PackedOf(l, product);
  const DType dtype = l.out(0).dtype;
  const int64_t lanes =
      std::min<int64_t>(l.tuning.gemv_lanes, int64_t{l.limits.workgroup_invocations});
  const int64_t panels = (Columns(w, product) + 15) / 16;
  Dispatch d = Begin(l, product, w);
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

Dispatch PanelGemm(const Lowering& l, const PanelProduct& product, Tile tile) {
  const Packed w = PackedOf(l, product);
  const DType dtype = l.out(0).dtype;
  sym::Table& table = l.table();
  Dispatch d = Begin(l, product, w);
  d.groups = sym::CeilDiv(product.m, table.Int(tile.m)) * ((w.rows + tile.n - 1) / tile.n);
  d.body += fmt::format(
      "const PANELS = {}u;\nconst TILE_M = {}u;\nconst TILE_N = {}u;\nconst THREADS = {}u;\n",
      w.panels(), tile.m, tile.n, tile.m * tile.n / 32);
  // Two neighbours are one word where the row begins at a word: at an offset of 0, which all dense results share.
  const bool pairs = IsHalf(dtype) && l.in(product.x).offset_at == l.out(0).offset_at;
  d.body += pairs ? fmt::format(
                        "fn load_left(m: u32, k: u32) -> vec2<f32> {{\n"
                        "  return unpack_pair(in{}_word((m * K + k) / 2u));\n}}\n",
                        product.x)
                  : "fn load_left(m: u32, k: u32) -> vec2<f32> { return vec2<f32>(x(m, k), x(m, k "
                    "+ 1u)); }\n";
  d.body += IsHalf(dtype) ? R"(fn store_pair(m: u32, n: u32, v: vec2<f32>) {
  set_out0_word((m * COLUMNS + n) / 2u,
                encode_out0(v.x + addend(n)) | (encode_out0(v.y + addend(n + 1u)) << 16u));
}
)"
                          : R"(fn store_pair(m: u32, n: u32, v: vec2<f32>) {
  set_out0(m * COLUMNS + n, v.x + addend(n));
  if (n + 1u < COLUMNS) { set_out0(m * COLUMNS + n + 1u, v.y + addend(n + 1u)); }
}
)";
  Share share;
  AddLeft(w, tile, share);
  w.bits ? AddQuantisedRight(w, tile, share) : AddPlainRight(w, tile, share);
  const auto fetch = [&](const char* at) {
    std::string text = share.fetch;
    Replace(text, "AT ", std::string(at) + " ");
    return text;
  };
  std::string body = wgsl::kGemmPanels;
  body.erase(0, body.find("var<workgroup>"));  // its words would be replaced too
  Replace(body, "  FETCH(0u)\n", share.declare + fetch("0u"));
  Replace(body, "    FETCH(next)\n", fetch("next"));
  Replace(body, "    PUT\n", share.put);
  Replace(body, "    MULTIPLY\n", Multiply());
  d.body += body;
  Replace(d.body, "WEIGHT", fmt::format("in{}_{}", product.weight, w.bits ? "word" : "vec4"));
  return d;
}

}  // namespace liveshape::webgpu
