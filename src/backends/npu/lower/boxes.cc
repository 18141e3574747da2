#include "backends/npu/lower/boxes.h"

#include <algorithm>
#include <numeric>

namespace liveshape::npu {
namespace {

constexpr int64_t kBlockElements = kBlockBytes / 4;

int64_t BytesOfAnElement(const Boxes& boxes) {
  int64_t bytes = 0;
  for (const BoxOperand& operand : boxes.operands) bytes += 2 * operand.view.element();
  return bytes;
}

// Elements of a box, by variant: blocks as vector work likes them, larger ones only for rows that need it.
std::vector<int64_t> Capacities(int64_t bytes, const Target& target) {
  std::vector<int64_t> list = {kBlockElements / 16};
  while (list[0] > 1 && list[0] * bytes > target.scratchpad_bytes) list[0] /= 2;
  for (int64_t elements : {kBlockElements / 4, kBlockElements, 8 * kBlockElements})
    if (elements * bytes <= target.scratchpad_bytes) list.push_back(elements);
  int64_t most = list.back();
  while (2 * most * bytes <= target.scratchpad_bytes) most *= 2;
  if (most > list.back()) list.push_back(most);
  return list;
}

class BoxLowering {
 public:
  BoxLowering(KernelBuilder& k, const Boxes& boxes, uint32_t code)
      : k_(k), boxes_(boxes), code_(code) {}

  Status Run() {
    const size_t rank = boxes_.dims.size();
    if (rank > LS_TRACE_MAX_RANK)
      return Unsupported("rank {} on the NPU: at most {} is served", rank, LS_TRACE_MAX_RANK);
    // A row is what the dims that are whole hold of the operand that has most of them.
    Expr row = k_.Int(0), rows = k_.Int(1), work = k_.Int(1);
    for (const BoxOperand& operand : boxes_.operands) {
      Expr whole = k_.Int(1);
      for (int d : operand.dims)
        if (d != kNoDim && boxes_.whole[static_cast<size_t>(d)])
          whole = whole * boxes_.dims[static_cast<size_t>(d)];
      row = sym::Max(row, whole);
    }
    for (size_t d = 0; d < rank; ++d)
      (boxes_.whole[d] ? work : rows) = (boxes_.whole[d] ? work : rows) * boxes_.dims[d];
    work_ = k_.Let("work", boxes_.work ? boxes_.work : work);
    const Expr all = rows * row;
    const Target& target = k_.lowering().target;
    std::vector<int64_t> capacity = Capacities(BytesOfAnElement(boxes_), target);
    const Expr fits = sym::Le(row, k_.Int(capacity.back()));
    if (!boxes_.pieces && !boxes_.guarded && k_.table().Bounds(row).hi > capacity.back())
      return ResourceExhausted(
          "a row of {} elements (at most {}) does not fit the scratchpad of {} bytes, which takes "
          "{}",
          sym::ToString(row), k_.table().Bounds(row).hi, target.scratchpad_bytes, capacity.back());
    // The largest block that leaves enough tiles, but none smaller than a row.
    const int64_t forced = target.forced_tile;
    Expr variant = k_.Int(0);
    for (size_t v = 1; v < capacity.size(); ++v) {
      const Expr enough = forced > 0 ? sym::Lt(k_.Int(capacity[v - 1]), row * forced)
                                     : sym::And(sym::Le(k_.Int(kTilesWanted * capacity[v]), all),
                                                k_.Int(capacity[v] <= kBlockElements));
      variant = sym::Select(sym::Or(enough, sym::Lt(k_.Int(capacity[v - 1]), row)),
                            k_.Int(static_cast<int64_t>(v)), variant);
    }
    const bool in_pieces = boxes_.pieces && !fits.is_int(1);
    std::vector<int64_t> state(capacity.size(), 0);
    if (in_pieces) {
      variant = sym::Select(fits, variant, k_.Int(static_cast<int64_t>(capacity.size())));
      piece_ = kBlockElements;
      const int64_t state_bytes = 2 * static_cast<int64_t>(sizeof(PieceState));
      while (rows_of_a_piece_ > 1 && 4 * rows_of_a_piece_ * state_bytes > target.scratchpad_bytes)
        rows_of_a_piece_ /= 2;
      state.push_back(rows_of_a_piece_ * state_bytes / 2);
      while (piece_ > rows_of_a_piece_ &&
             piece_ * BytesOfAnElement(boxes_) + rows_of_a_piece_ * state_bytes >
                 target.scratchpad_bytes)
        piece_ /= 2;
      capacity.push_back(piece_);
    }
    k_.SetVariants(static_cast<uint32_t>(capacity.size()), variant);
    for (size_t i = 0; i < boxes_.operands.size(); ++i) {
      std::vector<int64_t> bytes;
      for (int64_t c : capacity) bytes.push_back(c * boxes_.operands[i].view.element());
      buffers_.push_back(k_.AddBuffer(
          i < boxes_.outputs ? fmt::format("out{}", i) : fmt::format("in{}", i - boxes_.outputs),
          bytes));
    }
    if (in_pieces) state_ = k_.AddBuffer("state", state, 2, Turn::kItem);
    Expr room = sym::FloorDiv(k_.ByVariant(capacity), sym::Max(k_.Int(1), row));
    if (forced > 0) room = sym::Min(room, k_.Int(forced));
    room = k_.Let("room", room);
    tiles_.resize(rank);
    for (size_t d = rank; d-- > 0;) {
      if (boxes_.whole[d]) continue;
      tiles_[d] = k_.Let("tile", sym::Max(k_.Int(1), sym::Min(boxes_.dims[d], room)));
      room = k_.Let("room", sym::FloorDiv(room, tiles_[d]));
    }
    filled_ = sym::Lt(k_.Int(0), work);
    k_.If(boxes_.pieces ? fits : k_.Int(1), [&] { Nest(0, {}); });
    if (in_pieces) {
      AddPasses();
      k_.If(sym::Not(fits), [&] { Rows(0, {}); });
    }
    return {};
  }

