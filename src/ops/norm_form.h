// `normalized_shape` of layer_norm and rms_norm: the trailing dims, seen as one.
#pragma once

#include "ops/aten.h"

namespace liveshape::ops {

struct NormalizedAxes {
  NormalizedAxes(AtenCall& c, ValueId x) : dims(c.DimsOf(x)) {
    const Dims shape = c.Sizes("normalized_shape");
    count = shape.size();
    if (count == 0 || count > dims.size())
      c.Fail(InvalidArgument("normalized_shape has {} dims, the input {}", count, dims.size()));
    for (size_t i = 0; c.ok() && i < count; ++i) {
      const Expr dim = dims[dims.size() - count + i];
      c.Require(sym::Eq(shape[i], dim),
                fmt::format("normalized_shape has {} where the input has {}",
                            sym::ToString(shape[i]), sym::ToString(dim)));
    }
  }

  // x [..., a, b] -> [..., a*b]; a weight [a, b] -> [a*b]; absent stays absent.
  ValueId Flatten(AtenCall& c, ValueId v) const {
    if (v == ir::kNoValue || !c.ok() || count == 1) return v;
    Dims sizes = c.DimsOf(v);
    const Expr last = sym::Product(c.table(), std::span(sizes).last(count));
    sizes.resize(sizes.size() - count);
    sizes.push_back(last);
    return c.Reshape(v, std::move(sizes));
  }

  Dims dims;
  size_t count = 0;
};

}  // namespace liveshape::ops
