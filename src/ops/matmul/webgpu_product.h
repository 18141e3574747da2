// The routes of a product, chosen by live M: whoever calls gives the operands as WGSL functions.
#pragma once

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// left(batch, m, k), right(batch, n, k) and addend(n), all f32, are in `operands.body`.
struct Product {
  Dispatch operands = {};
  Expr batch, m, n, k;
};
Result<std::vector<Dispatch>> LowerProduct(const Lowering& l, Product product);

}  // namespace liveshape::webgpu
