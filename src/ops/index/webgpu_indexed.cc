#include "ops/index/webgpu_indexed.h"

#include <algorithm>

namespace liveshape::webgpu {

void AddIndexed(const Lowering& l, const plan::Operand& x, size_t first, Dispatch& d) {
  const std::vector<int64_t>& axes = l.node->Ints("axes");
  const ir::Dims& dims = l.graph.type(x.value).dims;
  bool adjacent = true;
  for (size_t i = 0; i < axes.size(); ++i)
    adjacent = adjacent && axes[i] == axes[0] + static_cast<int64_t>(i);
  d.params.push_back({.name = "x_offset", .slot = x.offset_at});
  for (uint32_t k = 0; k < x.rank; ++k) {
    d.params.push_back({.name = fmt::format("x_d{}", k), .slot = x.dims_at + k});
    d.params.push_back({.name = fmt::format("x_s{}", k), .slot = x.strides_at + k});
  }
  std::string outer_place, inner_place, index_place;
  ir::Dims outer, inner;
  for (size_t k = dims.size(); k-- > 0;) {
    const auto at = std::find(axes.begin(), axes.end(), static_cast<int64_t>(k));
    if (at != axes.end()) continue;
    const bool before = adjacent && static_cast<int64_t>(k) < axes[0];
    (before ? outer_place : inner_place) +=
        fmt::format("  at += rest % p.x_d{0} * p.x_s{0};\n  rest /= p.x_d{0};\n", k);
    (before ? outer : inner).push_back(dims[k]);
  }
  for (size_t a = 0; a < axes.size(); ++a) {
    const size_t input = first + a;
    AddStridedIndex(l, l.in(input), fmt::format("in{}", input), d);
    const bool wide = l.in(input).dtype == DType::kI64;
    index_place += fmt::format(
        "  let n{0} = in{0}(at_in{0}(entry));\n"
        "  var v{0} = {1};\n"
        "  if ({2}) {{ v{0} += p.x_d{3}; }}\n"
        "  if (v{0} >= p.x_d{3}{4}) {{\n    fail();\n    v{0} = 0u;\n  }}\n"
        "  at += v{0} * p.x_s{3};\n",
        input, wide ? fmt::format("n{}.x", input) : fmt::format("bitcast<u32>(n{})", input),
        wide ? fmt::format("bitcast<i32>(n{}.y) < 0", input) : fmt::format("n{} < 0", input),
        axes[a], wide ? fmt::format(" || (n{0}.y != 0u && n{0}.y != 0xffffffffu)", input) : "");
  }
  d.body += fmt::format(R"(fn place(outer: u32, entry: u32, inner: u32) -> u32 {{
  var at = p.x_offset;
  var rest = outer;
{}  rest = inner;
{}{}  return at;
}}
)",
                        outer_place, inner_place, index_place);
  d.params.push_back({.name = "outer", .expr = l.numel(outer)});
  d.params.push_back({.name = "entries", .expr = l.numel(l.in_dims(first))});
  d.params.push_back({.name = "inner", .expr = l.numel(inner)});
}

}  // namespace liveshape::webgpu
