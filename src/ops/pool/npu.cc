// Pools of whole images, as many of them as fit. An image that does not fit goes by bands of output rows, each with the
// input rows that its windows reach. Which of the two kernels runs is a question of the live size.
#include "backends/npu/lower/boxes.h"
#include "backends/npu/values/element.h"
#include "ops/ops.h"
#include "ops/window.h"

namespace liveshape::npu {
namespace {

// The space has the dims of the input, then height and width of the output.
Status LowerImages(const Lowering& l, std::vector<Kernel>& kernels, Code code, bool input_counts) {
  KernelBuilder k(l);
  const View x = k.In(0), y = k.Out(0);
  Boxes boxes{.dims = x.dims, .guarded = true};
  boxes.dims.push_back(y.dims[2]);
  boxes.dims.push_back(y.dims[3]);
  boxes.whole = {false, false, true, true, true, true};
  boxes.operands = {{y, {0, 1, 4, 5}}, {x, {0, 1, 2, 3}}};
  boxes.work = input_counts ? x.dims[2] * x.dims[3] : y.dims[2] * y.dims[3];
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, std::move(code), std::move(values)));
  return k.Finish(kernels);
}

// How a pool cuts an image into bands, and what one computes.
struct Bands {
  Code code;
  ValueFunction values;                 // operands y, x
  std::function<Expr(Expr room)> most;  // output rows whose input rows are no more than `room`
  std::function<Span(Span out)> input;  // which input rows output rows reach
  std::function<std::vector<Expr>(Span out)> extents;
  Expr least = {};  // input rows that one output row may reach
};

Status LowerBands(KernelBuilder& k, const View& x, const View& y, Bands bands,
                  std::vector<Kernel>& kernels) {
  const Target& target = k.lowering().target;
  const int64_t element = x.element(), capacity = RowCapacity(target, 2 * element);
  const Expr width = x.dims[3];
  const int64_t least = k.table().Bounds(bands.least * sym::Max(width, y.dims[3])).hi;
  if (least > capacity)
    return ResourceExhausted(
        "a row of its output reaches {} elements of an image, the scratchpad of {} bytes takes {}",
        least, target.scratchpad_bytes, capacity);
  const uint32_t out = k.AddBuffer("out", capacity * element);
  const uint32_t in = k.AddBuffer("in", capacity * element);
  const uint32_t code = k.AddCode(std::move(bands.code), std::move(bands.values));
  const Expr room = k.Let("room", sym::FloorDiv(k.Int(capacity), width));
  const Expr fit = sym::Min(bands.most(room), sym::FloorDiv(k.Int(capacity), y.dims[3]));
  const Expr tile = k.Let("tile", sym::Max(k.Int(1), sym::Min(y.dims[2], fit)));
  const auto box = [&](const View& view, Span rows) {
    const Expr columns = view.dims[3];
    return std::vector<BoxDim>{{rows.live, view.strides[2], columns * element},
                               {columns, view.strides[3], k.Int(element)}};
  };
  k.Loop("image", x.dims[0], [&](Expr n) {
    k.Loop("channel", x.dims[1], [&](Expr c) {
      const auto at = [&](const View& view, Span rows) {
        return view.offset + n * view.strides[0] + c * view.strides[1] +
               rows.start * view.strides[2];
      };
      k.Tiles("band", y.dims[2], tile, [&](Span rows) {
        const Span reach = bands.input(rows);
        k.Item();
        k.Dispatch();
        k.Load(x, k.At(in), at(x, reach), box(x, reach));
        k.BarrierLoads();
        k.Compute(code, bands.extents(rows), {k.At(out), k.At(in)},
                  {rows.start, reach.start, reach.live, width, x.dims[2], y.dims[2]});
        k.Store(y, k.At(out), at(y, rows), box(y, rows));
        k.BarrierTile();
      });
    });
  });
  return k.Finish(kernels);
}

