#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"
#include "ops/attention/webgpu_kernels.h"

namespace liveshape::webgpu {
namespace {

constexpr int64_t kKeys = 32, kLanes = 128;

struct TileText {
  DType dtype;
  AttentionSizes sizes;
  int64_t chunk, span;  // of the depth, of the keys' values: staged at a time
  int64_t per = PerVector(dtype), pieces = per / 4;
  int64_t quads = (sizes.width + 63) / 64;

  // Vectors that the lanes bring of `rows` rows, `vectors` each: `each(n, i, guard)` for a lane's n-th, number i of all.
  template <typename F>
  static std::string ForEachVector(int64_t count, F each) {
    std::string text;
    for (int64_t n = 0; n * kLanes < count; ++n) {
      const bool whole = (n + 1) * kLanes <= count;
      if (!whole) text += fmt::format("    if (lane < {}u) {{\n", count - n * kLanes);
      text += each(n, fmt::format("(lane + {}u)", n * kLanes));
      if (!whole) text += "    }\n";
    }
    return text;
  }

  // Queries or keys from element `d0` of each on.
  std::string Fetch(const char* name, int64_t rows, int64_t d0, const std::string& t0) const {
    const bool query = name[0] == 'q';
    return ForEachVector(rows * chunk / per, [&](int64_t n, const std::string& i) {
      const std::string at =
          query ? fmt::format("query_row(b, h, min(s0 + {} % 64u, p.rows - 1u))", i)
                : fmt::format("key_row(b, g, min({} + {} % {}u, keys - 1u))", t0, i, rows);
      const std::string vector = fmt::format("{}u + {} / {}u", d0 / per, i, rows);
      std::string text = fmt::format("    {0}{1} = {0}_vector({2}, {3});\n", name, n, at, vector);
      if (d0 + chunk > sizes.depth)
        text = fmt::format(
            "    {0}{1} = vec4<u32>(0u);\n    if (({3}) * {4}u < DEPTH) {{\n  {2}    }}\n", name, n,
            text, vector, per);
      return text;
    });
  }

  // A vector's elements lie along the depth; what is staged is by depth, then by row.
  std::string PutAcross(const char* name, int64_t rows, int64_t base) const {
    return ForEachVector(rows * chunk / per, [&](int64_t n, const std::string& i) {
      std::string text = "    {\n";
      text += fmt::format("      let row = {0} % {1}u;\n      let d = {0} / {1}u * {2}u;\n", i,
                          rows, per);
      for (int64_t q = 0; q < pieces; ++q) {
        text +=
            fmt::format("      let e{} = {};\n", q, Quad(dtype, fmt::format("{}{}", name, n), q));
        for (int64_t e = 0; e < 4; ++e)
          text +=
              fmt::format("      staged[{}u + (d + {}u) * {}u + row / 4u][row % 4u] = e{}.{};\n",
                          base, 4 * q + e, rows / 4, q, "xyzw"[e]);
      }
      return text + "    }\n";
    });
  }

  std::string Dots() const {
    std::string text;
    for (int64_t d = 0; d < chunk; ++d) {
      text += fmt::format(
          "    {{\n      let q = staged[{}u + lane / 8u];\n      let k = staged[{}u + lane % "
          "8u];\n",
          d * 16, chunk * 16 + d * 8);
      for (int j = 0; j < 4; ++j) text += fmt::format("      a{} += q * k.{};\n", j, "xyzw"[j]);
      text += "    }\n";
    }
    return text;
  }

  int64_t value_vectors() const { return (sizes.width + per - 1) / per; }

  std::string FetchValues(int64_t t) const {
    return ForEachVector(span * value_vectors(), [&](int64_t n, const std::string& i) {
      return fmt::format(
          "    value{0} = value_vector(value_row(b, g, min(t0 + {1}u + {2} / {3}u, keys - 1u)), "
          "{2} % {3}u);\n",
          n, t, i, value_vectors());
    });
  }

  std::string PutValues() const {
    return ForEachVector(span * value_vectors(), [&](int64_t n, const std::string& i) {
      std::string text;
      for (int64_t q = 0; q < pieces; ++q)
        text += fmt::format("    staged[{0} / {1}u * {2}u + {0} % {1}u * {3}u + {4}u] = {5};\n", i,
                            value_vectors(), value_row(), pieces, q,
                            Quad(dtype, fmt::format("value{}", n), q));
      return text;
    });
  }
  int64_t value_row() const { return std::max(16 * quads, value_vectors() * pieces); }

  std::string Scores() const {
    std::string text;
    for (int j = 0; j < 4; ++j) text += fmt::format("    var a{} = vec4<f32>(0.0);\n", j);
    for (int64_t d0 = 0; d0 < sizes.depth; d0 += chunk) {
      text += PutAcross("query", 64, 0) + PutAcross("key", kKeys, chunk * 16);
      text += "    workgroupBarrier();\n";
      text += d0 + chunk < sizes.depth
                  ? Fetch("query", 64, d0 + chunk, "t0") + Fetch("key", kKeys, d0 + chunk, "t0")
                  : FetchValues(0);
      text += Dots() + "    workgroupBarrier();\n";
    }
    for (int j = 0; j < 4; ++j)
      text += fmt::format("    weights[(lane % 8u * 4u + {0}u) * 16u + lane / 8u] = a{0};\n", j);
    return text + PutValues();
  }

