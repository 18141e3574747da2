// Attention in one pass over the keys that are visible at the live shape, without a scratch of scores.
#include <bit>
#include <cstdlib>

#include "backends/webgpu/fuse.h"
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

// `fn key_product(b, g, t)`: a query by a key, four or eight elements of it at a time where they lie so.
std::string KeyProduct(DType dtype, int64_t depth) {
  const int64_t per = dtype == DType::kF32 ? 4 : 8;
  std::string text = "fn key_product(b: u32, g: u32, t: u32) -> f32 {\n  var sum = 0.0;\n";
  if (depth % per == 0) {
    text += fmt::format(
        "  let at = p.k_offset + b * p.k_s0 + g * p.k_s1 + t * p.k_s2;\n"
        "  if (at % {0}u == 0u && p.k_s3 == 1u) {{\n"
        "    for (var i = 0u; i < DEPTH / {0}u; i++) {{\n"
        "      let w = in1_vec4(at / {0}u + i);\n",
        per);
    text +=
        per == 4
            ? "      sum += dot(query[i], bitcast<vec4<f32>>(w));\n"
            : "      sum += dot(query[2u * i], vec4<f32>(unpack_pair(w.x), unpack_pair(w.y)));\n"
              "      sum += dot(query[2u * i + 1u], vec4<f32>(unpack_pair(w.z), "
              "unpack_pair(w.w)));\n";
    text += "    }\n    return sum;\n  }\n";
  }
  return text +
         "  for (var d = 0u; d < DEPTH; d++) { sum += query[d / 4u][d % 4u] * k(b, g, t, d); }\n"
         "  return sum;\n}\n";
}

// `fn value_pair(b, g, t, e)`: two neighbours of a value, which 16-bit elements have in one word.
std::string ValuePair(DType dtype, int64_t width) {
  std::string text = "fn value_pair(b: u32, g: u32, t: u32, e: u32) -> vec2<f32> {\n";
  if (dtype != DType::kF32 && width % 2 == 0)
    text +=
        "  let at = p.v_offset + b * p.v_s0 + g * p.v_s1 + t * p.v_s2 + e;\n"
        "  if (at % 2u == 0u && p.v_s3 == 1u) { return unpack_pair(in2_word(at / 2u)); }\n";
  return text +
         "  var second = 0.0;\n"
         "  if (e + 1u < WIDTH) { second = v(b, g, t, e + 1u); }\n"
         "  return vec2<f32>(v(b, g, t, e), second);\n}\n";
}

// `fn put_result(...)`: what the sums over all keys give, as the node's result.
std::string PutResult(DType dtype, int64_t width, bool rows_outside) {
  const char* place = rows_outside ? "((b * p.rows + s) * p.heads + h) * WIDTH + e"
                                   : "((b * p.heads + h) * p.rows + s) * WIDTH + e";
  std::string text = fmt::format(
      R"(fn put_result(b: u32, h: u32, s: u32, g: u32, e: u32, sum: vec2<f32>, total: f32) {{
  let at = {};
  var y = sum / total;
  if (total == 0.0) {{
    y.x = all_masked(b, g, e);
    y.y = all_masked(b, g, min(e + 1u, WIDTH - 1u));
  }}
)",
      place);
  if (dtype != DType::kF32 && width % 2 == 0)
    text += "  set_out0_word(at / 2u, (encode_out0(y.x) & 0xffffu) | (encode_out0(y.y) << 16u));\n";
  else
    text += "  set_out0(at, y.x);\n  if (e + 1u < WIDTH) { set_out0(at + 1u, y.y); }\n";
  return text + "}\n";
}

// `fn key_word(b, g, t, w)` and the like: two neighbours of 16 bits as one word, wherever they lie.
std::string Word(const char* function, const char* element, size_t input) {
  return fmt::format(R"(fn {0}_word(i0: u32, i1: u32, i2: u32, w: u32) -> u32 {{
  let at = p.{1}_offset + i0 * p.{1}_s0 + i1 * p.{1}_s1 + i2 * p.{1}_s2 + 2u * w;
  if (at % 2u == 0u && p.{1}_s3 == 1u) {{ return in{2}_word(at / 2u); }}
  return pack_pair({1}(i0, i1, i2, 2u * w), {1}(i0, i1, i2, 2u * w + 1u));
}}
)",
                     function, element, input);
}

constexpr char kPutHere[] =
    R"(fn put_pair(b: u32, h: u32, s: u32, g: u32, e: u32, group: u32, sum: vec2<f32>, total: f32,
            most: f32) {
  if (e < WIDTH) { put_result(b, h, s, g, e, sum, total); }
}
)";
constexpr char kPutInScratch[] =
    R"(fn put_pair(b: u32, h: u32, s: u32, g: u32, e: u32, group: u32, sum: vec2<f32>, total: f32,
            most: f32) {
  let at = group * SPLIT_WORDS;
  if (e == 0u) {
    set_scratch(at, total);
    set_scratch(at + 1u, most);
  }
  if (e < WIDTH) { set_scratch(at + 2u + e, sum.x); }
  if (e + 1u < WIDTH) { set_scratch(at + 3u + e, sum.y); }
}
)";

