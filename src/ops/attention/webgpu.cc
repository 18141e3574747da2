// Attention in one pass over the keys that are visible at the live shape, without a scratch of scores.
#include <bit>
#include <cstdlib>

#include "backends/webgpu/fuse.h"
#include "backends/webgpu/text.h"
#include "backends/webgpu/wgsl.h"
#include "ops/attention/webgpu_kernels.h"
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

constexpr char kPutHere[] =
    R"(fn put_pair(b: u32, h: u32, s: u32, g: u32, e: u32, group: u32, sum: vec2<f32>, total: f32,
            most: f32) {
  put_result(b, h, s, g, e, sum, total);
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
  set_scratch(at + 2u + e, sum.x);
  if (e + 1u < WIDTH) { set_scratch(at + 3u + e, sum.y); }
}
)";

// A prefill has workgroups enough; a long context of few rows is split, over so many at most.
constexpr int64_t kFewRows = 8, kMostSplits = 32;

int64_t SplitWords(int64_t width) { return (width + 3) / 2 * 2; }

struct Sizes : AttentionSizes {
  Expr rows, splits, split_keys;  // splits > 1 only where rows are few
};

// The most keys that a row sees: what lies behind a causal limit is not worth a workgroup.
Expr SeenKeys(const ir::Graph& graph, const ir::Node& node) {
  const Expr rows = graph.type(node.inputs[0]).dims[2], keys = graph.type(node.inputs[1]).dims[2];
  if (!node.Has("limit")) return keys;
  const Expr last = node.Exprs("limit")[0] + rows - graph.table().Int(1);
  return sym::Max(graph.table().Int(0), sym::Min(keys, last));
}

Sizes SizesOf(const ir::Graph& graph, const ir::Node& node, int64_t whole_keys) {
  const ir::Dims &q = graph.type(node.inputs[0]).dims, &v = graph.type(node.inputs[2]).dims;
  sym::Table& table = graph.table();
  const Expr one = table.Int(1), keys = SeenKeys(graph, node);
  const Expr block = table.Int(RowKeys(graph.type(node.outputs[0]).dtype));
  Sizes sizes{{q[3].value(), v[3].value()}, q[0] * q[1] * q[2], {}, {}};
  sizes.split_keys = block * sym::Max(one, sym::CeilDiv(keys, block * table.Int(kMostSplits)));
  const Expr split =
      sym::And(sym::Le(q[2], table.Int(kFewRows)), sym::Lt(table.Int(whole_keys), keys));
  // The minimum tells interval analysis what the quotient hides.
  const Expr splits = sym::Min(table.Int(kMostSplits), sym::CeilDiv(keys, sizes.split_keys));
  sizes.splits = sym::Select(split, splits, one);
  return sizes;
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
  d.body = fmt::format(
      "const DEPTH = {}u;\nconst WIDTH = {}u;\nconst SPLIT_WORDS = {}u;\nconst MOST_SPLITS = {}u;\n"
      // The score of a key that is not seen. One that is seen may be as low, by a mask of the least float: a row of
      // such scores is the mean of all values.
      "const LEAST = -3.4028235e38;\nconst ABOVE_LEAST = -3.4028233e38;\n",
      sizes.depth, sizes.width, SplitWords(sizes.width), kMostSplits);
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
  if (dtype != DType::kF32) d.body += PairFunctions(dtype);
  d.body += R"(fn masked(b: u32, h: u32, s: u32, t: u32, product: f32) -> f32 {
  if (!keep(b, h, s, t)) { return LEAST; }
  let score = product * scale() + bias(b, h, s, t);
  if (is_inf(score) && score < 0.0) { return LEAST; }
  return select(score, ABOVE_LEAST, score == LEAST);
}
)";
  d.body += AllMasked(l.node->String("all_masked")) + Visible(l);
  return d;
}