  std::string Mask() const {
    std::string text;
    for (int64_t i = 0; i < kKeys / 2; ++i)
      text += fmt::format(
          "    let at{0} = half * {1}u + {0}u;\n    var x{0} = LEAST;\n"
          "    if (t0 + at{0} < row_keys) {{ x{0} = masked(b, h, s, t0 + at{0}, weights[at{0} * "
          "16u + row / "
          "4u][row % 4u]); }}\n    row_most = max(row_most, x{0});\n",
          i, kKeys / 2);
    return text;
  }

  std::string Soften() const {
    std::string text;
    for (int64_t i = 0; i < kKeys / 2; ++i)
      text += fmt::format(
          "    x{0} = select(exp(x{0} - most), 0.0, x{0} <= LEAST);\n    sum += x{0};\n"
          "    weights[at{0} * 16u + row / 4u][row % 4u] = x{0};\n",
          i);
    return text;
  }

  std::string Mix() const {
    std::string text;
    for (int r = 0; r < 8; ++r)
      for (int64_t j = 0; j < quads; ++j)
        text += fmt::format("    o{}_{} *= {}.{};\n", r, j, r < 4 ? "low" : "high", "xyzw"[r % 4]);
    for (int64_t t0 = 0; t0 < kKeys; t0 += span) {
      // The next keys' first queries come while the last values are mixed.
      text += t0 + span < kKeys
                  ? FetchValues(t0 + span)
                  : "    if (t0 + KEYS < keys) {\n" + FetchFirst("t0 + KEYS") + "    }\n";
      for (int64_t t = 0; t < span; ++t) {
        text += fmt::format(
            "    {{\n      let p0 = weights[{0}u + lane / 16u];\n      let p1 = weights[{0}u + 8u "
            "+ lane / "
            "16u];\n",
            (t0 + t) * 16);
        for (int64_t j = 0; j < quads; ++j)
          text += fmt::format("      let v{0} = staged[{1}u + lane % 16u];\n", j,
                              t * value_row() + 16 * j);
        for (int r = 0; r < 8; ++r)
          for (int64_t j = 0; j < quads; ++j)
            text += fmt::format("      o{0}_{1} += {2}.{3} * v{1};\n", r, j, r < 4 ? "p0" : "p1",
                                "xyzw"[r % 4]);
        text += "    }\n";
      }
      if (t0 + span < kKeys)
        text += "    workgroupBarrier();\n" + PutValues() + "    workgroupBarrier();\n";
    }
    return text;
  }

  std::string FetchFirst(const std::string& t0) const {
    return Fetch("query", 64, 0, t0) + Fetch("key", kKeys, 0, t0);
  }

  std::string Declare() const {
    std::string text;
    const auto vectors = [&](const char* name, int64_t count) {
      for (int64_t n = 0; n * kLanes < count; ++n)
        text += fmt::format("  var {}{} = vec4<u32>(0u);\n", name, n);
    };
    vectors("query", 64 * chunk / per);
    vectors("key", kKeys * chunk / per);
    vectors("value", span * value_vectors());
    for (int r = 0; r < 8; ++r)
      for (int64_t j = 0; j < quads; ++j)
        text += fmt::format("  var o{}_{} = vec4<f32>(0.0);\n", r, j);
    return text;
  }

  std::string Store() const {
    std::string text;
    for (int r = 0; r < 8; ++r) {
      text += fmt::format(
          "  {{\n    let s = s0 + {0}u + lane / 16u * 4u;\n"
          "    let total = row_numbers[{1}u + lane / 16u].{2};\n    if (s < p.rows) {{\n",
          r / 4 * 32 + r % 4, r / 4 * 8, "xyzw"[r % 4]);
      for (int64_t j = 0; j < quads; ++j)
        for (int half = 0; half < 2; ++half)
          text += fmt::format(
              "      if ((lane % 16u + {1}u) * 4u + {2}u < WIDTH) {{ put_result(b, h, s, g, (lane "
              "% 16u + "
              "{1}u) * 4u + {2}u, o{0}_{3}.{4}, total); }}\n",
              r, 16 * j, 2 * half, j, half ? "zw" : "xy");
      text += "    }\n  }\n";
    }
    return text;
  }
};

}  // namespace

// Sums of wider values would not fit a lane's registers.
bool ServesTiles(const AttentionSizes& sizes) {
  return sizes.depth > 0 && sizes.width > 0 && sizes.width <= 128 && sizes.depth <= 512;
}

std::string TileKernel(const Lowering& l, const AttentionSizes& sizes) {
  const bool large = l.limits.workgroup_bytes >= 32768;
  const TileText t{l.out(0).dtype, sizes, large ? 32 : 16, large ? kKeys : 8};
  std::string body = fmt::format("const KEYS = {}u;\nconst STAGED = {}u;\n", kKeys,
                                 std::max(t.chunk * 24, t.span * t.value_row()));
  body += wgsl::kAttentionTile;
  Replace(body, "@DECLARE@", t.Declare());
  Replace(body, "@FETCH_FIRST@", t.FetchFirst("0u"));
  Replace(body, "@SCORES@", t.Scores());
  Replace(body, "@MASK@", t.Mask());
  Replace(body, "@SOFTEN@", t.Soften());
  Replace(body, "@MIX@", t.Mix());
  Replace(body, "@STORE@", t.Store());
  return body;
}

}  // namespace liveshape::webgpu
