// Elementwise tiles: a walk over operands of equal dims but any strides, in tiles of at most so many elements. What a
// pointwise chain, a copy and a fill have in common.
//
//   Map map(k, {y, x}, {.merge = true});                // decides tile sizes; adds no statement
//   const uint32_t out = k.AddBuffer("y", map.BufferBytes(0)), in = k.AddBuffer("x", map.BufferBytes(1));
//   map.ForEachTile([&](const MapTile& tile) {
//     k.Dispatch();
//     k.Load(x, k.At(in), tile.offset[1], tile.box[1]);
//     ...
//   });
//
// Neighbouring dims that lie densely in every operand are walked as one; whether they do is a condition over live
// sizes, so that a static program walks as the dynamic one does (N9). In a buffer a tile is dense.
#pragma once

#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

// The extents of the first `count` dims, walked as one where they lie densely in every view: then the innermost of them
// has the extent of all, and the others 1.
std::vector<Expr> MergeDims(KernelBuilder& k, std::span<const View> views, size_t count);

// The same views over dims that all of them have: views of the same elements in row-major order, whose axes have a
// common refinement.
std::vector<View> CommonDims(KernelBuilder& k, std::vector<View> views);

// `from` to `to`, which has its dims: DMA in and out.
void LowerMove(KernelBuilder& k, const View& to, const View& from);

struct MapTile {
  Expr elements;
  std::vector<Expr> start = {}, live = {};    // by dim of the walk, innermost last
  std::vector<Expr> offset = {};              // by operand: bytes from the tensor's base
  std::vector<std::vector<BoxDim>> box = {};  // by operand
};

class Map {
 public:
  struct Options {
    bool merge = true;          // false: dims stay apart, MapTile::start is by dim of the operands
    int64_t scratch_bytes = 0;  // an element, beyond the operands' buffers
  };
  Map(KernelBuilder& k, std::vector<View> operands, const Options& options);

  std::vector<int64_t> BufferBytes(size_t operand) const;  // by variant
  std::vector<int64_t> BufferBytesOf(int64_t element_bytes) const;
  // Each tile is an item.
  void ForEachTile(const std::function<void(const MapTile&)>& body);

 private:
  void ChooseTile(int64_t bytes_per_element);
  void Nest(size_t dim, MapTile tile, const std::function<void(const MapTile&)>& body);

  KernelBuilder& k_;
  std::vector<View> operands_;
  std::vector<Expr> extents_, tiles_;
  std::vector<int64_t> elements_;  // of a tile, by variant
};

}  // namespace liveshape::npu
