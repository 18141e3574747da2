// A product with a constant weight in panels of 16 rows (ops/linear/panel.h, quantised.h), which is how compile stores
// weights: GEMV for few rows, tiles for many. Around the GEMV a norm of the input and a pointwise program on the results
// can be folded in, so that a decoder's step is few dispatches.
//
//   PanelProduct product{.x = 0, .weight = 1};
//   if (!ServesPanels(l, product)) ...                         // layout, odd sizes: the general kernels do it
//   dispatches = {PanelGemv(l, product), PanelGemm(l, product, {64, 64})};   // their groups are for the caller to choose
#pragma once

#include <optional>

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

inline constexpr size_t kAbsent = ~size_t{0};

struct PanelProduct {
  size_t x = 0, weight = 1, bias = kAbsent;  // inputs of the step
  Expr m;

  // GEMV only. The input is rms_norm(x) * norm_weight, rounded to `dtype` as the norm would have been.
  bool normed = false;
  size_t norm_weight = kAbsent;
  double epsilon = 0;
  // Result n is `value(m * columns + n)`, which reads the rounded products of the weight's rows n + joined[j] as
  // `joined0`, `joined1`, ...; empty: the product itself.
  std::string value = {};
  std::vector<Param> value_params = {};
  std::vector<int64_t> joined = {0};
  int64_t columns = 0;  // 0: the weight's rows
};

// Of a workgroup; an invocation has 8 rows and `columns` columns, 4 or 8. K advances by `depth`, shared by `splits`
// teams of invocations whose sums are added at the end: where tiles are few, more of the GPU is at work.
struct Tile {
  int64_t m = 64, n = 64, columns = 4, depth = 16, splits = 1;
  int64_t team() const { return m * n / (8 * columns); }
  int64_t invocations() const { return team() * splits; }
  int64_t bytes() const { return depth * (4 * m + 4 * n + 16); }  // of workgroup memory
};

bool ServesPanels(const Lowering& l, const PanelProduct& product);
Dispatch PanelGemv(const Lowering& l, const PanelProduct& product);
Dispatch PanelGemm(const Lowering& l, const PanelProduct& product, Tile tile);

}  // namespace liveshape::webgpu
