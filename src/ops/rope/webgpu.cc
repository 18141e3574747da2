#include "backends/webgpu/kernel.h"
#include "ops/ops.h"
#include "ops/rope/webgpu_fuse.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  if (ValueType(l.out(0).dtype) == nullptr) return NoSuchType(l.out(0).dtype);
  Dispatch d;
  for (size_t i : {0, 1, 2}) AddStridedIndex(l, l.in(i), fmt::format("in{}", i), d);
  d.params.push_back({.name = "width", .expr = l.in_dims(0).back()});
  d.body += R"(fn value(i: u32) -> f32 {
  let half = p.width / 2u;
  let low = i % p.width < half;
  let other = in0(at_in0(select(i - half, i + half, low)));
  return in0(at_in0(i)) * in1(at_in1(i)) + select(other, -other, low) * in2(at_in2(i));
}
)";
  return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
}

}  // namespace

extern const WebGpuKernel kRopeKernel = {.op = &ops::kRope, .lower = Lower, .fuse = FuseRope};

}  // namespace liveshape::webgpu