// What a record says of a band: extents [output rows, columns, ...].
struct Band {
  int64_t rows, columns, first_row, first_input, input_rows, width, height, all_rows;
  static Band Of(const ls_trace_compute& record) {
    const int64_t* const a = record.argument;
    return {record.extent[0], record.extent[1], a[0], a[1], a[2], a[3], a[4], a[5]};
  }
};

// Elements of a window that begins at `begin` by which a mean divides.
int64_t Counted(const ops::Window& w, int64_t begin, int64_t extent, bool padding) {
  const int64_t end = std::min(begin + w.size, extent + w.after);
  return padding ? end - begin : std::min(end, extent) - std::max<int64_t>(begin, 0);
}

struct Pool {
  ops::Windows windows;
  bool max, count_padding;
  int64_t divisor;
  DType dtype;
};

// T: what is computed in. load, store: an element by its number.
template <typename T, typename Load, typename Store>
void PoolBand(const Pool& pool, const Band& band, const Load& load, const Store& store) {
  const ops::Window &h = pool.windows[0], &w = pool.windows[1];
  for (int64_t i = 0; i < band.rows; ++i)
    for (int64_t j = 0; j < band.columns; ++j) {
      const int64_t top = (band.first_row + i) * h.stride - h.before,
                    left = j * w.stride - w.before;
      bool seen = false;
      T value = 0;
      for (int64_t p = 0; p < h.size; ++p)
        for (int64_t q = 0; q < w.size; ++q) {
          const int64_t row = top + p * h.dilation, column = left + q * w.dilation;
          if (row < 0 || row >= band.height || column < 0 || column >= band.width) continue;
          const T v = load((row - band.first_input) * band.width + column);
          value = !pool.max ? value + v : !seen || v > value || v != v ? v : value;
          seen = true;
        }
      if (!pool.max)
        value /=
            static_cast<T>(pool.divisor ? pool.divisor
                                        : Counted(h, top, band.height, pool.count_padding) *
                                              Counted(w, left, band.width, pool.count_padding));
      if (pool.max && !seen && std::is_floating_point_v<T>)
        value = -std::numeric_limits<T>::infinity();
      store(i * band.columns + j, value);
    }
}

ValueFunction PoolValues(const Pool& pool) {
  return [pool](const ValueCall& call) {
    const Band band = Band::Of(call.record);
    const DType dtype = pool.dtype;
    if (IsFloat(dtype))
      PoolBand<double>(
          pool, band, [&](int64_t i) { return LoadNumber(dtype, call.operand[1], i); },
          [&](int64_t i, double v) { StoreNumber(dtype, call.operand[0], i, v); });
    else
      PoolBand<int64_t>(
          pool, band, [&](int64_t i) { return LoadInteger(dtype, call.operand[1], i); },
          [&](int64_t i, int64_t v) { StoreInteger(dtype, call.operand[0], i, v); });
    return Status();
  };
}

ValueFunction AdaptiveValues(DType dtype) {
  return [dtype](const ValueCall& call) {
    const Band band = Band::Of(call.record);
    const auto begin = [](int64_t i, int64_t in, int64_t out) { return i * in / out; };
    const auto end = [](int64_t i, int64_t in, int64_t out) {
      return ((i + 1) * in + out - 1) / out;
    };
    for (int64_t i = 0; i < band.rows; ++i)
      for (int64_t j = 0; j < band.columns; ++j) {
        const int64_t top = begin(band.first_row + i, band.height, band.all_rows),
                      bottom = end(band.first_row + i, band.height, band.all_rows),
                      left = begin(j, band.width, band.columns),
                      right = end(j, band.width, band.columns);
        double sum = 0;
        for (int64_t p = top; p < bottom; ++p)
          for (int64_t q = left; q < right; ++q)
            sum += LoadNumber(dtype, call.operand[1], (p - band.first_input) * band.width + q);
        StoreNumber(dtype, call.operand[0], i * band.columns + j,
                    sum / static_cast<double>((bottom - top) * (right - left)));
      }
    return Status();
  };
}

