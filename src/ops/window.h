// Windows that slide over the last two dims of [N, C, H, W]: the arithmetic and the attributes that
// convolutions and pools share.
#pragma once

#include <array>

#include "ops/aten.h"
#include "ops/rules.h"

namespace liveshape::ops {

// Along one dim: `size` taps, `dilation` apart, moved by `stride` over an input with `before` and `after`
// elements added.
struct Window {
  int64_t size = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t span() const { return dilation * (size - 1) + 1; }
};
using Windows = std::array<Window, 2>;  // along H, along W

inline ir::Attrs WindowAttrs(const Windows& windows) {
  const Window &h = windows[0], &w = windows[1];
  return {{"kernel", std::vector<int64_t>{h.size, w.size}},
          {"stride", std::vector<int64_t>{h.stride, w.stride}},
          {"dilation", std::vector<int64_t>{h.dilation, w.dilation}},
          {"padding", std::vector<int64_t>{h.before, h.after, w.before, w.after}}};
}

// What WindowAttrs wrote, checked: what it gives, kernels may rely on.
inline Result<Windows> ReadWindows(const ir::Node& node) {
  const auto ints = [&](std::string_view name, size_t count) -> Result<std::vector<int64_t>> {
    const ir::Attr* attr = node.Find(name);
    const auto* list = attr ? std::get_if<std::vector<int64_t>>(attr) : nullptr;
    if (list == nullptr || list->size() != count)
      return InvalidArgument("attribute `{}` must be {} integers", name, count);
    return *list;
  };
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, ints("kernel", 2));
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> stride, ints("stride", 2));
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> dilation, ints("dilation", 2));
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> padding, ints("padding", 4));
  constexpr int64_t kMost = 1 << 20;  // beyond any model, and no product of three overflows
  Windows windows;
  for (size_t i = 0; i < 2; ++i) {
    const Window& w =
        windows[i] = {kernel[i], stride[i], dilation[i], padding[2 * i], padding[2 * i + 1]};
    for (int64_t v : {w.size, w.stride, w.dilation})
      if (v < 1 || v > kMost)
        return InvalidArgument("kernel {}, stride {}, dilation {}: each must be in [1, {}]", w.size,
                               w.stride, w.dilation, kMost);
    for (int64_t v : {w.before, w.after})
      if (v < 0 || v > kMost)
        return InvalidArgument("padding {}, {}: each must be in [0, {}]", w.before, w.after, kMost);
  }
  return windows;
}

// The smallest input in which the window has a place; with `ceil` it may end outside.
inline int64_t LeastExtent(const Window& w, bool ceil = false) {
  return w.span() - w.before - w.after - (ceil ? w.stride - 1 : 0);
}

// How many places the window has; with `ceil`, also one that begins inside and ends outside.
inline Expr Places(const Window& w, Expr extent, bool ceil = false) {
  const Expr places =
      sym::FloorDiv(extent - LeastExtent(w, ceil), extent.table().Int(w.stride)) + 1;
  if (!ceil) return places;
  const Expr begins_outside = sym::Ge((places - 1) * w.stride, extent + w.before);
  return sym::Select(begins_outside, places - 1, places);
}

// The same for a shape rule, which requires a place at every live size, as torch does.
inline Result<Expr> InferPlaces(const InferContext& c, const Window& w, Expr extent, int64_t least,
                                bool ceil = false) {
  LS_RETURN_IF_ERROR(c.Require(sym::Ge(extent, c.table.Int(least)), [&] {
    return fmt::format("a window of {} does not fit an input of {} with {} + {} of padding",
                       w.span(), sym::ToString(extent), w.before, w.after);
  }));
  return Places(w, extent, ceil);
}

// For ATen forms. A list of one stands for every dim; an empty one for `otherwise` in every dim.
inline std::vector<int64_t> PerDim(AtenCall& c, std::vector<int64_t> list, size_t dims,
                                   int64_t otherwise = 0) {
  if (list.empty()) return std::vector<int64_t>(dims, otherwise);
  if (list.size() == 1) return std::vector<int64_t>(dims, list[0]);
  if (list.size() != dims) c.Fail(InvalidArgument("a list of {} for {} dims", list.size(), dims));
  list.resize(dims);
  return list;
}

// [N, C, L] and the like as [N, C, H, W]: dims of 1 take the place of those that are missing.
inline ValueId AsImages(AtenCall& c, ValueId x, size_t spatial) {
  if (static_cast<size_t>(c.Rank(x)) == spatial + 1) x = c.Unsqueeze(x, 0);
  return spatial == 1 ? c.Unsqueeze(x, 2) : x;
}
// And back: `rank` is that of the tensor the form was given.
inline ValueId FromImages(AtenCall& c, ValueId y, size_t spatial, int64_t rank) {
  if (!c.ok()) return y;
  Dims dims = c.DimsOf(y);
  if (spatial == 1) dims.erase(dims.begin() + 2);
  if (static_cast<size_t>(rank) == spatial + 1) dims.erase(dims.begin());
  return c.Reshape(y, std::move(dims));
}

}  // namespace liveshape::ops
