// An invocation owns an (outer, inner) place and walks the entries in order: duplicates are settled as on the CPU, the
// last wins, and sums need no atomics. In place nothing else is written.
#include "ops/index/webgpu_indexed.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const DType dtype = l.out(0).dtype;
  if (ValueType(dtype) == nullptr) return NoSuchType(dtype);
  std::vector<Dispatch> dispatches;
  if (!l.step.in_place) dispatches.push_back(MakeCopy(l));
  Dispatch d;
  AddIndexed(l, l.out(0), 2, d);
  AddStridedIndex(l, l.in(1), "in1", d);
  const bool adds = l.node->Int("accumulate") != 0;
  const char* sum = dtype == DType::kI64    ? "i64_add(out0(at), x)"
                    : dtype == DType::kBool ? "out0(at) || x"
                                            : "out0(at) + x";
  d.body += fmt::format(R"(
@compute @workgroup_size(64) fn main(@builtin(workgroup_id) wid: vec3<u32>,
    @builtin(num_workgroups) nwg: vec3<u32>, @builtin(local_invocation_index) lane: u32) {{
  let i = group_index(wid, nwg) * 64u + lane;
  if (i >= p.outer * p.inner) {{ return; }}
  let outer = i / p.inner;
  let inner = i % p.inner;
  for (var entry = 0u; entry < p.entries; entry++) {{
    let at = place(outer, entry, inner);
    let x = in1(at_in1((outer * p.entries + entry) * p.inner + inner));
    set_out0(at, {});
  }}
}}
)",
                        adds ? sum : "x");
  // Nothing to write where there are no entries.
  Expr places = l.table().Int(1);
  for (const Param& param : d.params)
    if (param.name == "outer" || param.name == "inner") places = places * param.expr;
  d.groups = sym::CeilDiv(places, l.table().Int(64));
  CanFail(l, d, "an index is out of range");
  dispatches.push_back(std::move(d));
  return dispatches;
}

}  // namespace

extern const WebGpuKernel kIndexPutKernel = {.op = &ops::kIndexPut, .lower = Lower};

}  // namespace liveshape::webgpu
