// A line an invocation; float sums carry their rounding error along, as the CPU's doubles do.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType in = l.in(0).dtype, out = l.out(0).dtype;
  if (ValueType(out) == nullptr) return NoSuchType(out);
  const ir::Dims& dims = l.in_dims(0);
  const auto axis = l.node->Int("dim");
  const Expr inner = l.numel({dims.begin() + axis + 1, dims.end()});
  const Expr lines = l.numel({dims.begin(), dims.begin() + axis}) * inner;
  Dispatch d;
  AddStridedIndex(l, l.in(0), "in0", d);
  d.params.push_back({.name = "lines", .expr = lines});
  d.params.push_back({.name = "width", .expr = dims[static_cast<size_t>(axis)]});
  d.params.push_back({.name = "inner", .expr = inner});
  const char* x = in == DType::kBool                   ? "vec2<u32>(select(0u, 1u, x), 0u)"
                  : IsInteger(in) && in != DType::kI64 ? "i64_of(x)"
                                                       : "x";
  const std::string step =
      IsFloat(in)
          ? "let y = x - lost;\n    let t = acc + y;\n    lost = (t - acc) - y;\n    acc = t;"
          : fmt::format("acc = i64_add(acc, {});", x);
  d.body += fmt::format(R"(
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let line = group_index(wid, nwg) * 64u + lane;
  if (line >= p.lines) {{ return; }}
  let first = line / p.inner * p.width * p.inner + line % p.inner;
  var acc = {}();
  var lost = 0.0;
  for (var i = 0u; i < p.width; i++) {{
    let at = first + i * p.inner;
    let x = in0(at_in0(at));
    {}
    set_out0(at, acc);
  }}
}}
)",
                        ValueType(out), step);
  d.groups = sym::CeilDiv(lines, l.table().Int(64));
  return std::vector{std::move(d)};
}

}  // namespace

extern const WebGpuKernel kCumsumKernel = {.op = &ops::kCumsum, .lower = Lower};

}  // namespace liveshape::webgpu