// The kernel for images that fit, then the one for those that do not.
Status LowerBoth(
    const Lowering& l, std::vector<Kernel>& kernels, const Code& code, bool input_counts,
    const std::function<Bands(KernelBuilder& k, const View& x, const View& y)>& bands) {
  const ir::Dims &x = l.graph.type(l.step.inputs[0].value).dims,
                 &y = l.graph.type(l.step.outputs[0].value).dims;
  const int64_t element = static_cast<int64_t>(SizeOf(l.step.inputs[0].dtype));
  const Expr fits = sym::Le(sym::Max(x[2] * x[3], y[2] * y[3]),
                            l.graph.table().Int(RowCapacity(l.target, 2 * element)));
  return LowerEither(
      l, fits,
      [&](const Lowering& part, std::vector<Kernel>& to) {
        return LowerImages(part, to, code, input_counts);
      },
      [&](const Lowering& part, std::vector<Kernel>& to) {
        KernelBuilder k(part);
        const View in = k.In(0), out = k.Out(0);
        return LowerBands(k, in, out, bands(k, in, out), to);
      },
      kernels);
}

Status LowerPool(const Lowering& l, std::vector<Kernel>& kernels) {
  LS_ASSIGN_OR_RETURN(const ops::Windows windows, ops::ReadWindows(*l.node));
  const bool mean = l.node->String("kind") == "mean";
  const Pool pool{windows, !mean, l.node->Int("count_padding") != 0, l.node->Int("divisor"),
                  l.step.inputs[0].dtype};
  Code code{.name = mean ? "mean_pool" : "max_pool"};
  code.per_element[VectorClass::kSimple] =
      static_cast<float>(windows[0].size * windows[1].size + (mean ? 1 : 0));
  const auto bands = [&](KernelBuilder& k, const View& x, const View& y) {
    const ops::Window h = windows[0];
    return Bands{code,
                 PoolValues(pool),
                 [&k, h](Expr room) { return sym::FloorDiv(room - h.span(), k.Int(h.stride)) + 1; },
                 [&k, h, x](Span out) {
                   const Expr top = out.start * h.stride - h.before;
                   const Expr start = k.Let("top", sym::Max(k.Int(0), top));
                   const Expr end = sym::Min(x.dims[2], top + (out.live - 1) * h.stride + h.span());
                   return Span{start, k.Let("reach", end - start)};
                 },
                 [y](Span out) { return std::vector<Expr>{out.live, y.dims[3]}; },
                 k.Int(h.span())};
  };
  return LowerBoth(l, kernels, code, /*input_counts=*/false, bands);
}

// Windows divide the image: every pixel is added about once.
Status LowerAdaptive(const Lowering& l, std::vector<Kernel>& kernels) {
  Code code{.name = "adaptive_mean"};
  code.per_element[VectorClass::kSimple] = 1;
  code.lane_reductions = 1;
  const auto bands = [&](KernelBuilder& k, const View& x, const View& y) {
    const Expr height = x.dims[2], rows = sym::Max(k.Int(1), y.dims[2]);
    const Expr window = sym::CeilDiv(height, rows);
    return Bands{
        code,
        AdaptiveValues(x.dtype),
        [=](Expr room) { return sym::FloorDiv((room - 1) * rows, sym::Max(k.Int(1), height)); },
        [=, &k](Span out) {
          const Expr start = k.Let("top", sym::FloorDiv(out.start * height, rows));
          const Expr end = sym::CeilDiv((out.start + out.live) * height, rows);
          return Span{start, k.Let("reach", end - start)};
        },
        [=](Span out) {
          return std::vector<Expr>{out.live, y.dims[3],
                                   window * sym::CeilDiv(x.dims[3], sym::Max(k.Int(1), y.dims[3]))};
        },
        window + 1};
  };
  return LowerBoth(l, kernels, code, /*input_counts=*/true, bands);
}

}  // namespace

extern const NpuOp kPoolNpu = {.op = &ops::kPool, .lower = LowerPool};
extern const NpuOp kAdaptiveMeanNpu = {.op = &ops::kAdaptiveMean, .lower = LowerAdaptive};

}  // namespace liveshape::npu
