// What becomes of a tile of sums before it is stored: bias, rounding to the product's dtype, and the stages that were fused
// behind it (fuse.h). Products and convolutions have it in common.
//
//   Epilogue epilogue(l, k, bias);                          // adds codes
//   ... choose tiles: sums + epilogue.Bytes({...}) must fit
//   epilogue.AddBuffers({{.elements = m * n, .columns = n, .strip = ...}});      // by variant
//   item:
//     steps of K, in the last of which, before and after the product:
//       epilogue.LoadVectors(columns); ...; epilogue.FinishSums(tile, sums);
//     if (epilogue.in_strips()), for every strip of the tile's rows:
//       epilogue.RunStrip(strip, sums);
//
// A tile is rows by columns, dense. Stages that read nothing of the tile's shape are computed in place, where the sums lie.
// Others go through the tile in strips, so that what they read takes little room from the sums: a smaller tile would load
// more (1.4 times the cycles of a product of K = 4096 + residual on machines/quad.yaml).
#pragma once

#include "backends/npu/lower/fuse.h"

namespace liveshape::npu {

// Rows of a strip of a tile of so many: a quarter, or as much less, down to 1/32, as fits(rows) asks for. A strip is a tile of
// its item, and the loads of the next item wait for it, so larger ones are better. Halved, so that only a tile that is a tail
// itself has a strip that is one.
int64_t StripRows(int64_t tile_rows, const std::function<bool(int64_t rows)>& fits);

class Epilogue {
 public:
  // bias: a vector along the columns.
  Epilogue(const Lowering& l, KernelBuilder& k, std::optional<View> bias);

  // Sums that a tile keeps, and at which column of the product each begins.
  const std::vector<Expr>& columns() const { return columns_; }
  // Whatever has the dims of the result, which is the first: they are walked together.
  std::vector<View> Shaped() const;
  bool whole_rows() const { return whole_rows_; }
  bool in_strips() const { return in_strips_; }

  struct Sizes { int64_t elements, columns, strip; };  // elements of a tile and of a strip
  int64_t Bytes(const Sizes& sizes) const;             // beyond the sums
  void AddBuffers(const std::vector<Sizes>& by_variant);

  struct Box {
    Expr offset;
    std::vector<BoxDim> dims;
  };
  // A tile, or a strip of it.
  struct Tile {
    std::vector<Expr> rows;                      // extents
    Span columns;                                // of each part
    std::function<Box(const View& shaped)> box;  // its part of a view with the dims of the result
    Expr first_row = {};                         // of a strip, in its tile
  };
  void LoadVectors(Span columns);
  void FinishSums(const Tile& tile, const std::vector<Place>& sums);
  void RunStrip(const Tile& strip, const std::vector<Place>& sums);

 private:
  enum class Room : uint8_t { kTile, kVector, kStrip };
  struct Held {
    std::string name;
    int64_t element;
    Room room;
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

  size_t Hold(std::string name, int64_t element, Room room);
  void AddStage(const FusedStage& stage, size_t index, bool last);
  void ComputeStages(const Tile& tile, std::vector<Place> parts);
  void LoadVector(const View& view, size_t held, Expr first, Expr count);
  void StoreTile(const Tile& tile, const View& view, Place from);
  std::vector<Place> Rounded(const std::vector<Place>& sums) const;

  KernelBuilder& k_;
  std::optional<View> bias_;
  View out_;
  std::optional<View> product_kept_;
  std::vector<Expr> columns_;
  std::vector<Held> held_;
  std::vector<size_t> bias_held_, rounded_;  // by part
  std::vector<Step> steps_;
  uint32_t add_bias_ = 0, round_ = 0;
  int64_t sum_element_ = 4;    // as stages read it
  int64_t stage_element_ = 4;  // of what the last stage so far makes
  bool rounds_ = false, whole_rows_ = false, in_strips_ = false;
};

}  // namespace liveshape::npu
