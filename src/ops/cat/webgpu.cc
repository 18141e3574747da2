#include "backends/webgpu/kernel.h"
#include "ops/ops.h"

namespace liveshape::webgpu {
namespace {

Result<std::vector<Dispatch>> Lower(const Lowering& l) {
  const char* type = ValueType(l.out(0).dtype);
  if (type == nullptr) return NoSuchType(l.out(0).dtype);
  const ir::Dims& dims = l.out_dims(0);
  const auto axis = static_cast<size_t>(l.node->Int("dim"));
  Dispatch d;
  d.params = {{.name = "inner",
               .expr = l.numel({dims.begin() + static_cast<int64_t>(axis) + 1, dims.end()})},
              {.name = "extent", .expr = dims[axis]}};
  std::string choose;
  Expr start = l.table().Int(0);
  for (size_t k = 0; k < l.step.inputs.size(); ++k) {
    AddStridedIndex(l, l.in(k), fmt::format("in{}", k), d);
    const Expr length = l.in_dims(k)[axis];
    d.params.push_back({.name = fmt::format("start{}", k), .expr = start});
    d.params.push_back({.name = fmt::format("length{}", k), .expr = length});
    start = start + length;
    choose += fmt::format(
        "  if (j - p.start{0} < p.length{0}) {{\n"
        "    return in{0}(at_in{0}((outer * p.length{0} + j - p.start{0}) * p.inner + i % "
        "p.inner));\n  }}\n",
        k);
  }
  d.body += fmt::format(R"(fn value(i: u32) -> {0} {{
  let j = i / p.inner % p.extent;
  let outer = i / p.inner / p.extent;
{1}  return {0}();
}}
)",
                        type, choose);
  return std::vector{MakeMap(l, std::move(d.body), std::move(d.params))};
}

}  // namespace

extern const WebGpuKernel kCatKernel = {.op = &ops::kCat, .lower = Lower};

}  // namespace liveshape::webgpu
