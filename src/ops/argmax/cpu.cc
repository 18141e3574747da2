// One pass along the dim for each output; the first of equals wins, a NaN wins over all.
#include "backends/cpu/rows.h"
#include "base/half.h"
#include "base/observe.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct ArgmaxPrepared : Prepared {
  int dim = 0;
  bool largest = true;
};

using FindFn = int64_t (*)(const std::byte* x, int64_t stride, int64_t n);

template <typename T, typename V, V (*kGet)(T), bool kLargest>
int64_t Find(const std::byte* data, int64_t stride, int64_t n) {
  const T* x = reinterpret_cast<const T*>(data);
  V best = kGet(x[0]);
  int64_t at = 0;
  for (int64_t i = 1; i < n && best == best; ++i) {  // nothing beats a NaN
    const V v = kGet(x[i * stride]);
    if ((kLargest ? v > best : v < best) || v != v) {
      best = v;
      at = i;
    }
  }
  return at;
}

template <typename T>
T Same(T v) {
  return v;
}
uint8_t Truth(uint8_t v) { return v != 0; }

template <bool kLargest>
FindFn FindOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return Find<float, float, Same<float>, kLargest>;
    case DType::kF64: return Find<double, double, Same<double>, kLargest>;
    case DType::kF16: return Find<uint16_t, float, F32FromF16, kLargest>;
    case DType::kBF16: return Find<uint16_t, float, F32FromBF16, kLargest>;
    case DType::kI64: return Find<int64_t, int64_t, Same<int64_t>, kLargest>;
    case DType::kI32: return Find<int32_t, int32_t, Same<int32_t>, kLargest>;
    case DType::kI16: return Find<int16_t, int16_t, Same<int16_t>, kLargest>;
    case DType::kI8: return Find<int8_t, int8_t, Same<int8_t>, kLargest>;
    case DType::kU8: return Find<uint8_t, uint8_t, Same<uint8_t>, kLargest>;
    case DType::kBool: return Find<uint8_t, uint8_t, Truth, kLargest>;
  }
  return nullptr;
}

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const ArgmaxPrepared&>(*args.prepared);
  const View& x = args.in(0);
  const int64_t count = args.out(0).numel(), n = x.dims[prepared.dim];
  if (count == 0) return {};
  if (n == 0) {
    AllocationPause pause;
    return InvalidArgument("argmax or argmin over a dim of extent 0 has no value");
  }
  int64_t dims[kMaxRank], strides[kMaxRank];
  int outer = 0;
  for (int d = 0; d < x.rank; ++d) {
    if (d == prepared.dim) continue;
    dims[outer] = x.dims[d];
    strides[outer++] = x.strides[d];
  }
  const FindFn find = prepared.largest ? FindOf<true>(x.dtype) : FindOf<false>(x.dtype);
  const int64_t size = static_cast<int64_t>(SizeOf(x.dtype)), stride = x.strides[prepared.dim];
  int64_t* out = args.out(0).as<int64_t>();
  args.pool.ParallelFor(count, RowGrain(n), [&](int64_t begin, int64_t end, int) {
    RowWalker<1> walk(dims, outer, {strides}, begin);
    for (int64_t r = begin; r < end; ++r, walk.Next())
      out[r] = find(x.data + walk.offset(0) * size, stride, n);
  });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<ArgmaxPrepared>();
  prepared->dim = static_cast<int>(node.Int("dim"));
  prepared->largest = node.String("kind") == "max";
  return std::unique_ptr<Prepared>(std::move(prepared));
}

}  // namespace

extern const CpuKernel kArgmaxKernel = {.op = &ops::kArgmax, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
