// Positions of nonzero elements in row-major order. Blocks of elements are counted in parallel, then each
// block writes its rows where the blocks before it end: the same result for any number of threads.
#include <algorithm>

#include "backends/cpu/kernel.h"
#include "backends/cpu/rows.h"
#include "ops/ops.h"

namespace liveshape::cpu {
namespace {

constexpr int64_t kBlock = 4096;  // elements

// Zero and -0.0 are zero, NaN is not; halves are compared by their bits.
template <typename T, T kMask>
struct Finder {
  static bool At(const T* x, int64_t i) { return (x[i] & kMask) != 0; }
  static int64_t Count(const std::byte* data, int64_t begin, int64_t end) {
    const T* x = reinterpret_cast<const T*>(data);
    int64_t n = 0;
    for (int64_t i = begin; i < end; ++i) n += At(x, i);
    return n;
  }
  static void Write(const std::byte* data, int64_t begin, int64_t end, const View& like,
                    int64_t* out) {
    const T* x = reinterpret_cast<const T*>(data);
    for (int64_t i = begin; i < end; ++i) {
      if (!At(x, i)) continue;
      int64_t rest = i;
      for (int d = like.rank - 1; d >= 0; rest /= like.dims[d--]) out[d] = rest % like.dims[d];
      out += like.rank;
    }
  }
};

struct Functions {
  int64_t (*count)(const std::byte*, int64_t, int64_t);
  void (*write)(const std::byte*, int64_t, int64_t, const View&, int64_t*);
};

template <typename T, T kMask = static_cast<T>(~T{0})>
constexpr Functions kFunctions = {Finder<T, kMask>::Count, Finder<T, kMask>::Write};

Functions Find(DType dtype) {
  switch (dtype) {
    case DType::kF64: return kFunctions<uint64_t, (~uint64_t{0} >> 1)>;
    case DType::kF32: return kFunctions<uint32_t, (~uint32_t{0} >> 1)>;
    case DType::kF16:
    case DType::kBF16: return kFunctions<uint16_t, 0x7fff>;
    case DType::kI64: return kFunctions<uint64_t>;
    case DType::kI32: return kFunctions<uint32_t>;
    case DType::kI16: return kFunctions<uint16_t>;
    case DType::kI8:
    case DType::kU8:
    case DType::kBool: return kFunctions<uint8_t>;
  }
  return {};
}

Status Run(const KernelArgs& args) {
  const View &x = args.in(0), &y = args.out(0);
  const int64_t numel = x.numel(), blocks = (numel + kBlock - 1) / kBlock;
  const Functions functions = Find(x.dtype);
  int64_t* const before = reinterpret_cast<int64_t*>(args.scratch);
  const auto end_of = [&](int64_t block) { return std::min(numel, (block + 1) * kBlock); };
  args.pool.ParallelFor(blocks, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b)
      before[b] = functions.count(x.data, b * kBlock, end_of(b));
  });
  int64_t found = 0;
  for (int64_t b = 0; b < blocks; ++b) found += std::exchange(before[b], found);
  if (found != args.params[0])
    return InvalidArgument("{} elements are not zero, the program requires {}", found,
                           args.params[0]);
  args.pool.ParallelFor(blocks, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t b = begin; b < end; ++b)
      functions.write(x.data, b * kBlock, end_of(b), x, y.as<int64_t>() + before[b] * x.rank);
  });
  return {};
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int) {
  sym::Table& table = graph.table();
  const sym::Expr numel = sym::Product(table, graph.type(node.inputs[0]).dims);
  return sym::CeilDiv(numel, table.Int(kBlock)) * static_cast<int64_t>(sizeof(int64_t));
}

Need NeedDense(const ir::Node&, size_t) { return Need::kDense; }

}  // namespace

extern const CpuKernel kNonzeroKernel = {
    .op = &ops::kNonzero, .run = Run, .scratch = Scratch, .need = NeedDense};

}  // namespace liveshape::cpu
