#include <bit>

#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"
#include "ops/attention/webgpu_kernels.h"

namespace liveshape::webgpu {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

void AddVectorRead(const Lowering& l, size_t input, const char* name, const char* element,
                   int64_t length, Dispatch& d) {
  const DType dtype = l.in(input).dtype;
  const int64_t per = PerVector(dtype);
  d.body += fmt::format(
      R"(fn {0}_row(i0: u32, i1: u32, i2: u32) -> u32 {{
  return p.{1}_offset + i0 * p.{1}_s0 + i1 * p.{1}_s1 + i2 * p.{1}_s2;
}}
fn {0}_at(at: u32, e: u32) -> f32 {{
  if (e >= {2}u) {{ return 0.0; }}
  return in{3}(at + e * p.{1}_s3);
}}
fn {0}_vector(at: u32, i: u32) -> vec4<u32> {{
)",
      name, element, length, input);
  if (length % per == 0 && HasAlignedRows(l, l.in(input), per)) {
    d.body += fmt::format("  return in{}_vec4(at / {}u + i);\n}}\n", input, per);
    return;
  }
  const auto at = [&](int64_t e) { return fmt::format("{}_at(at, {}u * i + {}u)", name, per, e); };
  d.body += "  return " + VectorOf(dtype, at) + ";\n}\n";
}

}  // namespace

void AddVectorReads(const Lowering& l, const AttentionSizes& sizes, Dispatch& d) {
  AddVectorRead(l, 0, "query", "q", sizes.depth, d);
  AddVectorRead(l, 1, "key", "k", sizes.depth, d);
  AddVectorRead(l, 2, "value", "v", sizes.width, d);
}

int64_t RowKeys(DType dtype) { return 8 * PerVector(dtype); }

std::string RowKernel(const Lowering& l, const AttentionSizes& sizes) {
  const DType dtype = l.out(0).dtype;
  const int64_t per = PerVector(dtype), quads = per / 4, keys = RowKeys(dtype);
  const int64_t lanes = std::min<int64_t>(128, l.limits.workgroup_invocations);
  const int64_t vectors = CeilDiv(sizes.depth, per), columns = CeilDiv(sizes.width, per);
  // Lanes beside each other on one key: as many as its vectors divide into.
  int64_t parts = 16;
  while (vectors % parts != 0) parts /= 2;
  const int64_t chunks = vectors / parts, at_once = lanes / parts, slices = lanes / columns;
  std::string loads, partials, most, weights, score, sums, put, total;
  for (int64_t u = 0; u * at_once < keys; ++u) {
    loads += fmt::format("    let at{0} = key_row(b, g, min(t0 + key + {1}u, keys - 1u));\n", u,
                         u * at_once);
    std::string dots;
    for (int64_t c = 0; c < chunks; ++c) {
      loads +=
          fmt::format("    let k{0}_{1} = key_vector(at{0}, part * {2}u + {1}u);\n", u, c, chunks);
      for (int64_t q = 0; q < quads; ++q)
        dots += fmt::format("{}dot(query[(part * {}u + {}u) * {}u + {}u], {})",
                            dots.empty() ? "" : " + ", chunks, c, quads, q,
                            Quad(dtype, fmt::format("k{}_{}", u, c), q));
    }
    partials += fmt::format(
        "    if (key + {0}u < KEYS) {{ products[(key + {0}u) * {1}u + part] = {2}; }}\n",
        u * at_once, parts + 1, dots);
  }
  for (int64_t i = 0; i < parts; ++i)
    score += fmt::format("{}products[lane * {}u + {}u]", i ? " + " : "", parts + 1, i);
  for (int64_t i = 0; i < keys / 4; ++i)
    most += fmt::format("    block_most = max(block_most, scores[{}]);\n", i);
  for (int64_t i = 0; i * slices < keys; ++i) {
    const std::string t = fmt::format("slice + {}u", i * slices);
    loads += fmt::format(
        "    let v{0} = value_vector(value_row(b, g, min(t0 + {1}, keys - 1u)), column);\n", i, t);
    const std::string beyond = keys % slices == 0 ? "" : fmt::format(" || {} >= KEYS", t);
    weights += fmt::format(
        "    {{\n      let score = scores[min({0}, KEYS - 1u) / 4u][({0}) % 4u];\n"
        "      let weight = select(exp(score - most), 0.0, score <= LEAST{1});\n"
        "      total += weight;\n",
        t, beyond);
    for (int64_t q = 0; q < quads; ++q)
      weights +=
          fmt::format("      sum{0} += select(vec4<f32>(0.0), weight * {1}, weight != 0.0);\n", q,
                      Quad(dtype, fmt::format("v{}", i), q));
    weights += "    }\n";
  }
  std::string shrink;
  for (int64_t q = 0; q < quads; ++q) {
    sums += fmt::format("  var sum{} = vec4<f32>(0.0);\n", q);
    shrink += fmt::format("    sum{} *= shrink;\n", q);
    put += fmt::format("    mixed[lane * {}u + {}u] = sum{};\n", quads, q, q);
  }
  for (int64_t s = 0; s < slices; ++s) total += fmt::format("{}totals[{}]", s ? " + " : "", s);
  std::string body = fmt::format(
      "const LANES = {}u;\nconst KEYS = {}u;\nconst PARTS = {}u;\nconst COLUMNS = {}u;\n"
      "const SLICES = {}u;\nconst QUADS = {}u;\nconst QUERY_VECTORS = {}u;\n",
      lanes, keys, parts, columns, slices, quads, vectors);
  // What comes from a tensor has to be shown to be one number for all.
  if (l.has(4)) body += "var<workgroup> live_keys: u32;\n";
  body += wgsl::kAttention;
  Replace(body, "@SEEN@",
          l.has(4) ? "  if (lane == 0u) { live_keys = visible(b, h, s); }\n"
                     "  let visible_keys = workgroupUniformLoad(&live_keys);"
                   : "  let visible_keys = visible(b, h, s);");
  std::string query;
  for (int64_t q = 0; q < quads; ++q)
    query += fmt::format("    query[i * {}u + {}u] = {};\n", quads, q, Quad(dtype, "w", q));
  Replace(body, "@QUERY@", query);
  Replace(body, "@LOADS@", loads);
  Replace(body, "@PARTIALS@", partials);
  Replace(body, "@SCORE@", score);
  Replace(body, "@MOST@", most);
  Replace(body, "@SUMS@", sums);
  Replace(body, "@SHRINK@", shrink);
  Replace(body, "@WEIGHTS@", weights);
  Replace(body, "@PUT@", put);
  Replace(body, "@TOTAL@", total);
  return body;
}

}  // namespace liveshape::webgpu
