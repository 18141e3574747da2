// Windows over [N, C, H, W] for shaders: what ops/window.h is for shape rules.
#pragma once

#include "backends/webgpu/kernel.h"
#include "ops/window.h"

namespace liveshape::webgpu {

// p.size_h, p.stride_h, p.dilation_h, p.before_h, p.after_h, and the same with _w. Params, not literals, so that
// layers of different windows share a shader. A tap lies at `place * stride + tap * dilation - before`; as u32 it is
// below the extent exactly where it lies inside.
inline void AddWindows(const Lowering& l, const ops::Windows& windows, Dispatch& d) {
  for (size_t i : {0, 1}) {
    const ops::Window& w = windows[i];
    const char* dim = i == 0 ? "h" : "w";
    for (auto [name, value] : {std::pair("size", w.size),
                               {"stride", w.stride},
                               {"dilation", w.dilation},
                               {"before", w.before},
                               {"after", w.after}})
      d.params.push_back({.name = fmt::format("{}_{}", name, dim), .expr = l.table().Int(value)});
  }
}

// p.out_d1, p.out_d2, p.out_d3: what an output index i is made of, [i / (d1 d2 d3), ..., i % d3].
inline void AddOutputPlaces(const Lowering& l, Dispatch& d) {
  for (uint32_t k : {1, 2, 3})
    d.params.push_back({.name = fmt::format("out_d{}", k), .slot = l.out(0).dims_at + k});
}

}  // namespace liveshape::webgpu
