// What becomes of a tile of sums before it is stored: bias, rounding to the product's dtype, and the stages that were fused
// behind it (fuse.h). Products and convolutions have it in common.
//
//   Epilogue epilogue(l, k, bias);                          // adds codes
//   ... choose tiles: sums + epilogue.Bytes(m, n) must fit
//   epilogue.AddBuffers({m * n}, {n});                      // by variant
//   item:
//     steps of K, the last of which loads what the stages read:   epilogue.Load(tile)
//     after the last product:                                     epilogue.FinishTile(tile, sums)
//
// A tile is [rows, columns], dense. Stages work in place where the element size allows.
#pragma once

#include "backends/npu/lower/fuse.h"

namespace liveshape::npu {

class Epilogue {
 public:
  // bias: a vector along the columns.
  Epilogue(const Lowering& l, KernelBuilder& k, std::optional<View> bias);

  // Sums that a tile keeps, and at which column of the product each begins.
  const std::vector<Expr>& columns() const { return columns_; }
  // Whatever has the dims of the result, which is the first: they are walked together.
  std::vector<View> Shaped() const;
  bool whole_rows() const { return whole_rows_; }

  int64_t Bytes(int64_t elements, int64_t columns) const;  // beyond the sums
  void AddBuffers(const std::vector<int64_t>& elements, const std::vector<int64_t>& columns);

  struct Box {
    Expr offset;
    std::vector<BoxDim> dims;
  };
  struct Tile {
    Expr rows;
    Span columns;  // of each part
    std::function<Box(const View& shaped)>
        box;  // the tile's part of a view with the dims of the result
  };
  void Load(const Tile& tile);
  void FinishTile(const Tile& tile, const std::vector<Place>& sums);

 private:
  // A buffer: of a tile (elements), or of a vector along it (columns).
  struct Held {
    std::string name;
    int64_t element;
    bool vector;
    uint32_t versions;
    uint32_t buffer = 0;
  };
  struct Input {
    int part = kNotATile;
    std::optional<View> view = {};  // none: the tile, or absent
    size_t held = 0;
  };
  struct Step {
    uint32_t code;
    bool whole_rows;
    std::vector<Input> inputs;
    std::optional<size_t> out = {};  // held; none: in place
    std::optional<View> kept = {};
  };

  size_t Hold(std::string name, int64_t element, bool vector, uint32_t versions);
  void AddStage(const FusedStage& stage, int64_t& element, size_t index, bool last);
  void LoadVector(const View& view, size_t held, Expr first, Expr count);
  void StoreTile(const Tile& tile, const View& view, Place from);

  KernelBuilder& k_;
  std::optional<View> bias_;
  View out_;
  std::optional<View> product_kept_;
  std::vector<Expr> columns_;
  std::vector<Held> held_;
  std::vector<size_t> bias_held_, rounded_;  // by part
  std::vector<Step> steps_;
  uint32_t add_bias_ = 0, round_ = 0;
  bool rounds_ = false, whole_rows_ = false;
};

}  // namespace liveshape::npu
