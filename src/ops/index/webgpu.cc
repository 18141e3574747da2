#include "ops/index/webgpu_indexed.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const char* type = ValueType(l.out(0).dtype);
  if (type == nullptr) return NoSuchType(l.out(0).dtype);
  Dispatch d;
  AddIndexed(l, l.in(0), 1, d);
  d.body += fmt::format(R"(fn value(i: u32) -> {} {{
  let box = i / p.inner;
  return in0(place(box / p.entries, box % p.entries, i % p.inner));
}}
)",
                        type);
  Dispatch made = MakeMap(l, std::move(d.body), std::move(d.params));
  CanFail(l, made, "an index is out of range");
  return std::vector{std::move(made)};
}

}  // namespace

extern const WebGpuKernel kIndexKernel = {.op = &ops::kIndex, .lower = Lower};

}  // namespace liveshape::webgpu
