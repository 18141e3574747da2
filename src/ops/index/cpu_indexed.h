// x[..., i, ..., j, ...] as index reads it and index_put writes it: for every outer position and every
// entry of the indices, one box of the dims that follow.
#pragma once

#include <vector>

#include "backends/cpu/rows.h"
#include "ops/index/cpu_elements.h"

namespace liveshape::cpu {

// From the node, once.
struct IndexedAxes : Prepared {
  std::vector<int> axes;
  std::vector<int> outer;  // dims of x before the indexed ones, where these are adjacent
  std::vector<int> inner;  // the other dims of x, in order
  bool wrap = true;        // negative indices count from the end
  bool accumulate = false;

  IndexedAxes(const ir::Node& node, int rank) {
    const std::vector<int64_t>& node_axes = node.Ints("axes");
    wrap = !node.Has("wrap") || node.Int("wrap") != 0;
    bool adjacent = true;
    for (size_t i = 0; i < node_axes.size(); ++i) {
      adjacent = adjacent && node_axes[i] == node_axes[0] + static_cast<int64_t>(i);
      axes.push_back(static_cast<int>(node_axes[i]));
    }
    for (int d = 0; d < rank; ++d) {
      bool indexed = false;
      for (int axis : axes) indexed |= axis == d;
      if (!indexed) (adjacent && d < axes[0] ? outer : inner).push_back(d);
    }
  }
};

class Indexed {
 public:
  // `x` is the side that is indexed, `dense` the one that has the indices' dims in place of the axes; its
  // strides may be anything. Indices are args.in(first) and on.
  Indexed(const IndexedAxes& axes, const View& x, const View& dense, std::span<const View> indices)
      : axes_(axes), x_(x), dense_(dense), indices_(indices) {
    for (size_t i = 0; i < axes.outer.size(); ++i) outer_ *= x.dims[axes.outer[i]];
    entries_ = indices[0].numel();
    const int first_inner = static_cast<int>(axes.outer.size()) + indices[0].rank;
    for (size_t i = 0; i < axes.inner.size(); ++i) {
      inner_dims_[i] = x.dims[axes.inner[i]];
      inner_x_[i] = x.strides[axes.inner[i]];
      inner_dense_[i] = dense.strides[first_inner + static_cast<int>(i)];
      inner_ *= inner_dims_[i];
    }
  }

  int64_t outer() const { return outer_; }
  int64_t entries() const { return entries_; }
  int64_t inner() const { return inner_; }
  Box FromX() const {
    return {static_cast<int>(axes_.inner.size()), inner_dims_, inner_x_, inner_dense_};
  }
  Box ToX() const {
    return {static_cast<int>(axes_.inner.size()), inner_dims_, inner_dense_, inner_x_};
  }

  // All indices, before anything is written: a failed run leaves states as they were.
  Status Check() const {
    for (size_t a = 0; a < indices_.size(); ++a) {
      const int64_t bound = x_.dims[axes_.axes[a]], least = axes_.wrap ? -bound : 0;
      for (int64_t i = 0; i < entries_; ++i) {
        const int64_t value = IndexAt(indices_[a], i);
        if (value < least || value >= bound) {
          return OutOfRange(
              "element {} of index {} is {}: outside dim {} of size {} (allowed: {} to {})", i, a,
              value, axes_.axes[a], bound, least, bound - 1);
        }
      }
    }
    return {};
  }

  // Offsets in elements of the box at (outer, entry) on either side.
  int64_t XOffset(int64_t outer, int64_t entry) const {
    int64_t offset = 0;
    for (size_t i = axes_.outer.size(); i-- > 0;) {
      const int d = axes_.outer[i];
      offset += outer % x_.dims[d] * x_.strides[d];
      outer /= x_.dims[d];
    }
    for (size_t a = 0; a < indices_.size(); ++a) {
      const int d = axes_.axes[a];
      const int64_t value = IndexAt(indices_[a], entry);
      offset += (value < 0 ? value + x_.dims[d] : value) * x_.strides[d];
    }
    return offset;
  }
  int64_t DenseOffset(int64_t outer, int64_t entry) const {
    int64_t offset = 0, flat = outer * entries_ + entry;
    for (int d = static_cast<int>(axes_.outer.size()) + indices_[0].rank - 1; d >= 0; --d) {
      offset += flat % dense_.dims[d] * dense_.strides[d];
      flat /= dense_.dims[d];
    }
    return offset;
  }

 private:
  const IndexedAxes& axes_;
  const View &x_, &dense_;
  std::span<const View> indices_;
  int64_t outer_ = 1, entries_ = 1, inner_ = 1;
  int64_t inner_dims_[kMaxRank], inner_x_[kMaxRank], inner_dense_[kMaxRank];
};

}  // namespace liveshape::cpu