 private:
  void Nest(size_t dim, std::vector<Span> spans) {
    if (dim == boxes_.dims.size()) return Tile(spans);
    if (boxes_.whole[dim]) {
      spans.push_back({k_.Int(0), boxes_.dims[dim]});
      return Nest(dim + 1, std::move(spans));
    }
    k_.Tiles(fmt::format("i{}", dim), boxes_.dims[dim], tiles_[dim], [&](Span span) {
      std::vector<Span> inner = spans;
      inner.push_back(span);
      Nest(dim + 1, std::move(inner));
    });
  }

  void Tile(const std::vector<Span>& spans) {
    Expr cut = k_.Int(1);
    std::vector<Expr> live;
    for (size_t d = 0; d < spans.size(); ++d) {
      live.push_back(spans[d].live);
      if (!boxes_.whole[d]) cut = cut * spans[d].live;
    }
    std::vector<Place> places;
    for (uint32_t buffer : buffers_) places.push_back(k_.At(buffer));
    // Rows without elements have results all the same (a sum of nothing), and nothing to load.
    const Expr filled = filled_;
    k_.Item();
    k_.Dispatch();
    k_.If(filled, [&] {
      for (size_t i = boxes_.outputs; i < boxes_.operands.size(); ++i) Move(i, spans, false);
    });
    k_.BarrierLoads();
    const std::vector<Expr> extents = {k_.Let("rows", cut), work_};
    k_.If(filled, [&] { k_.Compute(code_, extents, places, live); });
    if (!SpansRow()) {
      places.resize(boxes_.outputs);
      k_.If(sym::Not(filled), [&] { k_.Compute(code_, extents, places, live); });
    }
    k_.If(SpansRow() ? filled : k_.Int(1), [&] {
      for (size_t i = 0; i < boxes_.outputs; ++i) Move(i, spans, true);
    });
    k_.BarrierTile();
  }

