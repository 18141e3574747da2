// In place only what changes is written; else the base is copied first.
#include "backends/webgpu/kernel.h"
#include "ops/ops.h"
#include "ops/view_write/webgpu_place.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  std::vector<Dispatch> dispatches;
  if (!l.step.in_place) dispatches.push_back(MakeCopy(l));
  Dispatch d;
  AddStridedIndex(l, l.in(1), "in1", d);
  const Expr count = l.numel(l.node->Exprs("sizes"));
  d.params.push_back({.name = "count", .expr = count});
  AddPlace(l, *l.node, d);
  // Elements of 16 bits go out two at a time where they lie so: an atomic each would cost a prefill more than its write.
  const int64_t each = SizeOf(dtype) == 2 && WritesWords(l.table(), *l.node, dtype) ? 2 : 1;
  d.body += each == 2 ? R"(fn put(i: u32, at: u32) {
  set_out0_word(at / 2u, (encode_out0(in1(at_in1(i))) & 0xffffu) | (encode_out0(in1(at_in1(i + 1u))) << 16u));
}
)"
                      : "fn put(i: u32, at: u32) { set_out0(at, in1(at_in1(i))); }\n";
  d.body += fmt::format(R"(
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let i = (group_index(wid, nwg) * 64u + lane) * {0}u;
  if (i >= p.count) {{ return; }}
  let at = place(i);
  if (at + {0}u > p.total) {{
    fail();
    return;
  }}
  put(i, at);
}}
)",
                        each);
  d.groups = sym::CeilDiv(count, l.table().Int(64 * each));
  CanFail(l, d, kWriteOutside);
  dispatches.push_back(std::move(d));
  return dispatches;
}

}  // namespace

extern const WebGpuKernel kViewWriteKernel = {.op = &ops::kViewWrite, .lower = Lower};

}  // namespace liveshape::webgpu
