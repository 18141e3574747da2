// Rows that fit are sorted as a whole. Of a longer one the best so far are kept while it goes by in pieces: a top-k of any
// row, as long as what it keeps fits.
#include <cstring>

#include "backends/npu/lower/boxes.h"
#include "backends/npu/values/element.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// Steps of a bitonic sorting network over n elements: s * (s + 1) / 2, where s = ceil(log2(n)).
Expr NetworkSteps(KernelBuilder& k, Expr n) {
  Expr steps = k.Int(0);
  for (int64_t s = 1; s <= 40; ++s)
    steps = sym::Select(sym::Lt(k.Int(int64_t{1} << (s - 1)), n), k.Int(s * (s + 1) / 2), steps);
  return steps;
}

// Of values in order, the first is the best; equals stay as they came, NaN is above all.
template <typename T>
bool Before(T a, T b, bool descending) {
  if (a != a || b != b) return descending ? a != a && b == b : a == a && b != b;
  return descending ? a > b : a < b;
}

// Keeps the best `count` of those seen so far, of which `seen` are there.
template <typename T, typename Load, typename Store>
void Select(const ValueCall& call, bool descending, int64_t element, const Load& load,
            const Store& store) {
  const int64_t count = call.record.argument[0], start = call.record.argument[1],
                length = call.record.argument[2];
  std::byte* const best = call.operand[0];
  int64_t* const where = call.as<int64_t>(1);
  for (int64_t i = 0; i < length; ++i) {
    const T value = load(call.operand[2], i);
    const int64_t seen = std::min(count, start + i);
    if (seen == count && (count == 0 || !Before<T>(value, load(best, count - 1), descending)))
      continue;
    int64_t low = 0, high = seen;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (Before<T>(value, load(best, middle), descending))
        high = middle;
      else
        low = middle + 1;
    }
    const int64_t moved = std::min(seen, count - 1) - low;
    std::memmove(best + (low + 1) * element, best + low * element,
                 static_cast<size_t>(moved * element));
    std::memmove(where + low + 1, where + low, static_cast<size_t>(moved) * sizeof(int64_t));
    store(best, low, value);
    where[low] = start + i;
  }
}

ValueFunction SelectValues(DType dtype, bool descending) {
  return [dtype, descending](const ValueCall& call) {
    const int64_t element = static_cast<int64_t>(SizeOf(dtype));
    if (IsFloat(dtype))
      Select<double>(
          call, descending, element,
          [&](const std::byte* from, int64_t i) { return LoadNumber(dtype, from, i); },
          [&](std::byte* to, int64_t i, double v) { StoreNumber(dtype, to, i, v); });
    else
      Select<int64_t>(
          call, descending, element,
          [&](const std::byte* from, int64_t i) { return LoadInteger(dtype, from, i); },
          [&](std::byte* to, int64_t i, int64_t v) { StoreInteger(dtype, to, i, v); });
    return Status();
  };
}

Status LowerPieces(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  const View x = k.In(0), values = k.Out(0), indices = k.Out(1);
  const auto dim = static_cast<size_t>(l.node->Int("dim"));
  const Expr row = x.dims[dim], count = values.dims[dim];
  const int64_t element = x.element(), most = k.table().Bounds(count).hi;
  const int64_t kept = 2 * most * (element + 8);
  int64_t piece = kBlockBytes / element;
  while (piece > 16 && kept + 2 * piece * element > l.target.scratchpad_bytes) piece /= 2;
  if (most > l.target.scratchpad_bytes || kept + 2 * piece * element > l.target.scratchpad_bytes)
    return ResourceExhausted(
        "the first {} of a row of {} elements (at most {}) do not fit the scratchpad of {} bytes",
        most, sym::ToString(row), k.table().Bounds(row).hi, l.target.scratchpad_bytes);
  const uint32_t best = k.AddBuffer("best", most * element, 2, Turn::kItem);
  const uint32_t where = k.AddBuffer("where", most * 8, 2, Turn::kItem);
  const uint32_t in = k.AddBuffer("in", piece * element);
  Code code{.name = "select", .outputs = 2};
  code.per_element[VectorClass::kSimple] = 4;
  const uint32_t select = k.AddCode(code, SelectValues(x.dtype, l.node->Int("descending") != 0));
  const Expr steps = k.Let("steps", NetworkSteps(k, count) + 1);
  const auto store = [&](const View& view, uint32_t buffer, Expr at) {
    k.Store(view, k.At(buffer), at, {{count, view.strides[dim], k.Int(view.element())}});
  };
  const std::function<void(size_t, Expr, Expr, Expr)> rows = [&](size_t d, Expr x_at, Expr v_at,
                                                                 Expr i_at) {
    if (d < x.rank()) {
      if (d == dim) return rows(d + 1, x_at, v_at, i_at);
      k.Loop(fmt::format("r{}", d), x.dims[d], [&](Expr i) {
        rows(d + 1, k.Let("x_at", x_at + i * x.strides[d]),
             k.Let("v_at", v_at + i * values.strides[d]),
             k.Let("i_at", i_at + i * indices.strides[d]));
      });
      return;
    }
    k.Item();
    k.Tiles("piece", row, k.Int(piece), [&](Span span) {
      k.Dispatch();
      k.Load(x, k.At(in), x_at + span.start * x.strides[dim],
             {{span.live, x.strides[dim], k.Int(element)}});
      k.BarrierLoads();
      k.Compute(select, {k.Int(1), span.live, steps}, {k.At(best), k.At(where), k.At(in)},
                {count, span.start, span.live});
      k.If(sym::And(sym::Eq(span.start + span.live, row), sym::Lt(k.Int(0), count)), [&] {
        store(values, best, v_at);
        store(indices, where, i_at);
      });
      k.BarrierTile();
    });
  };
  rows(0, x.offset, values.offset, indices.offset);
  return k.Finish(kernels);
}

// The space has the dims of the input, then how many elements are kept.
Status LowerRows(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  const View x = k.In(0), values = k.Out(0), indices = k.Out(1);
  const auto dim = static_cast<size_t>(l.node->Int("dim"));
  Boxes boxes{.dims = x.dims, .outputs = 2, .guarded = true};
  boxes.dims.push_back(values.dims[dim]);
  boxes.whole.assign(boxes.dims.size(), false);
  boxes.whole[dim] = boxes.whole.back() = true;
  std::vector<int> in, out;
  for (size_t d = 0; d < x.rank(); ++d) {
    in.push_back(static_cast<int>(d));
    out.push_back(static_cast<int>(d == dim ? x.rank() : d));
  }
  boxes.operands = {{values, out}, {indices, out}, {x, in}};
  boxes.work = x.dims[dim] * k.Let("steps", NetworkSteps(k, x.dims[dim]));
  // Compare, and exchange values and 64-bit indices.
  Code code{.name = "sort"};
  code.per_element[VectorClass::kSimple] = 4;
  LS_ASSIGN_OR_RETURN(ValueFunction sorted, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, std::move(code), std::move(sorted)));
  return k.Finish(kernels);
}

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  const auto dim = static_cast<size_t>(l.node->Int("dim"));
  const int64_t element = static_cast<int64_t>(SizeOf(l.step.inputs[0].dtype));
  const Expr fits = sym::Le(l.graph.type(l.step.inputs[0].value).dims[dim],
                            l.graph.table().Int(RowCapacity(l.target, 2 * element + 8)));
  return LowerEither(l, fits, LowerRows, LowerPieces, kernels);
}

}  // namespace

extern const NpuOp kSortNpu = {.op = &ops::kSort, .lower = Lower};

}  // namespace liveshape::npu
