// What a CPU kernel is: a function over views of live dims and strides. ops/<op>/cpu.cc defines one as
//
//   Status Run(const KernelArgs& args) {
//     const View& x = args.in(0);
//     const View& y = args.out(0);                        // y.dims are live; y.data is large enough
//     args.pool.ParallelFor(rows, 16, [&](int64_t begin, int64_t end, int worker) { ... });
//     return {};
//   }
//   const CpuKernel kSoftmaxKernel = {.op = &ops::kSoftmax, .run = Run, .prepare = Prepare};
//
// and the table in backends/cpu/table.cc has one line for it. A kernel allocates nothing: what it needs
// beyond its operands is declared as `scratch`, planned like any other slot.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"
#include "ir/op.h"
#include "plan/plan.h"

namespace liveshape::cpu {

struct View {
  std::byte* data = nullptr;  // first element (offset applied); null: absent optional input
  DType dtype = DType::kF32;
  int rank = 0;
  const int64_t* dims = nullptr;     // live, in the params block
  const int64_t* strides = nullptr;  // in elements
  // Of a constant; strides are void if it is packed.
  ir::ConstantLayout layout = ir::ConstantLayout::kPlain;
  ir::Encoding encoding = ir::Encoding::kPlain;

  bool present() const { return data != nullptr; }
  int64_t numel() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= dims[i];
    return n;
  }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
};

// What a kernel worked out once, at load, from its node (attributes, compiled programs). Immutable.
struct Prepared { virtual ~Prepared() = default; };

// Elements [begin, end) of a dense output, in the hands of one thread.
struct Part {
  int64_t begin, end;
  int worker;
  const std::byte* elements = nullptr;  // of what another kernel has written: where they lie
};

// A view of a callable, which outlives it:
//
//   const auto part = [&](const Part& part) { ... };
//   const PartFn written(part);
class PartFn {
 public:
  template <typename F>
  explicit PartFn(const F& f)
      : object_(&f), call_([](const void* object, const Part& part) {
          (*static_cast<const F*>(object))(part);
        }) {}
  void operator()(const Part& part) const { call_(object_, part); }

 private:
  const void* object_;
  void (*call_)(const void* object, const Part& part);
};

// A step that has not run yet, to a kernel that runs it together with its own.
struct CpuKernel;
struct KernelArgs;
struct EarlierStep {
  const CpuKernel& kernel;
  const KernelArgs& args;
};

struct KernelArgs {
  std::span<const View> inputs;
  std::span<const View> outputs;
  // The node's expressions at the live shape: those of its attributes in attribute order, flattened;
  // for a pointwise program its scalars. Which is which is known to `prepare`.
  std::span<const int64_t> params;
  std::byte* scratch;  // `scratch` bytes at the live shape, 64-byte aligned
  ThreadPool& pool;
  const Prepared* prepared;
  bool in_place;  // output 0 shares the storage of the op's in_place_input
  // Of two steps that run together: what the first is to call (CpuKernel::tells_parts), whether nobody else reads its
  // output, so that parts may lie anywhere in there, and what the second has to run (takes_parts).
  const PartFn* written = nullptr;
  bool passing = false;
  const EarlierStep* earlier = nullptr;

  const View& in(size_t i) const { return inputs[i]; }
  const View& out(size_t i) const { return outputs[i]; }
  // Calls f(Part) for parts that cover `count` elements: as the earlier step writes them, or else in claims of `grain`.
  template <typename F>
  Status ForParts(int64_t count, int64_t grain, const F& f) const;
};

// What the planner must give an input; kStrided is best, since it never costs a copy.
using plan::Need;

struct CpuKernel {
  const ir::OpDef* op;
  Status (*run)(const KernelArgs& args);
  // Once, at load; a refusal (dtype, attribute) is an error naming what is not served. May be null.
  Result<std::unique_ptr<Prepared>> (*prepare)(const ir::Graph& graph,
                                               const ir::Node& node) = nullptr;
  // Bytes of scratch as an expression over the symbols (of any stage). Null: none. `threads` is the
  // pool's size.
  sym::Expr (*scratch)(const ir::Graph& graph, const ir::Node& node, int threads) = nullptr;
  // For input i; default kStrided. Outputs are always dense.
  Need (*need)(const ir::Node& node, size_t input) = nullptr;
  // Calls args.written, if it is set, for each part of its only output as soon as that is complete, while it is in cache,
  // and then reads no input at the same positions any more. Has no scratch, and does not fail.
  bool tells_parts = false;
  // Runs through args.ForParts, and of inputs with as many elements as the output reads those at the part's positions
  // alone.
  bool takes_parts = false;
};

template <typename F>
Status KernelArgs::ForParts(int64_t count, int64_t grain, const F& f) const {
  if (earlier == nullptr) {
    pool.ParallelFor(count, grain,
                     [&](int64_t begin, int64_t end, int worker) { f(Part{begin, end, worker}); });
    return {};
  }
  const PartFn written(f);
  KernelArgs first = earlier->args;
  first.written = &written;
  return earlier->kernel.run(first);
}

// backends/cpu/table.cc
std::span<const CpuKernel* const> AllKernels();

}  // namespace liveshape::cpu
