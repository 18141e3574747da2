// How a kernel of one row a workgroup of 64 writes what it has computed: `fn store_row(first: u32, lane: u32)` puts
// row_value(i) at first + i * `spread` for every i of p.width. Elements smaller than a word go out by whole words where a
// row is made of them; else each costs atomics (kernel.h), which only rows of odd length pay.
#pragma once

#include <string>

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// `spread`: a WGSL expression; "1u" where a row lies in one piece.
inline std::string StoreRow(const Lowering& l, Expr width, const std::string& spread = "1u") {
  const bool words = SizeOf(l.out(0).dtype) == 2 && spread == "1u" &&
                     l.table().Divides(l.table().Int(2), width) == sym::Tri::kYes;
  if (words)
    return R"(fn store_row(first: u32, lane: u32) {
  for (var i = lane; i < p.width / 2u; i += 64u) {
    let low = encode_out0(row_value(2u * i)) & 0xffffu;
    set_out0_word(first / 2u + i, low | (encode_out0(row_value(2u * i + 1u)) << 16u));
  }
}
)";
  return "fn store_row(first: u32, lane: u32) {\n"
         "  for (var i = lane; i < p.width; i += 64u) { set_out0(first + i * " +
         spread + ", row_value(i)); }\n}\n";
}

}  // namespace liveshape::webgpu
