// Reductions of every kind and dtype, in an order that depends on the dims alone (cpu_plan.h). Floats are summed and multiplied in double (long dense runs: f32 blocks, see
// simd/reduce-inl.h), integers wrap in 64 bits.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/half.h"
#include "base/observe.h"
#include "ops/ops.h"
#include "ops/reduce/cpu_plan.h"

namespace liveshape::cpu {
namespace {

template <typename T>
struct Plain {
  using Type = T;
  using Value = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  static Value Get(T v) { return v; }
};
struct HalfElement {
  using Type = uint16_t;
  using Value = float;
  static float Get(uint16_t v) { return F32FromF16(v); }
};
struct BFloatElement {
  using Type = uint16_t;
  using Value = float;
  static float Get(uint16_t v) { return F32FromBF16(v); }
};
struct BoolElement {
  using Type = uint8_t;
  using Value = int64_t;
  static int64_t Get(uint8_t v) { return v != 0; }
};

// An accumulator: Init, Step over values of type V, and Merge of two.
template <typename V>
struct SumOf {
  using Acc = std::conditional_t<std::is_integral_v<V>, uint64_t, double>;
  static Acc Init() { return 0; }
  static Acc Step(Acc a, V v) { return a + static_cast<Acc>(v); }
  static Acc Merge(Acc a, Acc b) { return a + b; }
};
template <typename V>
struct ProductOf {
  using Acc = std::conditional_t<std::is_integral_v<V>, uint64_t, double>;
  static Acc Init() { return 1; }
  static Acc Step(Acc a, V v) { return a * static_cast<Acc>(v); }
  static Acc Merge(Acc a, Acc b) { return a * b; }
};
template <typename V, int kSign>
struct ExtremeOf {
  using Acc = V;
  using Limits = std::numeric_limits<V>;
  static Acc Init() {
    if constexpr (std::is_integral_v<V>)
      return kSign > 0 ? Limits::min() : Limits::max();
    else
      return kSign > 0 ? -Limits::infinity() : Limits::infinity();
  }
  static Acc Step(Acc a, V v) {  // a NaN wins and stays
    const bool better = kSign > 0 ? v > a : v < a;
    return (better || v != v) && a == a ? v : a;
  }
  static Acc Merge(Acc a, Acc b) { return Step(a, b); }
};
template <typename V>
struct AnyOf {
  using Acc = uint8_t;
  static Acc Init() { return 0; }
  static Acc Step(Acc a, V v) { return a | (v != V{0}); }
  static Acc Merge(Acc a, Acc b) { return a | b; }
};
template <typename V>
struct AllOf {
  using Acc = uint8_t;
  static Acc Init() { return 1; }
  static Acc Step(Acc a, V v) { return a & (v != V{0}); }
  static Acc Merge(Acc a, Acc b) { return a & b; }
};

template <typename Acc>
void Store(const View& out, int64_t index, int64_t n, const Acc* values) {
  const auto store = [&]<typename T>(T* to, auto convert) {
    for (int64_t i = 0; i < n; ++i) to[index + i] = convert(values[i]);
  };
  const auto plain = [&]<typename T>(T* to) { store(to, [](Acc v) { return static_cast<T>(v); }); };
  switch (out.dtype) {
    case DType::kF32: return plain(out.as<float>());
    case DType::kF16:
      return store(out.as<uint16_t>(), [](Acc v) { return F16FromF32(static_cast<float>(v)); });
    case DType::kBF16:
      return store(out.as<uint16_t>(), [](Acc v) { return BF16FromF32(static_cast<float>(v)); });
    case DType::kF64: return plain(out.as<double>());
    case DType::kI64: return plain(out.as<int64_t>());
    case DType::kI32: return plain(out.as<int32_t>());
    case DType::kI16: return plain(out.as<int16_t>());
    case DType::kI8: return plain(out.as<int8_t>());
    case DType::kU8: return plain(out.as<uint8_t>());
    case DType::kBool: return store(out.as<uint8_t>(), [](Acc v) { return v != Acc{0}; });
  }
}

struct Task {
  const View& in;
  const View& out;
  const ReducePlan& plan;
  ReduceKind kind;
  std::byte* partial;  // results of slices: ReduceScratchBytes
  ReduceRuns runs;     // of f32 and halves

