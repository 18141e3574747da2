#include "backends/npu/lower/map.h"

#include <algorithm>

#include "sym/axis_split.h"

namespace liveshape::npu {

std::vector<Expr> MergeDims(KernelBuilder& k, std::span<const View> views, size_t count) {
  const std::vector<Expr>& dims = views[0].dims;
  std::vector<Expr> extents;
  Expr carried = k.Int(1);
  for (size_t d = 0; d < count; ++d) {
    const Expr extent = carried * dims[d];
    Expr dense = k.Int(d + 1 < count);
    if (dense.is_int(1)) {
      for (const View& view : views)
        dense = sym::And(dense, sym::Eq(view.strides[d], view.strides[d + 1] * dims[d + 1]));
      dense = sym::Or(dense, sym::Eq(extent, k.Int(1)));
    }
    extents.push_back(k.Let("extent", sym::Select(dense, k.Int(1), extent)));
    carried = k.Let("carried", sym::Select(dense, extent, k.Int(1)));
  }
  return extents;
}

std::vector<View> CommonDims(KernelBuilder& k, std::vector<View> views) {
  const auto same = [&](const View& view) { return view.dims == views[0].dims; };
  if (std::all_of(views.begin(), views.end(), same)) return views;
  std::vector<Expr> boundaries;
  for (const View& view : views) {
    Expr product = k.Int(1);
    for (size_t d = view.rank(); d-- > 0;) boundaries.push_back(product = product * view.dims[d]);
  }
  const auto split = sym::AxisSplit(k.table(), sym::Product(k.table(), views[0].dims), boundaries);
  LS_CHECK(split);  // absorb.cc asked
  for (View& view : views) {
    View refined = view;
    refined.dims.clear();
    refined.strides.clear();
    size_t d = view.rank();
    Expr inside = k.Int(1), end = inside;  // elements inside dim d, and up to its end
    for (size_t i = 0; i + 1 < split->size(); ++i) {
      while ((*split)[i] == end) {  // dims of extent 1 are passed over
        inside = end;
        end = end * view.dims[--d];
        if (end != inside) break;
      }
      refined.dims.insert(refined.dims.begin(),
                          *sym::ExactQuotient(k.table(), (*split)[i + 1], (*split)[i]));
      refined.strides.insert(refined.strides.begin(),
                             *sym::ExactQuotient(k.table(), (*split)[i], inside) * view.strides[d]);
    }
    view = std::move(refined);
  }
  return views;
}

void LowerMove(KernelBuilder& k, const View& to, const View& from) {
  Map map(k, {to, from}, {});
  const uint32_t buffer = k.AddBuffer("x", map.BufferBytes(1));
  map.ForEachTile([&](const MapTile& tile) {
    k.Dispatch();
    k.Load(from, k.At(buffer), tile.offset[1], tile.box[1]);
    k.BarrierLoads();
    k.Store(to, k.At(buffer), tile.offset[0], tile.box[0]);
    k.BarrierTile();
  });
}

Map::Map(KernelBuilder& k, std::vector<View> operands, const Options& options)
    : k_(k), operands_(std::move(operands)), extents_(operands_[0].dims) {
  if (options.merge) extents_ = MergeDims(k, operands_, extents_.size());
  int64_t bytes = options.scratch_bytes;
  for (const View& view : operands_) bytes += 2 * view.element();
  ChooseTile(bytes);
}

void Map::ChooseTile(int64_t bytes_per_element) {
  const Target& target = k_.lowering().target;
  int64_t widest = 1;
  for (const View& view : operands_) widest = std::max(widest, view.element());
  int64_t most = kBlockBytes / widest;
  while (most > 16 && most * bytes_per_element > target.scratchpad_bytes) most /= 2;
  elements_ = {most / 16, most / 4, most};
  if (target.forced_tile > 0) {
    elements_ = {target.forced_tile};
  } else {
    const Expr numel = k_.Let("numel", sym::Product(k_.table(), operands_[0].dims));
    const auto enough = [&](size_t v) {
      return sym::Le(k_.Int(kTilesWanted * elements_[v]), numel);
    };
    k_.SetVariants(3,
                   sym::Select(enough(2), k_.Int(2), sym::Select(enough(1), k_.Int(1), k_.Int(0))));
  }
  // Innermost first: as much of each dim as there is room for.
  Expr room = k_.Let("room", k_.ByVariant(elements_));
  tiles_.resize(extents_.size());
  for (size_t d = extents_.size(); d-- > 0;) {
    const bool boxed = d + LS_TRACE_MAX_RANK >= extents_.size();
    tiles_[d] =
        boxed ? k_.Let("tile", sym::Max(k_.Int(1), sym::Min(extents_[d], room))) : k_.Int(1);
    if (d > 0) room = k_.Let("room", sym::FloorDiv(room, tiles_[d]));
  }
}

std::vector<int64_t> Map::BufferBytesOf(int64_t element_bytes) const {
  std::vector<int64_t> bytes;
  for (int64_t elements : elements_) bytes.push_back(elements * element_bytes);
  return bytes;
}

std::vector<int64_t> Map::BufferBytes(size_t operand) const {
  return BufferBytesOf(operands_[operand].element());
}

void Map::ForEachTile(const std::function<void(const MapTile&)>& body) {
  MapTile tile{.elements = k_.Int(1)};
  for (const View& view : operands_) tile.offset.push_back(view.offset);
  tile.box.resize(operands_.size());
  Nest(0, std::move(tile), body);
}

void Map::Nest(size_t dim, MapTile tile, const std::function<void(const MapTile&)>& body) {
  if (dim == extents_.size()) {
    Expr inner = k_.Int(1);  // elements of a tile inside this dim
    for (size_t d = extents_.size(); d-- > 0;) {
      if (d + LS_TRACE_MAX_RANK >= extents_.size())  // the others advance one at a time
        for (size_t i = 0; i < operands_.size(); ++i)
          tile.box[i].insert(tile.box[i].begin(), {tile.live[d], operands_[i].strides[d],
                                                   inner * operands_[i].element()});
      inner = inner * tile.live[d];
    }
    tile.elements = k_.Let("elements", inner);
    for (size_t i = 0; i < operands_.size(); ++i)
      if (tile.box[i].empty())  // one element
        tile.box[i].push_back(
            {k_.Int(1), k_.Int(operands_[i].element()), k_.Int(operands_[i].element())});
    k_.Item();
    return body(tile);
  }
  k_.Tiles(fmt::format("i{}", dim), extents_[dim], tiles_[dim], [&](Span span) {
    MapTile inner = tile;
    inner.start.push_back(span.start);
    inner.live.push_back(span.live);
    for (size_t i = 0; i < operands_.size(); ++i)
      inner.offset[i] = k_.Let("at", inner.offset[i] + span.start * operands_[i].strides[dim]);
    Nest(dim + 1, std::move(inner), body);
  });
}

}  // namespace liveshape::npu
