// In place only what changes is written; else the base is copied first.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  std::vector<Dispatch> dispatches;
  if (!l.step.in_place) dispatches.push_back(MakeCopy(l));
  Dispatch d;
  AddStridedIndex(l, l.in(1), "in1", d);
  const ir::Dims &sizes = l.node->Exprs("sizes"), &strides = l.node->Exprs("strides");
  const Expr count = l.numel(sizes);
  d.params.push_back({.name = "count", .expr = count});
  d.params.push_back({.name = "total", .expr = l.numel(l.out_dims(0))});
  d.params.push_back({.name = "to_offset", .expr = l.node->Exprs("offset")[0]});
  d.body += "fn place(i: u32) -> u32 {\n  var at = p.to_offset;\n  var rest = i;\n";
  for (size_t k = sizes.size(); k-- > 0;) {
    d.params.push_back({.name = fmt::format("to_d{}", k), .expr = sizes[k]});
    d.params.push_back({.name = fmt::format("to_s{}", k), .expr = strides[k]});
    d.body += fmt::format("  at += rest % p.to_d{0} * p.to_s{0};\n  rest /= p.to_d{0};\n", k);
  }
  d.body += R"(  return at;
}
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let i = group_index(wid, nwg) * 64u + lane;
  if (i >= p.count) { return; }
  let at = place(i);
  if (at >= p.total) {
    fail();
    return;
  }
  set_out0(at, in1(at_in1(i)));
}
)";
  d.groups = sym::CeilDiv(count, l.table().Int(64));
  CanFail(l, d, "a write outside of the tensor");
  dispatches.push_back(std::move(d));
  return dispatches;
}

}  // namespace

extern const WebGpuKernel kViewWriteKernel = {.op = &ops::kViewWrite, .lower = Lower};

}  // namespace liveshape::webgpu
