// Are two tensors the same, as the goldens mean it? max|a-b| <= tolerance * max(1, max|b|); NaN matches NaN
// only, an infinity the same infinity only; integers and bools exactly; dims and dtype always exactly (W2).
#pragma once

#include <string>

#include "liveshape/liveshape.h"

namespace liveshape::cli {

struct Comparison {
  bool shape_ok = false;    // dims and dtype
  bool ok = false;          // shape and values
  double max_abs_diff = 0;  // infinite where NaN or infinity does not match
  double allowed = 0;
  std::string problem;  // empty when ok; else what, where, found and wanted
};

Comparison CompareShapes(const TensorRef& found, const TensorRef& wanted);
Comparison Compare(const TensorRef& found, const TensorRef& wanted, double tolerance);

}  // namespace liveshape::cli
