#include "backends/npu/lower/indexed.h"

#include <algorithm>

#include "base/observe.h"
#include "ops/linear/panel.h"
#include "ops/pointwise/npu_values.h"

namespace liveshape::npu {
namespace {

constexpr int64_t kMostEntries = 4096;  // indices of a tile

// Operands: addresses, then the indices. Arguments: size and stride of each indexed axis. More axes than a record has
// arguments for are added by another one, which continues.
constexpr size_t kAxesOfARecord = LS_TRACE_MAX_RANK / 2;

ValueFunction AddressValues(std::vector<DType> dtypes, bool wrap, bool panels, bool continues) {
  return [dtypes = std::move(dtypes), wrap, panels, continues](const ValueCall& call) -> Status {
    const int64_t n = call.record.extent[0];
    int64_t* const address = call.as<int64_t>(0);
    const size_t axes = dtypes.size();
    for (int64_t i = 0; i < n; ++i) {
      if (!continues) address[i] = 0;
      for (size_t a = 0; a < axes; ++a) {
        const int64_t size = call.record.argument[2 * a], stride = call.record.argument[2 * a + 1];
        int64_t value =
            dtypes[a] == DType::kI64 ? call.as<int64_t>(a + 1)[i] : call.as<int32_t>(a + 1)[i];
        if (value < (wrap ? -size : 0) || value >= size) {
          AllocationPause pause;
          return OutOfRange("index {} is outside a dim of size {} (allowed: {} to {})", value, size,
                            wrap ? -size : 0, size - 1);
        }
        if (value < 0) value += size;
        address[i] +=
            panels ? value / ops::kPanelRows * stride + value % ops::kPanelRows : value * stride;
      }
    }
    return {};
  };
}

}  // namespace

void SplitDims(IndexedMove& move) {
  bool adjacent = true;
  for (size_t i = 0; i < move.axes.size(); ++i)
    adjacent = adjacent && move.axes[i] == move.axes[0] + i;
  for (size_t d = 0; d < move.x.rank(); ++d) {
    if (std::find(move.axes.begin(), move.axes.end(), d) != move.axes.end()) continue;
    (adjacent && d < move.axes[0] ? move.outer : move.inner).push_back(d);
  }
}

Status LowerIndexed(KernelBuilder& k, const IndexedMove& move) {
  const View &x = move.x, &dense = move.dense;
  const size_t first_index = move.outer.size(), index_rank = move.indices[0].rank();
  if (1 + move.inner.size() > LS_TRACE_MAX_RANK ||
      index_rank + move.inner.size() > LS_TRACE_MAX_RANK)
    return Unsupported("an index of rank {} over {} inner dims on the NPU", index_rank,
                       move.inner.size());
  const int64_t element = x.element();
  Expr inner = k.Int(1);
  for (size_t d : move.inner) inner = inner * x.dims[d];
  inner = k.Let("inner", inner);

  // Elements of a tile: a block, or one box of the inner dims where that is larger.
  const int64_t scratchpad = k.lowering().target.scratchpad_bytes;
  int64_t an_entry = 8;  // bytes
  for (const View& view : move.indices) an_entry += 2 * view.element();
  int64_t entries_most = kMostEntries;
  while (entries_most > 16 && entries_most * an_entry > scratchpad / 4) entries_most /= 2;
  const auto fits = [&](int64_t elements) {
    return (move.accumulate ? 6 : 2) * elements * element + entries_most * an_entry <= scratchpad;
  };
  std::vector<int64_t> capacity = {kBlockBytes / element};
  while (capacity[0] > 16 && !fits(capacity[0])) capacity[0] /= 2;
  for (int64_t c : {8 * kBlockBytes / element, 32 * kBlockBytes / element})
    if (fits(c)) capacity.push_back(c);
  const int64_t longest = k.table().Bounds(inner).hi;
  if (longest > capacity.back())
    return ResourceExhausted(
        "{} elements an index do not fit the scratchpad of {} bytes, which takes {}", longest,
        scratchpad, capacity.back());
  Expr variant = k.Int(0);
  for (size_t v = 1; v < capacity.size(); ++v)
    variant = sym::Select(sym::Lt(k.Int(capacity[v - 1]), inner), k.Int(static_cast<int64_t>(v)),
                          variant);
  k.SetVariants(static_cast<uint32_t>(capacity.size()), variant);
  std::vector<int64_t> bytes;
  for (int64_t c : capacity) bytes.push_back(c * element);
  const uint32_t data = k.AddBuffer("data", bytes);
  const uint32_t address = k.AddBuffer("address", entries_most * 8, 1);
  std::vector<uint32_t> index;
  for (size_t i = 0; i < move.indices.size(); ++i)
    index.push_back(
        k.AddBuffer(fmt::format("index{}", i), entries_most * move.indices[i].element()));
  std::vector<uint32_t> addresses;  // codes
  for (size_t begin = 0; begin < move.indices.size(); begin += kAxesOfARecord) {
    std::vector<DType> dtypes;
    for (size_t i = begin; i < std::min(begin + kAxesOfARecord, move.indices.size()); ++i)
      dtypes.push_back(move.indices[i].dtype);
    Code code{.name = "address"};
    // Compare twice, select, multiply and add, in 64 bits.
    code.per_element[VectorClass::kSimple] = static_cast<float>(10 * dtypes.size());
    addresses.push_back(
        k.AddCode(code, AddressValues(std::move(dtypes), move.wrap, move.panels, begin > 0)));
  }
  uint32_t old = 0, sum = 0, add = 0;
  if (move.accumulate) {
    old = k.AddBuffer("old", bytes);
    sum = k.AddBuffer("sum", bytes);
    ir::PointwiseProgram program;
    program.code = {{.op = ir::PwOp::kLoad, .dtype = x.dtype, .imm = 0},
                    {.op = ir::PwOp::kLoad, .dtype = x.dtype, .imm = 1},
                    {.op = ir::PwOp::kAdd, .dtype = x.dtype, .a = 0, .b = 1}};
    LS_ASSIGN_OR_RETURN(ValueFunction values, PointwiseValues(program, {x.dtype, x.dtype}));
    Code adding{.name = "add"};
    adding.per_element[VectorClass::kSimple] = element > 4 ? 2 : 1;
    add = k.AddCode(adding, std::move(values));
  }
  // A panel's element strides are in units of an element, so that a row inside a panel is one.
  const Expr unit = k.Int(move.panels ? element : 1);
  std::vector<Expr> arguments;
  for (size_t axis : move.axes) {
    arguments.push_back(x.dims[axis]);
    arguments.push_back(move.panels ? x.dims[1] * ops::kPanelRows : x.strides[axis]);
  }

  // Entries of a tile: what fits of the innermost dims of the indices, then of the next.
  Expr room = k.Let("room", sym::Min(k.Int(move.accumulate ? 1 : entries_most),
                                     sym::Max(k.Int(1), sym::FloorDiv(k.ByVariant(capacity),
                                                                      sym::Max(k.Int(1), inner)))));
  std::vector<Expr> tiles(index_rank);
  for (size_t d = index_rank; d-- > 0;) {
    tiles[d] = k.Let("tile", sym::Max(k.Int(1), sym::Min(move.indices[0].dims[d], room)));
    room = k.Let("room", sym::FloorDiv(room, tiles[d]));
  }

  const auto tile = [&](Expr x_at, Expr dense_at, const std::vector<Span>& spans) {
    Expr entries = k.Int(1);
    for (const Span& span : spans) entries = entries * span.live;
    entries = k.Let("entries", entries);
    // Boxes, innermost last: of the indices, of the indexed side, and of the other.
    std::vector<BoxDim> x_box, dense_box;
    Expr stride = k.Int(element), inner_bytes = stride;
    for (size_t i = move.inner.size(); i-- > 0;) {
      const size_t d = move.inner[i];
      const Expr x_stride = move.panels ? k.Int(ops::kPanelRows * element) : x.strides[d];
      x_box.insert(x_box.begin(), {x.dims[d], x_stride, stride});
      dense_box.insert(dense_box.begin(),
                       {x.dims[d], dense.strides[first_index + index_rank + i], stride});
      stride = inner_bytes = stride * x.dims[d];
    }
    for (size_t d = index_rank; d-- > 0;) {
      dense_box.insert(dense_box.begin(), {spans[d].live, dense.strides[first_index + d], stride});
      dense_at = dense_at + spans[d].start * dense.strides[first_index + d];
      stride = stride * spans[d].live;
    }
    x_box.insert(x_box.begin(), {entries, unit, inner_bytes});
    if (dense_box.empty()) dense_box.push_back({k.Int(1), k.Int(element), k.Int(element)});
    k.Dispatch();
    for (size_t i = 0; i < move.indices.size(); ++i) {
      const View& view = move.indices[i];
      Expr at = view.offset, dense_stride = k.Int(view.element());
      std::vector<BoxDim> box;
      for (size_t d = index_rank; d-- > 0;) {
        at = at + spans[d].start * view.strides[d];
        box.insert(box.begin(), {spans[d].live, view.strides[d], dense_stride});
        dense_stride = dense_stride * spans[d].live;
      }
      if (box.empty()) box.push_back({k.Int(1), k.Int(view.element()), k.Int(view.element())});
      k.Load(view, k.At(index[i]), at, std::move(box));
    }
    if (move.scatter) k.Load(dense, k.At(data), dense_at, dense_box);
    k.BarrierLoads();
    for (size_t r = 0; r < addresses.size(); ++r) {
      std::vector<Place> places = {k.At(address)};
      std::vector<Expr> numbers;
      for (size_t i = r * kAxesOfARecord; i < index.size() && i < (r + 1) * kAxesOfARecord; ++i) {
        places.push_back(k.At(index[i]));
        numbers.insert(numbers.end(), {arguments[2 * i], arguments[2 * i + 1]});
      }
      k.Compute(addresses[r], {entries}, std::move(places), std::move(numbers));
    }
    if (move.accumulate) {
      k.Load(x, k.At(old), x_at, x_box, k.At(address));
      k.BarrierLoads();
      k.Compute(add, {inner}, {k.At(sum), k.At(old), k.At(data)});
      k.Store(x, k.At(sum), x_at, x_box, k.At(address));
    } else if (move.scatter) {
      k.Store(x, k.At(data), x_at, x_box, k.At(address));
    } else {
      k.Load(x, k.At(data), x_at, x_box, k.At(address));
      k.BarrierLoads();
      k.Store(dense, k.At(data), dense_at, dense_box);
    }
    k.BarrierTile();
  };

  const std::function<void(size_t, Expr, Expr, std::vector<Span>)> nest =
      [&](size_t d, Expr x_at, Expr dense_at, std::vector<Span> spans) {
        if (d < move.outer.size()) {
          k.Loop(fmt::format("o{}", d), x.dims[move.outer[d]], [&](Expr i) {
            nest(d + 1, k.Let("x_at", x_at + i * x.strides[move.outer[d]]),
                 k.Let("dense_at", dense_at + i * dense.strides[d]), spans);
          });
          return;
        }
        const size_t i = d - move.outer.size();
        // Two entries may write one place, the later wins: a scatter is one item for each outer position.
        if (i == (move.scatter ? 0 : index_rank)) k.Item();
        if (i == index_rank) return tile(x_at, dense_at, spans);
        k.Tiles(fmt::format("e{}", i), move.indices[0].dims[i], tiles[i], [&](Span span) {
          std::vector<Span> inner_spans = spans;
          inner_spans.push_back(span);
          nest(d + 1, x_at, dense_at, std::move(inner_spans));
        });
      };
  // Nothing to move at all: addresses would be computed for boxes without elements.
  k.If(sym::Lt(k.Int(0), inner), [&] { nest(0, x.offset, dense.offset, {}); });
  return {};
}

}  // namespace liveshape::npu