  void AddPasses() {
    const auto add = [&](const std::optional<Pass>& pass, int outputs) {
      if (!pass) return uint32_t{0};
      Code code = pass->code;
      code.outputs = outputs;
      return k_.AddCode(std::move(code), pass->values);
    };
    const Pieces& pieces = *boxes_.pieces;
    gather_ = add(pieces.gather, 1);
    finish_ = add(pieces.finish, 1);
    apply_ = add(pieces.apply, pieces.gather ? 1 : 2);
  }

  // One row an item; where the innermost dim is cut, rows that lie side by side.
  void Rows(size_t dim, std::vector<Span> spans) {
    if (dim == boxes_.dims.size()) return PiecesOf(std::move(spans));
    if (boxes_.whole[dim]) {
      spans.push_back({k_.Int(0), boxes_.dims[dim]});
      return Rows(dim + 1, std::move(spans));
    }
    const bool together =
        dim + 1 == boxes_.dims.size() && std::ranges::count(boxes_.whole, true) == 1;
    const Expr tile =
        together ? k_.Let("side",
                          sym::Max(k_.Int(1), sym::Min(boxes_.dims[dim], k_.Int(rows_of_a_piece_))))
                 : k_.Int(1);
    k_.Tiles(fmt::format("r{}", dim), boxes_.dims[dim], tile, [&](Span span) {
      std::vector<Span> inner = spans;
      inner.push_back(span);
      Rows(dim + 1, std::move(inner));
    });
  }

  void PiecesOf(std::vector<Span> rows) {
    const size_t rank = rows.size();
    const Expr inner = boxes_.whole.back() ? k_.Int(1) : rows.back().live;
    // Innermost first: as much of each dim as there is room for.
    std::vector<Expr> tiles(rank);
    Expr room = k_.Let("room", sym::FloorDiv(k_.Int(piece_), inner));
    for (size_t d = rank; d-- > 0;) {
      if (!boxes_.whole[d]) continue;
      tiles[d] = k_.Let("tile", sym::Max(k_.Int(1), sym::Min(boxes_.dims[d], room)));
      room = k_.Let("room", sym::FloorDiv(room, tiles[d]));
    }
    const Pieces& pieces = *boxes_.pieces;
    k_.Item();
    if (pieces.gather)
      EachPiece(0, rows, tiles, [&](const std::vector<Span>& spans) {
        k_.Dispatch();
        Move(boxes_.outputs, spans, false);
        k_.BarrierLoads();
        ComputePiece(gather_, spans, inner, {k_.At(state_), k_.At(buffers_[boxes_.outputs])});
        k_.BarrierTile();
      });
    if (pieces.finish) {
      k_.Dispatch();
      ComputePiece(finish_, rows, inner, {k_.At(buffers_[0]), k_.At(state_)});
      Move(0, rows, true);
      k_.BarrierTile();
    }
    if (pieces.apply)
      EachPiece(0, rows, tiles, [&](const std::vector<Span>& spans) {
        std::vector<Place> places = {k_.At(buffers_[0]), k_.At(state_)};
        k_.Dispatch();
        for (size_t i = boxes_.outputs; i < boxes_.operands.size(); ++i) {
          Move(i, spans, false);
          places.push_back(k_.At(buffers_[i]));
        }
        k_.BarrierLoads();
        ComputePiece(apply_, spans, inner, std::move(places));
        Move(0, spans, true);
        k_.BarrierTile();
      });
  }

  void EachPiece(size_t dim, std::vector<Span> spans, const std::vector<Expr>& tiles,
                 const std::function<void(const std::vector<Span>&)>& body) {
    if (dim == spans.size()) return body(spans);
    if (!boxes_.whole[dim]) return EachPiece(dim + 1, std::move(spans), tiles, body);
    k_.Tiles(fmt::format("p{}", dim), boxes_.dims[dim], tiles[dim], [&](Span span) {
      std::vector<Span> inner = spans;
      inner[dim] = span;
      EachPiece(dim + 1, std::move(inner), tiles, body);
    });
  }