constexpr int64_t kFewRows =
    8;  // that a long context is split for: a prefill has workgroups enough

int64_t SplitWords(int64_t width) { return (width + 3) / 2 * 2; }

struct Sizes {
  Expr rows, splits;  // splits > 1 only where rows are few
  int64_t depth, width;
};

Sizes SizesOf(const ir::Graph& graph, const ir::Node& node, int64_t split_keys) {
  const ir::Dims &q = graph.type(node.inputs[0]).dims, &k = graph.type(node.inputs[1]).dims,
                 &v = graph.type(node.inputs[2]).dims;
  sym::Table& table = graph.table();
  const Expr one = table.Int(1);
  const Expr splits = sym::Max(one, sym::CeilDiv(k[2], table.Int(split_keys)));
  return {.rows = q[0] * q[1] * q[2],
          .splits = sym::Select(sym::Le(q[2], table.Int(kFewRows)), splits, one),
          .depth = q[3].value(),
          .width = v[3].value()};
}

// Everything but where the result goes.
Dispatch Common(const Lowering& l, const Sizes& sizes) {
  const ir::Dims &q = l.in_dims(0), &k = l.in_dims(1);
  Dispatch d;
  d.params = {{.name = "batch", .expr = q[0]},
              {.name = "heads", .expr = q[1]},
              {.name = "rows", .expr = q[2]},
              {.name = "groups", .expr = k[1]},
              {.name = "keys", .expr = k[2]}};
  if (l.node->Has("limit"))
    d.params.push_back({.name = "limit", .expr = l.node->Exprs("limit")[0]});
  const int64_t lanes = std::min<int64_t>(128, l.limits.workgroup_invocations);
  const int64_t pairs = (sizes.width + 1) / 2, per_lane = (pairs + lanes - 1) / lanes;
  const int64_t together = (pairs + per_lane - 1) / per_lane;  // pairs that lanes have side by side
  d.body = fmt::format(
      "const DEPTH = {}u;\nconst WIDTH = {}u;\nconst LANES = {}u;\nconst PER_LANE = {}u;\n"
      "const PAIRS = {}u;\nconst SLICES = {}u;\nconst SPLIT_WORDS = {}u;\n",
      sizes.depth, sizes.width, lanes, per_lane, together * per_lane,
      std::max<int64_t>(1, lanes / together), SplitWords(sizes.width));
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
  const DType dtype = l.out(0).dtype;
  d.body += dtype == DType::kBF16
                ? "fn unpack_pair(w: u32) -> vec2<f32> {\n"
                  "  return vec2<f32>(bitcast<f32>(w << 16u), bitcast<f32>(w & 0xffff0000u));\n}\n"
                : "fn unpack_pair(w: u32) -> vec2<f32> { return unpack2x16float(w); }\n";
  d.body += AllMasked(l.node->String("all_masked")) + Visible(l);
  return d;
}

// What the kernel of one row reads.
std::string RowReads(DType dtype, const Sizes& sizes) {
  return R"(fn query_at(b: u32, h: u32, s: u32, d: u32) -> f32 {
  if (d < DEPTH) { return q(b, h, s, d); }
  return 0.0;
}
fn query_quad(b: u32, h: u32, s: u32, d: u32) -> vec4<f32> {
  return vec4<f32>(query_at(b, h, s, d), query_at(b, h, s, d + 1u), query_at(b, h, s, d + 2u),
                   query_at(b, h, s, d + 3u));
}
)" + KeyProduct(dtype, sizes.depth) +
         ValuePair(dtype, sizes.width);
}

// Two elements a word, and rows that fit into workgroup memory beside each other.
bool TakesTiles(const Lowering& l, const Sizes& sizes) {
  return SizeOf(l.out(0).dtype) == 2 && sizes.depth % 2 == 0 && sizes.width % 2 == 0 &&
         sizes.depth <= 128 && sizes.width <= 128 && sizes.depth > 0 && sizes.width > 0;
}

