// Tiles of a matrix product: c[m, n] = sum over k of a[m, k] * b[k, n] (+ bias[n]), over any strides and any number of
// batch dims. What linear, matmul and a convolution have in common.
//
//   item: one tile of c
//     for k in steps:   load a [m, k], load b [k, n], barrier, array: c (+)= a * b, barrier
//     the last step:    vector: bias, rounding to c's dtype; store c
//
// b is the stationary operand of the arrays, rows of a are streamed. K advances by the rows of one array, so that the
// first product begins after the least load; M and N are as large as fits twice, since what is loaded falls with
// 1/m + 1/n.
#pragma once

#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

// How the elements of b lie.
enum class WeightForm : uint8_t { kStrided, kPanel16, kQ8Panel16, kQ4Panel16 };

struct Product {
  View a, b, c;
  std::vector<Expr> batch = {};                                  // extents
  std::vector<Expr> a_batch = {}, b_batch = {}, c_batch = {};    // strides, bytes
  Expr m = {}, k = {}, n = {};
  Expr a_m = {}, a_k = {}, c_m = {}, c_n = {};                   // strides, bytes
  WeightForm form = WeightForm::kStrided;
  Expr b_k = {}, b_n = {};                                       // of kStrided
  std::optional<View> bias = {};                                 // [n]
};

Status LowerProduct(const Lowering& l, KernelBuilder& k, const Product& product);

}  // namespace liveshape::npu