  void ComputePiece(uint32_t code, const std::vector<Span>& spans, Expr inner,
                    std::vector<Place> places) {
    Expr length = k_.Int(1), start = k_.Int(0), total = k_.Int(1), first = k_.Int(1);
    for (size_t d = 0; d < spans.size(); ++d) {
      if (!boxes_.whole[d]) continue;
      length = length * spans[d].live;
      total = total * boxes_.dims[d];
      first = sym::And(first, sym::Eq(spans[d].start, k_.Int(0)));
      start = spans[d].start;  // asked for along one dim only
    }
    length = k_.Let("length", length);
    k_.Compute(code, {inner, length}, std::move(places),
               {k_.Int(1), length, inner, first, start, k_.Let("total", total)});
  }

  // Is the output empty where a row is?
  bool SpansRow() const {
    for (int d : boxes_.operands[0].dims)
      if (d != kNoDim && boxes_.whole[static_cast<size_t>(d)]) return true;
    return false;
  }

  void Move(size_t i, const std::vector<Span>& spans, bool store) {
    const BoxOperand& operand = boxes_.operands[i];
    const int64_t element = operand.view.element();
    Expr offset = operand.view.offset, dense = k_.Int(element);
    std::vector<BoxDim> box;
    for (size_t d = operand.dims.size(); d-- > 0;) {
      if (operand.dims[d] == kNoDim) continue;
      const Span& span = spans[static_cast<size_t>(operand.dims[d])];
      offset = offset + span.start * operand.view.strides[d];
      box.insert(box.begin(), {span.live, operand.view.strides[d], dense});
      dense = dense * span.live;
    }
    if (box.empty()) box.push_back({k_.Int(1), k_.Int(element), k_.Int(element)});
    if (store)
      k_.Store(operand.view, k_.At(buffers_[i]), offset, std::move(box));
    else
      k_.Load(operand.view, k_.At(buffers_[i]), offset, std::move(box));
  }

  KernelBuilder& k_;
  const Boxes& boxes_;
  const uint32_t code_;
  std::vector<uint32_t> buffers_;
  std::vector<Expr> tiles_;
  Expr work_, filled_;
  int64_t piece_ = 0;  // elements
  // Rows that lie side by side are taken together, so that a run of memory has more than one element.
  int64_t rows_of_a_piece_ = 64;
  uint32_t state_ = 0, gather_ = 0, finish_ = 0, apply_ = 0;
};

}  // namespace

int64_t RowCapacity(const Target& target, int64_t bytes) {
  return Capacities(2 * bytes, target).back();
}

Status LowerEither(const Lowering& l, Expr fits, const LowerFunction& fit,
                   const LowerFunction& other, std::vector<Kernel>& kernels) {
  Lowering part = l;
  part.when = fits.is_int() ? Expr() : fits;
  if (!fits.is_int(0)) LS_RETURN_IF_ERROR(fit(part, kernels));
  if (fits.is_int(1)) return {};
  part.when = fits.is_int() ? Expr() : sym::Not(fits);
  part.name += "_pieces";
  return other(part, kernels);
}

Boxes SameBoxes(std::vector<View> operands) {
  Boxes boxes{.dims = operands[0].dims};
  boxes.whole.assign(boxes.dims.size(), false);
  std::vector<int> all(boxes.dims.size());
  std::iota(all.begin(), all.end(), 0);
  for (View& view : operands) boxes.operands.push_back({std::move(view), all});
  return boxes;
}

Status LowerBoxes(KernelBuilder& k, const Boxes& boxes, Code code, ValueFunction values) {
  code.outputs = static_cast<int>(boxes.outputs);
  return BoxLowering(k, boxes, k.AddCode(std::move(code), std::move(values))).Run();
}

Result<std::optional<Stage>> RowStage(const Lowering& l, Code code) {
  Boxes tile;
  tile.operands = {{View{.dtype = l.step.outputs[0].dtype}, {0, 1}},
                   {View{.dtype = l.step.inputs[0].dtype}, {0, 1}}};
  for (size_t i = 1; i < l.step.inputs.size(); ++i)
    if (l.has(i)) tile.operands.push_back({View{.dtype = l.step.inputs[i].dtype}, {1}});
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, tile));
  return std::optional(Stage{std::move(code), std::move(values), /*whole_rows=*/true});
}

}  // namespace liveshape::npu
