// An output element an invocation, as long as one dispatch can bind all inputs. More of them than that take turns, each
// dispatch writing the part that is its own.
#include <algorithm>

#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

// Inputs [first, last) side by side: `fn joined(outer, j, inner)` is their element j along the dim.
struct Joined {
  Dispatch d;
  Expr length;
};

Joined Join(const Lowering& l, size_t axis, size_t first, size_t last) {
  Joined made{.d = {}, .length = l.table().Int(0)};
  const ir::Dims& dims = l.out_dims(0);
  made.d.params = {{.name = "inner",
                    .expr = l.numel({dims.begin() + static_cast<int64_t>(axis) + 1, dims.end()})}};
  std::string choose;
  for (size_t k = first; k < last; ++k) {
    AddStridedIndex(l, l.in(k), fmt::format("in{}", k), made.d);
    const Expr length = l.in_dims(k)[axis];
    made.d.params.push_back({.name = fmt::format("start{}", k), .expr = made.length});
    made.d.params.push_back({.name = fmt::format("length{}", k), .expr = length});
    made.length = made.length + length;
    choose += fmt::format(
        "  if (j - p.start{0} < p.length{0}) {{\n"
        "    return in{0}(at_in{0}((outer * p.length{0} + j - p.start{0}) * p.inner + inner));\n"
        "  }}\n",
        k);
  }
  made.d.body +=
      fmt::format("fn joined(outer: u32, j: u32, inner: u32) -> {0} {{\n{1}  return {0}();\n}}\n",
                  ValueType(l.out(0).dtype), choose);
  return made;
}

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const char* type = ValueType(l.out(0).dtype);
  if (type == nullptr) return NoSuchType(l.out(0).dtype);
  const ir::Dims& dims = l.out_dims(0);
  const auto axis = static_cast<size_t>(l.node->Int("dim"));
  const size_t inputs = l.step.inputs.size(), most = l.limits.storage_buffers - 1;
  if (inputs <= most) {
    Dispatch d = Join(l, axis, 0, inputs).d;
    d.params.push_back({.name = "extent", .expr = dims[axis]});
    d.body += fmt::format(
        "fn value(i: u32) -> {} {{\n"
        "  return joined(i / p.inner / p.extent, i / p.inner % p.extent, i % p.inner);\n}}\n",
        type);
    return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
  }
  std::vector<Dispatch> turns;
  Expr start = l.table().Int(0);
  for (size_t first = 0; first < inputs; first += most) {
    auto [d, length] = Join(l, axis, first, std::min(inputs, first + most));
    ir::Dims part = dims;
    part[axis] = length;
    const Expr count = l.numel(part);
    for (auto [name, expr] : {std::pair("extent", dims[axis]),
                              {"part_start", start},
                              {"part_length", length},
                              {"count", count}})
      d.params.push_back({.name = name, .expr = expr});
    d.body += R"(
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = group_index(wid, nwg) * 64u + lane;
  if (i >= p.count) { return; }
  let inner = i % p.inner;
  let j = i / p.inner % p.part_length;
  let outer = i / p.inner / p.part_length;
  set_out0((outer * p.extent + p.part_start + j) * p.inner + inner, joined(outer, j, inner));
}
)";
    d.groups = sym::CeilDiv(count, l.table().Int(64));
    turns.push_back(std::move(d));
    start = start + length;
  }
  return turns;
}

}  // namespace

extern const WebGpuKernel kCatKernel = {.op = &ops::kCat, .lower = Lower};

}  // namespace liveshape::webgpu