std::vector<Dispatch> Routes(const Lowering& l, bool rows_outside) {
  sym::Table& table = l.table();
  const Sizes sizes = SizesOf(l.graph, *l.node, l.tuning.split_keys);
  const Expr none = table.Int(0), one = table.Int(1), whole = sym::Le(sizes.splits, one);
  Dispatch common = Common(l, sizes);
  const std::string put = PutResult(l.out(0).dtype, sizes.width, rows_outside);
  Dispatch at_once = common, split = common, merge = common;
  at_once.params.push_back({.name = "splits", .expr = one});
  at_once.params.push_back({.name = "split_keys", .expr = l.in_dims(1)[2]});
  const std::string reads = RowReads(l.out(0).dtype, sizes);
  at_once.body += reads + put + kPutHere + wgsl::kAttention;
  at_once.groups = sym::Select(whole, sizes.rows, none);
  std::vector<Dispatch> routes;
  if (TakesTiles(l, sizes)) {
    const Expr many = sym::Lt(table.Int(kFewRows), l.in_dims(0)[2]);
    Dispatch tiles = common;
    tiles.body += put + Word("query", "q", 0) + Word("key", "k", 1) + Word("value", "v", 2);
    tiles.body +=
        l.out(0).dtype == DType::kF16
            ? "fn pack_pair(a: f32, b: f32) -> u32 { return pack2x16float(vec2<f32>(a, b)); }\n"
            : "fn pack_pair(a: f32, b: f32) -> u32 { return bf16_bits(a) | (bf16_bits(b) << 16u); "
              "}\n";
    tiles.body += wgsl::kAttentionTile;
    const ir::Dims& q = l.in_dims(0);
    tiles.groups = sym::Select(many, q[0] * q[1] * sym::CeilDiv(q[2], table.Int(32)), none);
    at_once.groups = sym::Select(many, none, at_once.groups);
    routes.push_back(std::move(tiles));
  }
  routes.push_back(std::move(at_once));
  if (l.step.scratch == plan::kNoStorage) return routes;
  split.params.push_back({.name = "splits", .expr = sizes.splits});
  split.params.push_back({.name = "split_keys", .expr = table.Int(l.tuning.split_keys)});
  merge.params = split.params;
  split.body += reads + kPutInScratch + wgsl::kAttention;
  split.groups = sym::Select(whole, none, sizes.rows * sizes.splits);
  merge.body += put + wgsl::kAttentionMerge;
  merge.groups = sym::Select(whole, none, sizes.rows);
  routes.push_back(std::move(split));
  routes.push_back(std::move(merge));
  return routes;
}

Status Check(const Lowering& l) {
  if (ValueType(l.out(0).dtype) == nullptr) return NoSuchType(l.out(0).dtype);
  if (!l.in_dims(0)[3].is_int() || !l.in_dims(2)[3].is_int())
    return Unsupported("a dynamic head size on WebGPU");
  return {};
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  LS_RETURN_IF_ERROR(Check(l));
  return Routes(l, /*rows_outside=*/false);
}

// For the sums of a split context.
Expr ScratchBytes(const ir::Graph& graph, const ir::Node& node) {
  const ir::Dims& q = graph.type(node.inputs[0]).dims;
  if (!q[3].is_int() || !graph.type(node.inputs[2]).dims[3].is_int()) return {};
  static const Tuning tuning = ReadTuning(std::getenv("LIVESHAPE_WEBGPU_TUNING"));
  const Sizes sizes = SizesOf(graph, node, tuning.split_keys);
  sym::Table& table = graph.table();
  if (table.Bounds(sizes.splits).hi <= 1) return {};
  // As a product whose maximum is seen: a Select hides that long prefills are not split.
  const Expr rows = q[0] * q[1] * sym::Min(q[2], table.Int(kFewRows));
  return rows * sizes.splits * (4 * SplitWords(sizes.width));
}

// What follows is nearly always [B, H, S, D] -> [B, S, H * D]: written so at once, it needs no copy.
Result<std::optional<Fusion>> FuseReshape(const Lowering& l) {
  LS_RETURN_IF_ERROR(Check(l));
  const plan::Step* reshape = OnlyReaderOf(l, l.out(0).storage);
  if (!IsOp(l, reshape, ops::kReshape)) return std::optional<Fusion>();
  const std::vector<uint32_t> producers = l.graph.Producers();
  const uint32_t before = producers[NodeOf(l, reshape)->inputs[0]];
  if (before == ir::Graph::kNoNode) return std::optional<Fusion>();
  const ir::Node& permute = l.graph.nodes[before];
  if (permute.op != &ops::kPermute || permute.inputs[0] != l.node->outputs[0] ||
      permute.Ints("perm") != std::vector<int64_t>{0, 2, 1, 3})
    return std::optional<Fusion>();
  Fusion fusion{.steps = {&l.step, reshape}, .step = std::make_shared<plan::Step>(l.step)};
  fusion.step->outputs = reshape->outputs;
  if (!IsSafe(l, fusion)) return std::optional<Fusion>();
  const Lowering whole{l.graph, l.plan, *fusion.step, l.node, l.limits, l.features, l.tuning};
  fusion.dispatches = Routes(whole, /*rows_outside=*/true);
  return std::optional<Fusion>(std::move(fusion));
}

}  // namespace

extern const WebGpuKernel kAttentionKernel = {
    .op = &ops::kAttention, .lower = Lower, .scratch = ScratchBytes, .fuse = FuseReshape};

}  // namespace liveshape::webgpu
