// Where view_write puts its elements, for its own kernel and for those that write in its stead.
#pragma once

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

inline constexpr char kWriteOutside[] = "a write outside of the tensor";

// `fn place(i: u32) -> u32`: where element i of what is written goes; p.total is how many elements there are.
inline void AddPlace(const Lowering& l, const ir::Node& node, Dispatch& d) {
  const ir::Dims &sizes = node.Exprs("sizes"), &strides = node.Exprs("strides");
  d.params.push_back({.name = "total", .expr = l.numel(l.graph.type(node.outputs[0]).dims)});
  d.params.push_back({.name = "to_offset", .expr = node.Exprs("offset")[0]});
  d.body += "fn place(i: u32) -> u32 {\n  var at = p.to_offset;\n  var rest = i;\n";
  for (size_t k = sizes.size(); k-- > 0;) {
    d.params.push_back({.name = fmt::format("to_d{}", k), .expr = sizes[k]});
    d.params.push_back({.name = fmt::format("to_s{}", k), .expr = strides[k]});
    d.body += fmt::format("  at += rest % p.to_d{0} * p.to_s{0};\n  rest /= p.to_d{0};\n", k);
  }
  d.body += "  return at;\n}\n";
}

// Every pair of elements, from an even one on, lies in one word of the target.
inline bool WritesWords(sym::Table& table, const ir::Node& node, DType dtype) {
  if (SizeOf(dtype) == 4) return true;
  if (SizeOf(dtype) != 2) return false;
  const ir::Dims &sizes = node.Exprs("sizes"), &strides = node.Exprs("strides");
  const auto even = [&](Expr e) { return table.Divides(table.Int(2), e) == sym::Tri::kYes; };
  if (sizes.empty() || !even(sizes.back()) || !strides.back().is_int(1)) return false;
  for (size_t k = 0; k + 1 < strides.size(); ++k)
    if (!even(strides[k])) return false;
  return even(node.Exprs("offset")[0]);
}

}  // namespace liveshape::webgpu
