// The CPU backend's machinery: a kernel a step, views filled from the params block. It knows no op by
// name; which kernel serves which op is in table.cc.
#include <algorithm>
#include <chrono>

#include "backends/cpu/join.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/simd/isa.h"
#include "liveshape/liveshape.h"
#include "ops/ops.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

using cpu::CpuKernel;
using cpu::KernelArgs;
using cpu::View;

// One step with everything that does not change: its kernel, what the kernel prepared, its views.
struct LoadedStep {
  const CpuKernel* kernel = nullptr;
  std::unique_ptr<cpu::Prepared> prepared;
  std::vector<View> inputs, outputs;
  // The next step's kernel may take what this one writes part by part; whether it does is decided by live views.
  bool may_join_next = false;
};

const CpuKernel* FindKernel(const ir::OpDef& op) {
  for (const CpuKernel* kernel : cpu::AllKernels())
    if (kernel->op == &op) return kernel;
  return nullptr;
}

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(const CpuOptions& options) : pool_(options.threads), isa_(options.isa) {}

  const char* name() const override { return "cpu"; }

  plan::Rules rules() const override {
    const int threads = pool_.size();
    return {
        .alignment = 64,
        .need =
            [](const ir::Node& node, size_t input) {
              const CpuKernel* kernel = FindKernel(*node.op);
              return kernel && kernel->need ? kernel->need(node, input) : plan::Need::kStrided;
            },
        .scratch =
            [threads](const ir::Graph& graph, const ir::Node& node) {
              const CpuKernel* kernel = FindKernel(*node.op);
              return kernel && kernel->scratch ? kernel->scratch(graph, node, threads)
                                               : sym::Expr();
            },
    };
  }

  Status Load(const ir::Graph& graph, const plan::Plan& plan) override {
    plan_ = &plan;
    if (!isa_.empty()) {
      auto isa = cpu::IsaFromName(isa_);
      if (!isa || !cpu::SetIsa(*isa))
        return Unsupported("this machine has no instruction set `{}`", isa_);
    }
    for (const plan::Step& step : plan.steps) {
      LoadedStep loaded;
      const bool is_copy = step.node == ir::Graph::kNoNode;
      const ir::OpDef& op = is_copy ? ops::kCopy : *graph.nodes[step.node].op;
      loaded.kernel = FindKernel(op);
      if (loaded.kernel == nullptr)
        return Unsupported("load: the CPU backend has no kernel for `{}`", op.name);
      if (!is_copy && loaded.kernel->prepare) {
        auto prepared = loaded.kernel->prepare(graph, graph.nodes[step.node]);
        if (!prepared.ok())
          return std::move(prepared).status().Prefixed(
              fmt::format("load: node `{}` ({})", graph.nodes[step.node].name, op.name));
        loaded.prepared = *std::move(prepared);
      }
      for (const plan::Operand& operand : step.inputs)
        loaded.inputs.push_back(MakeView(graph, operand));
      for (const plan::Operand& operand : step.outputs)
        loaded.outputs.push_back(MakeView(graph, operand));
      if (!steps_.empty())
        steps_.back().may_join_next = steps_.back().kernel->tells_parts &&
                                      loaded.kernel->takes_parts &&
                                      Reads(step, plan.steps[steps_.size() - 1].outputs[0]);
      steps_.push_back(std::move(loaded));
    }
    return {};
  }

  Status Run(const RunContext& context, size_t begin, size_t end, size_t* failed) override {
    using Clock = std::chrono::steady_clock;
    for (size_t i = begin; i < end; ++i) {
      *failed = i;
      if (context.cancel && context.cancel->load(std::memory_order_relaxed))
        return Cancelled("cancelled before step {} of {}", i, plan_->steps.size());
      KernelArgs args = ArgsOf(context, i);
      const auto start = context.times ? Clock::now() : Clock::time_point();
      // Where steps are timed, each runs by itself.
      if (!context.times && i + 1 < end && steps_[i].may_join_next) {
        KernelArgs next = ArgsOf(context, i + 1);
        if (cpu::CanJoin(args, next, ScratchOf(context, i + 1))) {
          const plan::Storage& between = plan_->storages[plan_->steps[i].outputs[0].storage];
          args.passing = between.place == plan::Place::kArena && between.first_step == i &&
                         between.last_step == i + 1 && cpu::CanPass(args, next);
          const cpu::EarlierStep earlier{*steps_[i].kernel, args};
          next.earlier = &earlier;
          *failed = ++i;
          LS_RETURN_IF_ERROR(steps_[i].kernel->run(next));
          continue;
        }
      }
      LS_RETURN_IF_ERROR(steps_[i].kernel->run(args));
      if (context.times) {
        context.times->us[i] +=
            std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        ++context.times->calls[i];
      }
    }
    return {};
  }

 private:
  View MakeView(const ir::Graph& graph, const plan::Operand& operand) const {
    View view;
    view.dtype = operand.dtype;
    view.rank = operand.rank;
    if (operand.storage != plan::kNoStorage) {
      const plan::Storage& storage = plan_->storages[operand.storage];
      if (storage.place == plan::Place::kConstant) {
        view.layout = graph.constants[storage.index].layout;
        view.encoding = graph.constants[storage.index].encoding;
      }
    }
    return view;
  }

  static bool Reads(const plan::Step& step, const plan::Operand& written) {
    return std::ranges::any_of(
        step.inputs, [&](const plan::Operand& input) { return input.storage == written.storage; });
  }

  KernelArgs ArgsOf(const RunContext& context, size_t i) {
    const plan::Step& step = plan_->steps[i];
    LoadedStep& loaded = steps_[i];
    for (size_t k = 0; k < step.inputs.size(); ++k)
      Point(context, step.inputs[k], loaded.inputs[k]);
    for (size_t k = 0; k < step.outputs.size(); ++k)
      Point(context, step.outputs[k], loaded.outputs[k]);
    return {
        .inputs = loaded.inputs,
        .outputs = loaded.outputs,
        .params = context.block.subspan(step.params_at, step.param_count),
        .scratch = ScratchOf(context, i).data(),
        .pool = pool_,
        .prepared = loaded.prepared.get(),
        .in_place = step.in_place,
    };
  }

  std::span<std::byte> ScratchOf(const RunContext& context, size_t i) const {
    const plan::StorageId scratch = plan_->steps[i].scratch;
    if (scratch == plan::kNoStorage) return {};
    return {context.bases[scratch],
            static_cast<size_t>(context.block[plan_->storages[scratch].bytes_at])};
  }

  static void Point(const RunContext& context, const plan::Operand& operand, View& view) {
    if (operand.storage == plan::kNoStorage) return;
    view.dims = &context.block[operand.dims_at];
    view.strides = &context.block[operand.strides_at];
    view.data = context.bases[operand.storage] +
                context.block[operand.offset_at] * static_cast<int64_t>(SizeOf(operand.dtype));
    // An empty tensor may come without memory; a kernel tells an absent input by its null.
    static std::byte nothing[64];
    if (context.bases[operand.storage] == nullptr) view.data = nothing;
  }

  ThreadPool pool_;
  std::string isa_;
  const plan::Plan* plan_ = nullptr;
  std::vector<LoadedStep> steps_;
};

}  // namespace

BackendPtr MakeCpuBackend(const CpuOptions& options) {
  return std::make_unique<CpuBackend>(options);
}

}  // namespace liveshape
