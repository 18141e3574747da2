// Running sums along one dim: f32 and f64 in double, halves in f32, integers wrap in i64, as torch has it.
#include <algorithm>

#include "backends/cpu/lines.h"
#include "base/half.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

struct CumsumPrepared : Prepared { int dim = 0; };

struct Line {
  const std::byte* x;
  int64_t x_stride;
  std::byte* y;
  int64_t y_stride;
  int64_t n;
};

template <typename T, typename Acc, typename Out, Acc (*kGet)(T), Out (*kPut)(Acc)>
void Cumulate(const Line& line) {
  const T* x = reinterpret_cast<const T*>(line.x);
  Out* y = reinterpret_cast<Out*>(line.y);
  Acc sum = 0;
  for (int64_t i = 0; i < line.n; ++i) {
    sum += kGet(x[i * line.x_stride]);
    y[i * line.y_stride] = kPut(sum);
  }
}

template <typename To, typename From>
To As(From v) {
  return static_cast<To>(v);
}
uint64_t Truth(uint8_t v) { return v != 0; }

template <typename T>
constexpr auto kIntegers = Cumulate<T, uint64_t, int64_t, As<uint64_t, T>, As<int64_t, uint64_t>>;

void (*Find(DType dtype))(const Line&) {
  switch (dtype) {
    case DType::kF32: return Cumulate<float, double, float, As<double, float>, As<float, double>>;
    case DType::kF64:
      return Cumulate<double, double, double, As<double, double>, As<double, double>>;
    case DType::kF16: return Cumulate<uint16_t, float, uint16_t, F32FromF16, F16FromF32>;
    case DType::kBF16: return Cumulate<uint16_t, float, uint16_t, F32FromBF16, BF16FromF32>;
    case DType::kI64: return kIntegers<int64_t>;
    case DType::kI32: return kIntegers<int32_t>;
    case DType::kI16: return kIntegers<int16_t>;
    case DType::kI8: return kIntegers<int8_t>;
    case DType::kU8: return kIntegers<uint8_t>;
    case DType::kBool: return Cumulate<uint8_t, uint64_t, int64_t, Truth, As<int64_t, uint64_t>>;
  }
  return nullptr;
}

Status Run(const KernelArgs& args) {
  const View& x = args.in(0);
  const View& y = args.out(0);
  const int dim = static_cast<const CumsumPrepared&>(*args.prepared).dim;
  const int64_t n = x.dims[dim];
  if (y.numel() == 0) return {};
  const Lines lines(x, y, dim);
  const auto cumulate = Find(x.dtype);
  const int64_t x_size = SizeOf(x.dtype), y_size = SizeOf(y.dtype);
  args.pool.ParallelFor(lines.count, RowGrain(n), [&](int64_t begin, int64_t end, int) {
    RowWalker<2> walk = lines.At(begin);
    for (int64_t r = begin; r < end; ++r, walk.Next()) {
      cumulate({x.data + walk.offset(0) * x_size, x.strides[dim], y.data + walk.offset(1) * y_size,
                y.strides[dim], n});
    }
  });
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<CumsumPrepared>();
  prepared->dim = static_cast<int>(node.Int("dim"));
  return std::unique_ptr<Prepared>(std::move(prepared));
}

}  // namespace

extern const CpuKernel kCumsumKernel = {.op = &ops::kCumsum, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
