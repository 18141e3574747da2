#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"
#include "ops/linear/webgpu_packed.h"

namespace liveshape::webgpu {
namespace {

// One invocation's share of the tiles: loads first, all on their way together, then what becomes of them. `AT` stands for
// the first row of K. Rows beyond the input and panels beyond the weight repeat the last ones: nobody stores their sums.
struct Share { std::string declare, fetch, put; };

// Number i of `count` vectors or words, the n-th of an invocation; those of the last round may be fewer.
template <typename F>
void ForEach(int64_t count, int64_t threads, Share& share, F each) {
  for (int64_t n = 0; n * threads < count; ++n) {
    const bool whole = (n + 1) * threads <= count;
    if (!whole) share.put += fmt::format("    if (lane < {}u) {{\n", count - n * threads);
    each(n, fmt::format("(lane + {}u)", n * threads));
    if (!whole) share.put += "    }\n";
  }
}

// Vectors of a row of the input, which become a column of tile_a: neighbours have neighbouring rows, so that what they
// put lies beside each other.
void AddLeft(DType dtype, const PackedWeight& w, Tile tile, Share& share) {
  const int64_t per = PerVector(dtype);
  ForEach(
      tile.m * tile.depth / per, tile.invocations(), share, [&](int64_t n, const std::string& i) {
        share.declare += fmt::format(
            "  let a_m{0} = {1} % TILE_M;\n  let a_k{0} = {1} / TILE_M * {2}u;\n"
            "  let a_row{0} = min(m0 + a_m{0}, p.m - 1u);\n  var a{0} = vec4<u32>(0u);\n",
            n, i, per);
        share.fetch +=
            fmt::format("    a{0} = row_vector(a_row{0}, {1});\n", n,
                        w.cols % tile.depth == 0 ? fmt::format("AT + a_k{}", n)
                                                 : fmt::format("min(AT + a_k{}, K - 1u)", n));
        if (w.cols % tile.depth != 0)
          share.fetch += fmt::format("    if (AT + a_k{0} >= K) {{ a{0} = vec4<u32>(0u); }}\n", n);
        for (int64_t e = 0; e < per; ++e)
          share.put += fmt::format(
              "    tile_a[((a_k{0} + {1}u) * TILE_M + a_m{0}) / 4u][a_m{0} % 4u] = {2}.{3};\n", n,
              e, Quad(dtype, fmt::format("a{}", n), e / 4), "xyzw"[e % 4]);
      });
}

// A vector of words is 4 or 8 columns at one k.
void AddPlainRight(const PackedWeight& w, Tile tile, Share& share) {
  ForEach(
      tile.n * w.parts * tile.depth / 16, tile.invocations(), share,
      [&](int64_t n, const std::string& i) {
        share.declare += fmt::format(
            "  let b_k{0} = {1} / {2}u % DEPTH;\n"
            "  let b_panel{0} = min(n0 / 16u + {1} / {3}u, PANELS - 1u);\n"
            "  var b{0} = vec4<u32>(0u);\n",
            n, i, w.parts, tile.depth * w.parts);
        share.fetch += fmt::format(
            "    b{0} = WEIGHT((b_panel{0} * K + {2}) * {1}u + {3} % {1}u);\n", n, w.parts,
            w.cols % tile.depth == 0 ? fmt::format("AT + b_k{}", n)
                                     : fmt::format("min(AT + b_k{}, K - 1u)", n),
            i);
        for (int64_t q = 0; q < w.quads; ++q)
          share.put += fmt::format(
              "    tile_b[b_k{0} * PITCH_B + {1} / {2}u * 4u + {1} % {3}u * {4}u + {5}u] = {6};\n",
              n, i, tile.depth * w.parts, w.parts, w.quads, q,
              Quad(w.dtype, fmt::format("b{}", n), q));
      });
}

// A word is 4 or 8 consecutive k of one column. Groups are whole: K is a multiple of 32.
void AddQuantisedRight(const PackedWeight& w, Tile tile, Share& share) {
  const int64_t per = w.per_word();
  ForEach(
      tile.n * tile.depth / per, tile.invocations(), share, [&](int64_t n, const std::string& i) {
        share.declare += fmt::format(
            "  let b_n{0} = {1} % TILE_N;\n  let b_k{0} = {1} / TILE_N * {2}u;\n"
            "  let b_panel{0} = min((n0 + b_n{0}) / 16u, PANELS - 1u);\n"
            "  var b{0} = 0u;\n  var b_scale{0} = 0u;\n",
            n, i, per);
        share.fetch += fmt::format(
            "    let block{0} = (b_panel{0} * {1}u + AT / 32u) * {2}u;\n"
            "    b_scale{0} = WEIGHT(block{0} + b_n{0} % 16u / 2u);\n"
            "    b{0} = WEIGHT(block{0} + 8u + (AT % 32u + b_k{0}) / {3}u * 16u + b_n{0} % 16u);\n",
            n, w.groups(), w.block_vectors() * 4, per);
        share.put += fmt::format(
            "    let scale{0} = unpack2x16float(b_scale{0} >> (16u * (b_n{0} % 2u))).x;\n", n);
        for (int64_t e = 0; e < per; ++e)
          share.put += fmt::format(
              "    tile_b[(b_k{0} + {1}u) * PITCH_B + b_n{0} / 4u][b_n{0} % 4u] =\n"
              "        (f32(extractBits(b{0}, {2}u, {3}u)) - {4}.0) * scale{0};\n",
              n, e, e * w.bits, w.bits, 1 << (w.bits - 1));
      });
}

// Each team has its share of the depth.
std::string Multiply(Tile tile) {
  std::string text;
  for (int64_t k = 0; k < tile.depth / tile.splits; ++k) {
    text += fmt::format(
        "    {{\n      let left0 = tile_a[left_at_team + {0}u];\n"
        "      let left1 = tile_a[left_at_team + {1}u];\n",
        k * tile.m / 4, k * tile.m / 4 + tile.m / 8);
    for (int64_t j = 0; j < tile.columns / 4; ++j)
      text += fmt::format("      let right{} = tile_b[right_at_team + {}u];\n", j,
                          k * (tile.n / 4 + 1) + j * tile.n / tile.columns);
    for (int r = 0; r < 8; ++r)
      for (int64_t j = 0; j < tile.columns / 4; ++j)
        text +=
            fmt::format("      s{0}_{1} += left{2}.{3} * right{1};\n", r, j, r / 4, "xyzw"[r % 4]);
    text += "    }\n";
  }
  return text;
}

// The second team's sums go to the first through tile_a, as many at a time as it holds.
std::string AddTeams(Tile tile) {
  std::string text;
  const int64_t quads = tile.columns / 4,
                rows = std::max<int64_t>(1, tile.m * tile.depth / 4 / (tile.team() * quads));
  for (int64_t r0 = 0; tile.splits > 1 && r0 < 8; r0 += rows) {
    std::string put, add;
    for (int64_t r = r0; r < std::min<int64_t>(8, r0 + rows); ++r)
      for (int64_t j = 0; j < quads; ++j) {
        const int64_t at = ((r - r0) * quads + j) * tile.team();
        put += fmt::format("    tile_a[{}u + lane % TEAM] = s{}_{};\n", at, r, j);
        add += fmt::format("    s{1}_{2} += tile_a[{0}u + lane];\n", at, r, j);
      }
    text += "  if (team == 1u) {\n" + put + "  }\n  workgroupBarrier();\n  if (team == 0u) {\n" +
            add + "  }\n  workgroupBarrier();\n";
  }
  return text + "  if (team > 0u) { return; }\n";
}

}  // namespace

Dispatch PanelGemm(const Lowering& l, const PanelProduct& product, Tile tile) {
  const PackedWeight w = PackedOf(l, product);
  const DType dtype = l.out(0).dtype;
  sym::Table& table = l.table();
  Dispatch d = BeginProduct(l, product, w);
  d.groups = sym::CeilDiv(product.m, table.Int(tile.m)) * ((w.rows + tile.n - 1) / tile.n);
  d.body += fmt::format(
      "const PANELS = {}u;\nconst TILE_M = {}u;\nconst TILE_N = {}u;\nconst THREADS = {}u;\n"
      "const TEAM = {}u;\nconst LANES_ACROSS = {}u;\nconst PITCH_B = {}u;\nconst DEPTH = {}u;\n"
      "const TEAM_DEPTH = {}u;\n",
      w.panels(), tile.m, tile.n, tile.invocations(), tile.team(), tile.n / tile.columns,
      tile.n / 4 + 1, tile.depth, tile.depth / tile.splits);
  d.body += VectorFunction(l, "row_vector", "m: u32, k: u32", "p.x_offset + m * K + k", product.x,
                           w.cols);
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
  AddLeft(dtype, w, tile, share);
  w.bits ? AddQuantisedRight(w, tile, share) : AddPlainRight(w, tile, share);
  std::string store;
  for (int r = 0; r < 8; ++r)
    for (int64_t j = 0; j < tile.columns / 4; ++j) {
      share.declare += fmt::format("  var s{}_{} = vec4<f32>(0.0);\n", r, j);
      store += fmt::format(
          "  put_row(m0 + {0}u * (TILE_M / 2u) + row * 4u + {1}u, n0 + ({2}u * LANES_ACROSS + col) "
          "* 4u, "
          "s{3}_{2});\n",
          r / 4, r % 4, j, r);
    }
  const auto fetch = [&](const char* at) {
    std::string text = share.fetch;
    Replace(text, "AT ", std::string(at) + " ");
    return text;
  };
  std::string body = wgsl::kGemmPanels;
  Replace(body, "@DECLARE@", share.declare);
  Replace(body, "@FETCH_FIRST@", "  {\n" + fetch("0u") + "  }\n");
  Replace(body, "@PUT@", share.put);
  Replace(body, "@FETCH_NEXT@", fetch("next"));
  Replace(body, "@MULTIPLY@", Multiply(tile));
  Replace(body, "@STORE@", AddTeams(tile) + store);
  d.body += body;
  Replace(d.body, "WEIGHT", fmt::format("in{}_{}", product.weight, w.bits ? "word" : "vec4"));
  return d;
}

}  // namespace liveshape::webgpu
