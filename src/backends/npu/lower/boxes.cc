#include "backends/npu/lower/boxes.h"

#include <numeric>

namespace liveshape::npu {
namespace {

constexpr int64_t kBlockElements = kBlockBytes / 4;

// Elements of a box, by variant: blocks as vector work likes them, larger ones only for rows that need it.
std::vector<int64_t> Capacities(const Boxes& boxes, const Target& target) {
  int64_t bytes = 0;  // an element of the box
  for (const BoxOperand& operand : boxes.operands) bytes += 2 * operand.view.element();
  std::vector<int64_t> list;
  for (int64_t elements : {kBlockElements / 16, kBlockElements / 4, kBlockElements,
                           8 * kBlockElements, 64 * kBlockElements})
    if (list.empty() || elements * bytes <= target.scratchpad_bytes) list.push_back(elements);
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
    const std::vector<int64_t> capacity = Capacities(boxes_, k_.lowering().target);
    const int64_t longest = k_.table().Bounds(row).hi;
    if (longest > capacity.back())
      return ResourceExhausted(
          "a row of {} elements (at most {}) does not fit the scratchpad of {} bytes, which takes "
          "{}",
          sym::ToString(row), longest, k_.lowering().target.scratchpad_bytes, capacity.back());
    // The largest block that leaves enough tiles, but none smaller than a row.
    Expr variant = k_.Int(0);
    for (size_t v = 1; v < capacity.size(); ++v) {
      const Expr enough = sym::And(sym::Le(k_.Int(kTilesWanted * capacity[v]), all),
                                   k_.Int(capacity[v] <= kBlockElements));
      variant = sym::Select(sym::Or(enough, sym::Lt(k_.Int(capacity[v - 1]), row)),
                            k_.Int(static_cast<int64_t>(v)), variant);
    }
    k_.SetVariants(static_cast<uint32_t>(capacity.size()), variant);
    for (size_t i = 0; i < boxes_.operands.size(); ++i) {
      std::vector<int64_t> bytes;
      for (int64_t c : capacity) bytes.push_back(c * boxes_.operands[i].view.element());
      buffers_.push_back(k_.AddBuffer(
          i < boxes_.outputs ? fmt::format("out{}", i) : fmt::format("in{}", i - boxes_.outputs),
          bytes));
    }
    Expr room = k_.Let("room", sym::FloorDiv(k_.ByVariant(capacity), sym::Max(k_.Int(1), row)));
    tiles_.resize(rank);
    for (size_t d = rank; d-- > 0;) {
      if (boxes_.whole[d]) continue;
      tiles_[d] = k_.Let("tile", sym::Max(k_.Int(1), sym::Min(boxes_.dims[d], room)));
      room = k_.Let("room", sym::FloorDiv(room, tiles_[d]));
    }
    filled_ = sym::Lt(k_.Int(0), work);
    Nest(0, {});
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
};

}  // namespace

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
