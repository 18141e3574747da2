// What the shaders of products with a packed weight have in common: how the weight lies, the input, the bias.
#pragma once

#include "ops/linear/webgpu_panels.h"

namespace liveshape::webgpu {

// How a weight lies in vectors of four words: what a shader's text depends on.
struct PackedWeight {
  int bits = 0;  // 8 or 4: quantised; else 0
  int64_t rows = 0, cols = 0;
  DType dtype = DType::kF32;
  int64_t parts = 4,
          quads =
              1;  // vectors beside each other for 16 columns at one k, and fours of columns in each
  int64_t panels() const { return (rows + 15) / 16; }
  int64_t groups() const;  // quantised: of 32 k
  int64_t block_vectors() const { return bits == 8 ? 34 : 18; }
  int64_t per_word() const { return 32 / bits; }
};
PackedWeight PackedOf(const Lowering& l, const PanelProduct& product);

inline bool IsHalf(DType dtype) { return SizeOf(dtype) == 2; }
inline int64_t Columns(const PackedWeight& w, const PanelProduct& product) {
  return product.columns ? product.columns : w.rows;
}

// Constants K and COLUMNS, `x(m, k)`, `addend(n)`, and functions for pairs of the weight's dtype.
Dispatch BeginProduct(const Lowering& l, const PanelProduct& product, const PackedWeight& w);

// `fn name(arguments) -> vec4<u32>`: elements of `input` from `at` on, where a row of `length` begins at `at - k`; zeros
// beyond its end.
std::string VectorFunction(const Lowering& l, const char* name, const char* arguments,
                           const char* at, size_t input, int64_t length);

}  // namespace liveshape::webgpu
