#include <bit>

#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"
#include "ops/linear/webgpu_packed.h"

namespace liveshape::webgpu {
namespace {

std::string Rounded(DType dtype, const std::string& value) {
  if (dtype == DType::kF32) return value;
  return fmt::format("{}({})", dtype == DType::kF16 ? "round_f16" : "round_bf16", value);
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

// What the lanes of a workgroup do with a chunk of K.
struct GemvText {
  const PackedWeight& w;
  const PanelProduct& product;
  DType dtype;       // of the input
  int64_t subgroup;  // invocations; 0: sums go through workgroup memory
  int64_t lanes, staged_most;

  int64_t per = PerVector(dtype);
  int64_t each = w.bits ? w.per_word() : 1;  // of K, in one load of a lane
  int64_t span = lanes / w.parts * each;     // of K, in one load of all lanes
  // Registers for loads are not without end; workgroup memory neither.
  int64_t loads = std::min({(w.cols + span - 1) / span,
                            std::max<int64_t>(1, 12 / static_cast<int64_t>(product.joined.size())),
                            std::max<int64_t>(1, staged_most / span)});
  int64_t staged = loads * span;
  int64_t chunk = std::min(staged, w.cols);
  int64_t vectors = (chunk + per - 1) / per;  // of the row
  bool ragged = staged != chunk || w.cols % chunk != 0;

  std::string Declare() const {
    std::string text;
    for (int64_t u = 0; u < loads; ++u) {
      text += fmt::format("  let i{0} = lane / {1}u + {2}u;\n", u, w.parts, u * (lanes / w.parts));
      for (size_t j = 0; j < product.joined.size(); ++j) {
        text += fmt::format("  var w{}_{} = vec4<u32>(0u);\n", u, j);
        if (w.bits) text += fmt::format("  var f{}_{} = vec4<u32>(0u);\n", u, j);
      }
    }
    for (int64_t n = 0; n * lanes < vectors; ++n) {
      text += fmt::format("  var x{} = vec4<u32>(0u);\n", n);
      if (product.norm_weight != kAbsent)
        text += fmt::format("  var factor{} = vec4<u32>(0u);\n", n);
    }
    for (size_t j = 0; j < product.joined.size(); ++j)
      for (int64_t q = 0; q < w.quads; ++q)
        text += fmt::format("  var sum{}_{} = vec4<f32>(0.0);\n", j, q);
    return text + "  var row_scale = 1.0;\n";
  }

  // Of plain panels 4 or 8 columns at one k, of quantised ones 4 columns at 4 or 8 k, and the scales of 8 columns.
  std::string LoadWeights(const std::string& k0) const {
    std::string text;
    const int64_t words = 32 / each;  // of a group
    for (int64_t u = 0; u < loads; ++u)
      for (size_t j = 0; j < product.joined.size(); ++j) {
        const int64_t panel = product.joined[j] / 16;
        if (w.bits == 0) {
          const std::string k = fmt::format("{} + i{}", k0, u);
          text += fmt::format(
              "    w{0}_{1} = WEIGHT(((panel + {2}u) * K + {3}) * {4}u + lane % {4}u);\n", u, j,
              panel, ragged ? fmt::format("min({}, K - 1u)", k) : k, w.parts);
          continue;
        }
        const std::string group = fmt::format("{} / 32u + i{} / {}u", k0, u, words);
        text += fmt::format(
            "    {{\n      let block = ((panel + {2}u) * {3}u + {6}) * {4}u;\n"
            "      w{0}_{1} = WEIGHT(block + 2u + i{0} % {5}u * 4u + lane % 4u);\n"
            "      f{0}_{1} = WEIGHT(block + lane % 4u / 2u);\n    }}\n",
            u, j, panel, w.groups(), w.block_vectors(), words,
            ragged ? fmt::format("min({}, {}u)", group, w.groups() - 1) : group);
      }
    return text;
  }

  std::string LoadRow(const std::string& k0) const {
    std::string text;
    for (int64_t n = 0; n * lanes < vectors; ++n) {
      const bool whole = (n + 1) * lanes <= vectors && !ragged;
      const std::string k = fmt::format("{} + (lane + {}u) * {}u", k0, n * lanes, per);
      if (!whole)
        text +=
            fmt::format("    x{0} = vec4<u32>(0u);\n    if (lane + {1}u < {2}u && {3} < K) {{\n", n,
                        n * lanes, vectors, k);
      text += fmt::format("    x{} = row_vector(m, {});\n", n, k);
      if (product.norm_weight != kAbsent)
        text += fmt::format("    factor{} = norm_vector({});\n", n, k);
      if (!whole) text += "    }\n";
    }
    return text;
  }

  // The norm's own arithmetic: see rms_norm.wgsl.
  std::string Norm() const {
    if (!product.normed) return "";
    std::string text = "  var squares = 0.0;\n";
    if (chunk < w.cols) {
      text += "  for (var k = lane; k < K; k += LANES) { squares += x(m, k) * x(m, k); }\n";
    } else {
      for (int64_t n = 0; n * lanes < vectors; ++n)
        for (int64_t q = 0; q < per / 4; ++q)
          text += fmt::format("  {{\n    let a = {};\n    squares += dot(a, a);\n  }}\n",
                              Quad(dtype, fmt::format("x{}", n), q));
    }
    return text +
           fmt::format(
               "  row_scale = 1.0 / sqrt(sum_of_lanes(lane, squares) / f32(K) + f32_bits({}u));\n",
               std::bit_cast<uint32_t>(static_cast<float>(product.epsilon)));
  }

  std::string Stage() const {
    std::string text;
    for (int64_t n = 0; n * lanes * per < staged; ++n) {
      const bool row = n * lanes < vectors;
      if ((n + 1) * lanes * per > staged)
        text += fmt::format("    if (lane + {}u < {}u) {{\n", n * lanes, staged / per);
      for (int64_t q = 0; q < per / 4; ++q) {
        const std::string at = fmt::format("(lane + {}u) * {}u + {}u", n * lanes, per / 4, q);
        if (!row) {
          text += fmt::format("    staged[{}] = vec4<f32>(0.0);\n", at);
          continue;
        }
        const std::string a = Quad(dtype, fmt::format("x{}", n), q);
        if (!product.normed) {
          text += fmt::format("    staged[{}] = {};\n", at, a);
          continue;
        }
        const std::string factor = product.norm_weight == kAbsent
                                       ? "vec4<f32>(1.0)"
                                       : Quad(dtype, fmt::format("factor{}", n), q);
        text += fmt::format("    {{\n      let a = {} * row_scale;\n      let factor = {};\n", a,
                            factor);
        text += fmt::format("      staged[{}] = vec4<f32>(", at);
        for (char c : std::string_view("xyzw"))
          text += fmt::format(
              "{}{}", c == 'x' ? "" : ", ",
              Rounded(dtype,
                      fmt::format("{} * factor.{}", Rounded(dtype, fmt::format("a.{}", c)), c)));
        text += ");\n    }\n";
      }
      if ((n + 1) * lanes * per > staged) text += "    }\n";
    }
    return text;
  }

  std::string Multiply() const {
    std::string text;
    for (int64_t u = 0; u < loads; ++u) {
      text += ragged ? fmt::format("    if (k0 + i{} * {}u < K && i{} * {}u < CHUNK) {{\n", u, each,
                                   u, each)
                     : std::string("    {\n");
      // The code of q = 0 is taken off once for all columns.
      if (w.bits == 0)
        text += fmt::format("      let a = staged[i{0} / 4u][i{0} % 4u];\n", u);
      else if (w.bits == 8)
        text += fmt::format(
            "      let a = staged[i{}];\n      let zero = 128.0 * dot(a, vec4<f32>(1.0));\n", u);
      else
        text += fmt::format(
            "      let a = staged[2u * i{0}];\n      let c = staged[2u * i{0} + 1u];\n"
            "      let zero = 8.0 * dot(a + c, vec4<f32>(1.0));\n",
            u);
      for (size_t j = 0; j < product.joined.size(); ++j) text += AddLoaded(u, j);
      text += "    }\n";
    }
    return text;
  }

  std::string AddLoaded(int64_t u, size_t j) const {
    const std::string weight = fmt::format("w{}_{}", u, j);
    std::string text;
    if (w.bits == 0) {
      for (int64_t q = 0; q < w.quads; ++q)
        text += fmt::format("      sum{}_{} += a * {};\n", j, q, Quad(w.dtype, weight, q));
      return text;
    }
    std::string codes;
    for (char c : std::string_view("xyzw"))
      codes += fmt::format("{}codes({}.{}, a{})", c == 'x' ? "" : ", ", weight, c,
                           w.bits == 4 ? ", c" : "");
    return fmt::format(
        "      let scales{1} = select(f{0}_{1}.zw, f{0}_{1}.xy, lane % 2u == 0u);\n"
        "      sum{1}_0 += vec4<f32>(unpack2x16float(scales{1}.x), unpack2x16float(scales{1}.y)) "
        "*\n"
        "                  (vec4<f32>({2}) - zero);\n",
        u, j, codes);
  }

  std::string PutSums() const {
    std::string text;
    for (size_t j = 0; j < product.joined.size(); ++j)
      for (int64_t q = 0; q < w.quads; ++q) {
        for (int64_t d = w.parts; d < subgroup; d *= 2)
          text += fmt::format("  sum{0}_{1} += subgroupShuffleXor(sum{0}_{1}, {2}u);\n", j, q, d);
        text +=
            subgroup
                ? fmt::format(
                      "  if (lane % SUBGROUP < PARTS) {{\n    sums[(({0}u * SUBGROUPS + lane / "
                      "SUBGROUP) * PARTS + lane % SUBGROUP) * QUADS + {1}u] = sum{0}_{1};\n  }}\n",
                      j, q)
                : fmt::format("  sums[({0}u * LANES + lane) * QUADS + {1}u] = sum{0}_{1};\n", j, q);
      }
    return text;
  }
};

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
  const int64_t panels = (Columns(w, product) + 15) / 16,
                joined = static_cast<int64_t>(product.joined.size());
  int64_t lanes = std::min<int64_t>(l.tuning.gemv_lanes, int64_t{l.limits.workgroup_invocations});
  const int64_t size = l.tuning.subgroups ? l.features.subgroup_size : 0;
  const int64_t subgroup = size >= 2 * w.parts && lanes % size == 0 ? size : 0;
  // Workgroup memory holds the sums, of every lane or of every subgroup, and as much of the row as is left.
  const int64_t memory = l.limits.workgroup_bytes - 512;
  const auto sums = [&] {
    const int64_t vectors = subgroup ? lanes / subgroup * w.parts : lanes;
    return joined * (16 * w.quads * vectors + 4 * lanes);
  };
  while (lanes > std::max<int64_t>(32, subgroup) && sums() > memory / 2) lanes /= 2;
  const GemvText t{w, product, dtype, subgroup, lanes, (memory - sums()) / 4};
  Dispatch d = BeginProduct(l, product, w);
  d.groups = product.m * panels;
  if (product.normed && product.norm_weight != kAbsent) {
    d.params.push_back({.name = "norm_offset", .slot = l.in(product.norm_weight).offset_at});
    d.body += VectorFunction(l, "norm_vector", "k: u32", "p.norm_offset + k", product.norm_weight,
                             w.cols);
  }
  d.params.insert(d.params.end(), product.value_params.begin(), product.value_params.end());
  d.body += VectorFunction(l, "row_vector", "m: u32, k: u32", "p.x_offset + m * K + k", product.x,
                           w.cols);
  d.body += fmt::format(
      "const PANELS = {}u;\nconst LANES = {}u;\nconst PARTS = {}u;\nconst QUADS = {}u;\n"
      "const JOINED = {}u;\nconst CHUNK = {}u;\nvar<workgroup> staged: array<vec4<f32>, {}>;\n"
      "var<workgroup> columns: array<f32, {}>;\n",
      panels, lanes, w.parts, w.quads, joined, t.chunk, (t.staged + 3) / 4,
      std::max(16 * joined, lanes / 16));
  if (w.bits) d.body += w.bits == 4 ? kCodes4 : kCodes8;
  std::string body = Store(product, dtype);
  if (subgroup) body += fmt::format("const SUBGROUP = {}u;\n", subgroup);
  body += subgroup ? wgsl::kGemvSubgroups : wgsl::kGemvMemory;
  body += wgsl::kGemvPanels;
  Replace(
      body, "@LANE@",
      subgroup
          ? "@builtin(subgroup_id) subgroup: u32, @builtin(subgroup_invocation_id) place: u32) {\n"
            "  let lane = subgroup * SUBGROUP + place;"
          : "@builtin(local_invocation_index) lane: u32) {");
  Replace(body, "@DECLARE@", t.Declare());
  Replace(body, "@LOAD_FIRST@", "  {\n" + t.LoadWeights("0u") + t.LoadRow("0u") + "  }\n");
  Replace(body, "@NORM@", t.Norm());
  Replace(body, "@STAGE@", t.Stage());
  Replace(body, "@MULTIPLY@", t.Multiply());
  Replace(body, "@LOAD_NEXT@", t.LoadWeights("(k0 + CHUNK)") + t.LoadRow("(k0 + CHUNK)"));
  Replace(body, "@PUT_SUMS@", t.PutSums());
  Replace(body, "WEIGHT", fmt::format("in{}_vec4", product.weight));
  d.body += body;
  return d;
}

}  // namespace liveshape::webgpu
