#include "ops/index/webgpu_indexed.h"

#include <algorithm>

namespace liveshape::webgpu {

void AddIndexed(const Lowering& l, const plan::Operand& x, size_t first, Dispatch& d) {
  const std::vector<int64_t>& axes = l.node->Ints("axes");
  const ir::Dims& dims = l.graph.type(x.value).dims;
  bool adjacent = true;
  for (size_t i = 0; i < axes.size(); ++i)
    adjacent = adjacent && axes[i] == axes[0] + static_cast<int64_t>(i);
  const bool wrap = !l.node->Has("wrap") || l.node->Int("wrap") != 0;
  AddStrides(x, "x", d);
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
    const std::string n = fmt::format("n{}", input);
    const std::string low = wide ? n + ".x" : fmt::format("bitcast<u32>({})", n);
    const std::string negative = wide ? fmt::format("bitcast<i32>({}.y) < 0", n) : n + " < 0";
    // The upper word of an index in range: of a negative one all ones, where these count from the end.
    std::string above = wide ? fmt::format(" || ({}.y != 0u{})", n,
                                           wrap ? fmt::format(" && {}.y != 0xffffffffu", n) : "")
                             : "";
    index_place += fmt::format(
        "  let n{0} = in{0}(at_in{0}(entry));\n"
        "  var v{0} = {1};\n{2}"
        "  if (v{0} >= p.x_d{3}{4}) {{\n    fail();\n    v{0} = 0u;\n  }}\n"
        "  at += v{0} * p.x_s{3};\n",
        input, low,
        wrap ? fmt::format("  if ({}) {{ v{} += p.x_d{}; }}\n", negative, input, axes[a]) : "",
        axes[a], above);
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
