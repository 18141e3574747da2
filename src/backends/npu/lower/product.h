// Tiles of a matrix product: c[m, n] = sum over k of a[m, k] * b[k, n] (+ bias[n]), over any strides and any number of
// batch dims. What linear, matmul and a convolution have in common.
//
//   item: one tile of c
//     for k in steps:   load a [m, k], load b [k, n], barrier, array: c (+)= a * b, barrier
//     the last step:    vector: bias, rounding to c's dtype; store c
//     or, of stages that were fused behind it, strip by strip:   load what they read, barrier, vector, store (epilogue.h)
//
// b is the stationary operand of the arrays, rows of a are streamed. K advances by the rows of one array, so that the
// first product begins after the least load; M and N are as large as fits twice, since what is loaded falls with
// 1/m + 1/n.
#pragma once

#include "backends/npu/lower/epilogue.h"

namespace liveshape::npu {

// How the elements of b lie.
enum class WeightForm : uint8_t { kStrided, kPanel16, kQ8Panel16, kQ4Panel16 };

// The stationary operand: [n, k] seen as [k, n].
struct Weight {
  View view;
  WeightForm form = WeightForm::kStrided;
  Expr k = {};                        // its extent along k
  Expr k_stride = {}, n_stride = {};  // of kStrided

  bool quantised() const {
    return form == WeightForm::kQ8Panel16 || form == WeightForm::kQ4Panel16;
  }
  int64_t element() const { return quantised() ? 4 : view.element(); }  // in the buffer
  int64_t block_bytes() const;                                          // of quantised weights
  // A tile begins and ends at multiples of these, or at the end.
  int64_t n_alignment() const { return form == WeightForm::kStrided ? 1 : 16; }
  int64_t k_alignment() const { return quantised() ? 32 : 1; }
};
Weight WeightOf(const Lowering& l, KernelBuilder& k, size_t input);  // a matrix [n, k]
// A tile as [k, n], dense; of quantised weights the blocks that cover it. `at`: where the weight begins.
void LoadWeight(KernelBuilder& k, const Weight& weight, Expr at, uint32_t buffer, Span n,
                Span k_span);

// Of c the last dim is n, the one before it m, the others are batches.
struct Product {
  View a;
  Epilogue epilogue;  // has c
  Weight b;
  std::vector<Expr> batch = {};                  // extents
  std::vector<Expr> a_batch = {}, b_batch = {};  // strides, bytes
  Expr m = {}, k = {}, n = {};                   // n: of one part
  Expr a_m = {}, a_k = {};                       // strides, bytes
};

Status LowerProduct(const Lowering& l, KernelBuilder& k, Product product);

// The most columns of which a tile holds rows as a whole: those of the largest tile, if it can have as many rows as the
// array.
int64_t LongestRow(const Target& target, const Fusion& fusion);

}  // namespace liveshape::npu