std::string Merge() {
  std::string body = wgsl::kAttentionMerge, declare, load, sums;
  for (int j = 0; j < 8; ++j) {
    declare += fmt::format("  var part{} = 0.0;\n", j);
    load += fmt::format(
        "    part{0} = scratch((first + min(i + {0}u, p.splits - 1u)) * SPLIT_WORDS + 2u + min(e, "
        "WIDTH - 1u));\n",
        j);
    sums += fmt::format("      sum += scales[i + {0}u] * part{0};\n", j);
  }
  Replace(body, "@LOAD_FIRST@",
          declare + "  {\n    let i = 0u;\n    let e = lane;\n" + load + "  }");
  Replace(body, "@LOAD@", load);
  Replace(body, "@ADD@", sums);
  return body;
}

std::vector<Dispatch> Routes(const Lowering& l, bool rows_outside) {
  sym::Table& table = l.table();
  const Sizes sizes = SizesOf(l.graph, *l.node, l.tuning.whole_keys);
  const Expr none = table.Int(0), one = table.Int(1), whole = sym::Le(sizes.splits, one);
  Dispatch common = Common(l, sizes);
  const std::string put = PutResult(l.out(0).dtype, sizes.width, rows_outside);
  Dispatch merge = common;
  AddVectorReads(l, sizes, common);
  Dispatch at_once = common, split = common;
  at_once.params.push_back({.name = "splits", .expr = one});
  at_once.params.push_back({.name = "split_keys", .expr = l.in_dims(1)[2]});
  const std::string row = RowKernel(l, sizes);
  at_once.body += put + kPutHere + row;
  at_once.groups = sym::Select(whole, sizes.rows, none);
  std::vector<Dispatch> routes;
  if (ServesTiles(sizes)) {
    const Expr many = sym::Lt(table.Int(kFewRows), l.in_dims(0)[2]);
    Dispatch tiles = common;
    tiles.body += put + TileKernel(l, sizes);
    const ir::Dims& q = l.in_dims(0);
    tiles.groups = sym::Select(many, q[0] * q[1] * sym::CeilDiv(q[2], table.Int(kTileRows)), none);
    at_once.groups = sym::Select(many, none, at_once.groups);
    routes.push_back(std::move(tiles));
  }
  routes.push_back(std::move(at_once));
  if (l.step.scratch == plan::kNoStorage) return routes;
  split.params.push_back({.name = "splits", .expr = sizes.splits});
  split.params.push_back({.name = "split_keys", .expr = sizes.split_keys});
  merge.params = split.params;
  split.body += kPutInScratch + row;
  split.groups = sym::Select(whole, none, sizes.rows * sizes.splits);
  merge.body += put + Merge();
  merge.groups = sym::Select(whole, none, sizes.rows);
  routes.push_back(std::move(split));
  routes.push_back(std::move(merge));
  return routes;
}

constexpr int64_t kMostWidth = 512;  // a value's vectors are shared by 128 lanes

Status Check(const Lowering& l) {
  if (ValueType(l.out(0).dtype) == nullptr) return NoSuchType(l.out(0).dtype);
  if (!l.in_dims(0)[3].is_int() || !l.in_dims(2)[3].is_int())
    return Unsupported("a dynamic head size on WebGPU");
  if (l.in_dims(2)[3].value() > kMostWidth)
    return Unsupported("heads of {} on WebGPU: at most {}", l.in_dims(2)[3].value(), kMostWidth);
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
  const Sizes sizes = SizesOf(graph, node, tuning.whole_keys);
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
  const Lowering whole{l.graph,  l.plan,     *fusion.step, l.node,
                       l.limits, l.features, l.tuning,     l.locations};
  fusion.dispatches = Routes(whole, /*rows_outside=*/true);
  return std::optional<Fusion>(std::move(fusion));
}

}  // namespace

extern const WebGpuKernel kAttentionKernel = {
    .op = &ops::kAttention, .lower = Lower, .scratch = ScratchBytes, .fuse = FuseReshape};

}  // namespace liveshape::webgpu
