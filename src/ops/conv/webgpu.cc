#include "backends/webgpu/wgsl.h"
#include "ops/linear/webgpu_weight.h"
#include "ops/ops.h"
#include "ops/webgpu_window.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  if (ValueType(l.out(0).dtype) == nullptr) return NoSuchType(l.out(0).dtype);
  LS_ASSIGN_OR_RETURN(const ops::Windows windows, ops::ReadWindows(*l.node));
  const int64_t groups = l.node->Int("groups");
  const Expr by = l.table().Int(groups);
  Dispatch d;
  AddWeight(l, 1, d);
  AddStrides(l.in(0), "x", d);
  AddOutputPlaces(l, d);
  AddWindows(l, windows, d);
  d.params.push_back({.name = "group_rows", .expr = sym::FloorDiv(l.in_dims(1)[0], by)});
  d.params.push_back({.name = "group_channels", .expr = sym::FloorDiv(l.in_dims(0)[1], by)});
  if (l.has(2)) {
    AddStrides(l.in(2), "bias", d);
    d.body += "fn bias(row: u32) -> f32 { return in2(p.bias_offset + row * p.bias_s0); }\n";
  } else {
    d.body += "fn bias(row: u32) -> f32 { return 0.0; }\n";
  }
  return std::vector{MakeMap(l, d.body + wgsl::kConv, std::move(d.params))};
}

}  // namespace

extern const WebGpuKernel kConvKernel = {.op = &ops::kConv, .lower = Lower};

}  // namespace liveshape::webgpu