  // Outputs [index, index + n).
  template <typename Acc>
  void Finish(int64_t index, int64_t n, Acc* acc) const {
    if constexpr (std::is_same_v<Acc, double>) {
      const bool mean = kind == ReduceKind::kMean;
      const double count = mean ? static_cast<double>(plan.reduced.count) : 1;
      if (out.dtype == DType::kF32)
        return FindReduceFinish()(acc, n, count, out.as<float>() + index);
      if (mean)
        for (int64_t i = 0; i < n; ++i) acc[i] /= count;
    }
    Store(out, index, n, acc);
  }
};

// One output: `run(pointer, n, stride)` for each innermost run of the reduced dims.
template <typename T, typename Run>
void ForEachRun(const ReducePlan::Dims& reduced, const T* x, Run run) {
  if (reduced.count == 0) return;
  const int64_t n = reduced.inner(), rows = reduced.count / n;
  if (rows == 1) return run(x, n, reduced.inner_stride());
  RowWalker<1> walk(reduced.dims, reduced.rank - 1, {reduced.strides}, 0);
  for (int64_t r = 0; r < rows; ++r, walk.Next())
    run(x + walk.offset(0), n, reduced.inner_stride());
}

// Is there a vectorised form of this accumulator on this element?
template <class E, class Op>
constexpr bool kHasRuns =
    std::is_same_v<typename E::Value, float> &&
    (std::is_same_v<Op, SumOf<float>> || std::is_same_v<typename Op::Acc, float>);

template <class Op>
auto RunsOf(const Task& task) {
  if constexpr (std::is_same_v<Op, SumOf<float>>)
    return task.runs.sum;
  else
    return Op::Init() < 0 ? task.runs.max : task.runs.min;
}
template <class Op>
auto ColumnsOf(const Task& task) {
  if constexpr (std::is_same_v<Op, SumOf<float>>)
    return task.runs.sum_columns;
  else
    return Op::Init() < 0 ? task.runs.max_columns : task.runs.min_columns;
}
constexpr int64_t kShortRun = 8;  // below, a loop is as good

template <class E, class Op>
typename Op::Acc ReduceOne(const Task& task, const ReducePlan::Dims& reduced,
                           const typename E::Type* x) {
  typename Op::Acc acc = Op::Init();
  ForEachRun(reduced, x, [&](const typename E::Type* run, int64_t n, int64_t stride) {
    if constexpr (kHasRuns<E, Op>) {
      if (stride == 1 && n >= kShortRun) {
        typename Op::Acc of_run;
        RunsOf<Op>(task)(run, n, 0, 1, &of_run);
        acc = Op::Merge(acc, of_run);
        return;
      }
    }
    for (int64_t i = 0; i < n; ++i) acc = Op::Step(acc, E::Get(run[i * stride]));
  });
  return acc;
}

// The n outputs from `at` on, one by one.
template <class E, class Op>
void ReduceRows(const Task& task, const ReducePlan::Dims& reduced, const typename E::Type* x,
                RowWalker<1> at, int64_t n, typename Op::Acc* acc) {
  if constexpr (kHasRuns<E, Op>) {
    if (task.plan.IsRuns() && reduced.count >= kShortRun)
      return RunsOf<Op>(task)(x + at.offset(0), reduced.count, task.plan.kept.inner_stride(), n,
                              acc);
  }
  for (int64_t i = 0; i < n; ++i, at.Next())
    acc[i] = ReduceOne<E, Op>(task, reduced, x + at.offset(0));
}

// Columns [0, n) from x on; n <= kReduceBlock.
template <class E, class Op>
void ReduceColumns(const Task& task, const ReducePlan::Dims& reduced, const typename E::Type* x,
                   int64_t n, typename Op::Acc* acc) {
  const int64_t column_stride = task.plan.kept.inner_stride();
  if constexpr (std::is_same_v<Op, SumOf<typename E::Value>>)
    std::memset(acc, 0, n * sizeof(*acc));  // vectors, which a loop over doubles is not at -O2
  else
    std::fill_n(acc, n, Op::Init());
  ForEachRun(reduced, x, [&](const typename E::Type* run, int64_t rows, int64_t stride) {
    if constexpr (kHasRuns<E, Op>) {
      if (column_stride == 1) return ColumnsOf<Op>(task)(run, stride, rows, n, acc);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const typename E::Type* row = run + r * stride;
      for (int64_t c = 0; c < n; ++c) acc[c] = Op::Step(acc[c], E::Get(row[c * column_stride]));
    }
  });
}

template <class E, class Op>
void Reduce(const Task& task, ThreadPool& pool) {
  using Acc = typename Op::Acc;
  const ReducePlan& plan = task.plan;
  const auto* x = task.in.as<const typename E::Type>();
  Acc* partial = reinterpret_cast<Acc*>(task.partial);
  const int64_t work = std::max<int64_t>(1, plan.reduced.count / plan.slices) * plan.block;
  pool.ParallelFor(plan.blocks * plan.slices, RowGrain(work), [&](int64_t begin, int64_t end, int) {
    Acc acc[kReduceBlock];
    for (int64_t t = begin; t < end; ++t) {
      const ReduceBlock block = plan.BlockAt(t % plan.blocks);
      const int64_t slice = t / plan.blocks;
      ReducePlan::Dims narrowed;
      if (plan.slices > 1) (narrowed = plan.reduced).Narrow(slice * plan.slice, plan.slice);
      const ReducePlan::Dims& reduced = plan.slices > 1 ? narrowed : plan.reduced;
      const RowWalker<1> at(plan.kept.dims, plan.kept.rank, {plan.kept.strides}, block.first);
      const auto* from = x + slice * plan.slice * reduced.outer_stride();
      if (plan.by_columns)
        ReduceColumns<E, Op>(task, reduced, from + at.offset(0), block.n, acc);
      else
        ReduceRows<E, Op>(task, reduced, from, at, block.n, acc);
      if (plan.slices > 1)
        std::copy_n(acc, block.n, partial + slice * plan.kept.count + block.first);
      else
        task.Finish(block.first, block.n, acc);
    }
  });
  if (plan.slices == 1) return;
  pool.ParallelFor(plan.blocks, RowGrain(plan.slices * plan.block), [&](int64_t b, int64_t e, int) {
    for (; b < e; ++b) {
      const ReduceBlock block = plan.BlockAt(b);
      Acc* const acc = partial + block.first;
      for (int64_t slice = 1; slice < plan.slices; ++slice) {
        const Acc* const more = acc + slice * plan.kept.count;
        for (int64_t i = 0; i < block.n; ++i) acc[i] = Op::Merge(acc[i], more[i]);
      }
      task.Finish(block.first, block.n, acc);
    }
  });
}

template <class E>
void ReduceElements(const Task& task, ThreadPool& pool) {
  using V = typename E::Value;
  switch (task.kind) {
    case ReduceKind::kSum:
    case ReduceKind::kMean: return Reduce<E, SumOf<V>>(task, pool);
    case ReduceKind::kProd: return Reduce<E, ProductOf<V>>(task, pool);
    case ReduceKind::kMax: return Reduce<E, ExtremeOf<V, 1>>(task, pool);
    case ReduceKind::kMin: return Reduce<E, ExtremeOf<V, -1>>(task, pool);
    case ReduceKind::kAny: return Reduce<E, AnyOf<V>>(task, pool);
    case ReduceKind::kAll: return Reduce<E, AllOf<V>>(task, pool);
  }
}

struct ReducePrepared : Prepared {
  ReduceKind kind = ReduceKind::kSum;
  bool reduced[kMaxRank] = {};
};

Status Run(const KernelArgs& args) {
  const auto& prepared = static_cast<const ReducePrepared&>(*args.prepared);
  const View& x = args.in(0);
  ReducePlan plan;
  for (int d = 0; d < x.rank; ++d)
    (prepared.reduced[d] ? plan.reduced : plan.kept).Append(x.dims[d], x.strides[d]);
  if (plan.kept.count == 0) return {};
  const bool extreme = prepared.kind == ReduceKind::kMax || prepared.kind == ReduceKind::kMin;
  if (plan.reduced.count == 0 && extreme) {
    AllocationPause pause;
    return InvalidArgument("max or min over a dim of extent 0 has no value");
  }
  plan.Cut();
  Task task{x, args.out(0), plan, prepared.kind, args.scratch, {}};
  switch (x.dtype) {
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16: task.runs = FindReduceRuns(x.dtype); break;
    default: break;
  }
  switch (x.dtype) {
    case DType::kF32: ReduceElements<Plain<float>>(task, args.pool); break;
    case DType::kF16: ReduceElements<HalfElement>(task, args.pool); break;
    case DType::kBF16: ReduceElements<BFloatElement>(task, args.pool); break;
    case DType::kF64: ReduceElements<Plain<double>>(task, args.pool); break;
    case DType::kI64: ReduceElements<Plain<int64_t>>(task, args.pool); break;
    case DType::kI32: ReduceElements<Plain<int32_t>>(task, args.pool); break;
    case DType::kI16: ReduceElements<Plain<int16_t>>(task, args.pool); break;
    case DType::kI8: ReduceElements<Plain<int8_t>>(task, args.pool); break;
    case DType::kU8: ReduceElements<Plain<uint8_t>>(task, args.pool); break;
    case DType::kBool: ReduceElements<BoolElement>(task, args.pool); break;
  }
  return {};
}

Result<std::unique_ptr<Prepared>> Prepare(const ir::Graph& graph, const ir::Node& node) {
  LS_RETURN_IF_ERROR(CheckRank(graph, node.inputs[0]));
  auto prepared = std::make_unique<ReducePrepared>();
  static constexpr const char* kNames[] = {"sum", "mean", "prod", "max", "min", "any", "all"};
  const auto* name = std::find(std::begin(kNames), std::end(kNames), node.String("kind"));
  if (name == std::end(kNames)) return Unsupported("reduction `{}`", node.String("kind"));
  prepared->kind = static_cast<ReduceKind>(name - kNames);
  for (int64_t d : node.Ints("dims")) prepared->reduced[d] = true;
  return std::unique_ptr<Prepared>(std::move(prepared));
}

sym::Expr Scratch(const ir::Graph& graph, const ir::Node& node, int) {
  return ReduceScratchBytes(sym::Product(graph.table(), graph.type(node.inputs[0]).dims));
}

}  // namespace

extern const CpuKernel kReduceKernel = {
    .op = &ops::kReduce, .run = Run, .prepare = Prepare, .scratch = Scratch};

}  // namespace liveshape::cpu
