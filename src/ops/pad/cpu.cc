// An output row is the source row that its outer indices lead to, with both ends added: moving bits needs no
// dtype.
#include <bit>

#include "backends/cpu/gemm/element.h"
#include "backends/cpu/rows.h"
#include "ops/index/cpu_elements.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

enum class Mode : uint8_t { kConstant, kReflect, kReplicate, kCircular };

struct PadPrepared : Prepared {
  Mode mode = Mode::kConstant;
  uint64_t value = 0;  // its bits, as the dtype holds them
};

// The source index of output index i - before, or -1: the constant.
int64_t SourceOf(Mode mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  switch (mode) {
    case Mode::kReflect: return i < 0 ? -i : 2 * (size - 1) - i;
    case Mode::kReplicate: return i < 0 ? 0 : size - 1;
    case Mode::kCircular: return i < 0 ? i + size : i - size;
    case Mode::kConstant: break;
  }
  return -1;
}

template <typename T>
void PadRow(const PadPrepared& pad, const T* from, int64_t stride, int64_t size, int64_t before,
            T* to, int64_t count) {
  const int64_t begin = std::clamp<int64_t>(before, 0, count);
  const int64_t end = std::clamp<int64_t>(before + size, begin, count);
  const auto outside = [&](int64_t i) {
    const int64_t source = SourceOf(pad.mode, i - before, size);
    return from == nullptr || source < 0 ? static_cast<T>(pad.value) : from[source * stride];
  };
  for (int64_t i = 0; i < begin; ++i) to[i] = outside(i);
  if (from == nullptr)
    std::fill(to + begin, to + end, static_cast<T>(pad.value));
  else if (stride == 1)
    std::copy(from + (begin - before), from + (end - before), to + begin);
  else
    for (int64_t i = begin; i < end; ++i) to[i] = from[(i - before) * stride];
  for (int64_t i = end; i < count; ++i) to[i] = outside(i);
}

Status Run(const KernelArgs& args) {
  const auto& pad = static_cast<const PadPrepared&>(*args.prepared);
  const View &x = args.in(0), &y = args.out(0);
  if (y.numel() <= 0) return {};
  const int outer = y.rank - 1;
  const int64_t* before = args.params.data();  // attributes in order: before, after
  const int64_t count = outer < 0 ? 1 : y.dims[outer];
  WithSize(SizeOf(y.dtype), [&](auto type) {
    using T = decltype(type);
    if (outer < 0) return static_cast<void>(*y.as<T>() = *x.as<T>());
    args.pool.ParallelFor(y.numel() / count, RowGrain(count), [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x.as<const T>();
        int64_t index = row;
        for (int d = outer - 1; d >= 0; --d) {
          const int64_t i = index % y.dims[d] - before[d];
          index /= y.dims[d];
          const int64_t source = SourceOf(pad.mode, i, x.dims[d]);
          if (source < 0) {
            from = nullptr;
            break;
          }
          from += source * x.strides[d];
        }
        PadRow(pad, from, x.strides[outer], x.dims[outer], before[outer], y.as<T>() + row * count,
               count);
      }
    });
  });
  return {};
}

uint64_t BitsOf(double value, DType dtype) {
  const float single = static_cast<float>(value);
  switch (dtype) {
    case DType::kF32: return std::bit_cast<uint32_t>(single);
    case DType::kF16: return FromFloat<Half>(single).bits;
    case DType::kBF16: return FromFloat<BFloat>(single).bits;
    case DType::kF64: return std::bit_cast<uint64_t>(value);
    case DType::kBool: return value != 0;
    default: return static_cast<uint64_t>(static_cast<int64_t>(value));
  }
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  auto prepared = std::make_unique<PadPrepared>();
  const std::string& mode = node.String("mode");
  prepared->mode = mode == "constant"    ? Mode::kConstant
                   : mode == "reflect"   ? Mode::kReflect
                   : mode == "replicate" ? Mode::kReplicate
                                         : Mode::kCircular;
  prepared->value = BitsOf(node.Float("value"), graph.type(node.outputs[0]).dtype);
  return std::unique_ptr<Prepared>(std::move(prepared));
}

}  // namespace

extern const CpuKernel kPadKernel = {.op = &ops::kPad, .run = Run, .prepare = Prepare};

}  // namespace liveshape::cpu
