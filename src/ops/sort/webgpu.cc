// Short runs are sorted by counting, then merged two by two: the number of passes follows the live length, as passes
// that it does not need have no workgroups. Keys are unsigned integers that compare as the elements do, as on the CPU.
#include "backends/webgpu/kernel.h"
#include "backends/webgpu/wgsl.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

constexpr int64_t kRun = 64;  // a pass of counting costs as much as a merge of some thousands

// Keys ascend as values do; every NaN is the greatest, and -0 is 0.
const char* KeyOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return R"(  var bits = bitcast<u32>(v);
  if ((bits & 0x7fffffffu) == 0u) { bits = 0u; }
  var k = vec2<u32>(select(bits | 0x80000000u, ~bits, (bits >> 31u) != 0u), 0u);
  if (is_nan(v)) { k.x = 0xffffffffu; }
)";
    case DType::kI64: return "  var k = vec2<u32>(v.x, v.y ^ 0x80000000u);\n";
    case DType::kBool: return "  var k = vec2<u32>(select(0u, 1u, v), 0u);\n";
    default: return "  var k = vec2<u32>(bitcast<u32>(v) ^ 0x80000000u, 0u);\n";
  }
}

struct Lines {
  Expr count, length, inner;
  Lines(const ir::Graph& graph, const ir::Node& node) {
    const ir::Dims& dims = graph.type(node.inputs[0]).dims;
    const auto axis = node.Int("dim");
    const auto product = [&](auto begin, auto end) {
      return sym::Product(graph.table(), ir::Dims(begin, end));
    };
    length = dims[static_cast<size_t>(axis)];
    inner = product(dims.begin() + axis + 1, dims.end());
    count = product(dims.begin(), dims.begin() + axis) * inner;
  }
};

// `fn at(line, k)`: an element of x; `fn key(line, k)`: its order.
void AddKeys(const Lowering& l, Dispatch& d) {
  const auto axis = static_cast<uint32_t>(l.node->Int("dim"));
  AddStrides(l.in(0), "x", d);
  d.body += "fn at(line: u32, k: u32) -> u32 {\n  var rest = line;\n";
  d.body += fmt::format("  var at = p.x_offset + k * p.x_s{};\n", axis);
  for (uint32_t k = l.in(0).rank; k-- > 0;)
    if (k != axis)
      d.body += fmt::format("  at += rest % p.x_d{0} * p.x_s{0};\n  rest /= p.x_d{0};\n", k);
  d.body += fmt::format(R"(  return at;
}}
fn key(line: u32, k_: u32) -> vec2<u32> {{
  let v = in0(at(line, k_));
{}  return {};
}}
)",
                        KeyOf(l.in(0).dtype), l.node->Int("descending") ? "~k" : "k");
}

// One invocation an element of x.
Dispatch Pass(const Lowering& l, const Dispatch& keys, const Lines& lines, const char* step,
              Expr width, Expr from, Expr to, Expr needed) {
  Dispatch d = keys;
  const Expr total = lines.count * lines.length;
  for (auto [name, expr] : {std::pair("length", lines.length),
                            {"total", total},
                            {"width", width},
                            {"from_half", from},
                            {"to", to}})
    d.params.push_back({.name = name, .expr = expr});
  d.body += fmt::format(R"({}
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let i = group_index(wid, nwg) * 64u + lane;
  if (i < p.total) {{ {}(i / p.length, i % p.length); }}
}}
)",
                        wgsl::kSort, step);
  d.groups = sym::Select(needed, sym::CeilDiv(total, l.table().Int(64)), l.table().Int(0));
  return d;
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.in(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  sym::Table& table = l.table();
  const Lines lines(l.graph, *l.node);
  const Expr total = lines.count * lines.length, zero = table.Int(0), one = table.Int(1);
  Dispatch keys;
  AddKeys(l, keys);
  std::vector<Dispatch> passes;
  passes.push_back(Pass(l, keys, lines, "count_in_run", table.Int(kRun), zero, zero, one));
  Expr merges = zero;  // at the live length
  bool second = false;
  for (int64_t width = kRun; width < table.Bounds(lines.length).hi; width *= 2, second = !second) {
    const Expr needed = sym::Gt(lines.length, table.Int(width));
    passes.push_back(Pass(l, keys, lines, "merge_runs", table.Int(width), second ? total : zero,
                          second ? zero : total, needed));
    merges = merges + sym::Select(needed, one, zero);
  }
  const Expr half = sym::Mod(merges, table.Int(2));  // that holds the order
  Dispatch d;
  AddKeys(l, d);
  const Expr taken = l.node->Exprs("count")[0];
  for (auto [name, expr] : {std::pair("length", lines.length),
                            {"inner", lines.inner},
                            {"taken", taken},
                            {"from_half", half * total}})
    d.params.push_back({.name = name, .expr = expr});
  d.body += fmt::format(R"(fn value(i: u32) -> {} {{
  if (p.taken > p.length) {{ fail(); }}
  let line = i / p.inner / p.taken * p.inner + i % p.inner;
  let index = scratch_word(p.from_half + line * p.length + i / p.inner % p.taken);
  set_out1(i, vec2<u32>(index, 0u));
  return in0(at(line, index));
}}
)",
                        ValueType(dtype));
  Dispatch gather = MakeMap(l, std::move(d.body), std::move(d.params));
  CanFail(l, gather, "more elements are taken than there are");
  passes.push_back(std::move(gather));
  return passes;
}

Expr Scratch(const ir::Graph& graph, const ir::Node& node) {
  const Lines lines(graph, node);
  return lines.count * lines.length * 8;  // two halves of u32
}

}  // namespace

extern const WebGpuKernel kSortKernel = {.op = &ops::kSort, .lower = Lower, .scratch = Scratch};

}  // namespace liveshape::webgpu
