// The NPU backend: values by walking each kernel's tile program through a scratchpad. It knows no op by name; which
// lowering serves which op is in table.cc. Where a machine is given, the simulator tells the cycles of the same walks
// (timing.h). docs/npu.md has the picture.
#include <algorithm>
#include <chrono>

#include "backends/npu/machine/reader.h"
#include "backends/npu/timing.h"
#include "backends/npu/values/executor.h"
#include "liveshape/liveshape.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

class NpuBackend : public Backend {
 public:
  explicit NpuBackend(const NpuOptions& options)
      : target_{.scratchpad_bytes = options.scratchpad_bytes,
                .array_rows = options.array_rows,
                .array_cols = options.array_cols,
                .arrays = options.arrays,
                .lanes = options.lanes,
                .forced_tile = options.tile},
        machine_file_(options.machine) {}

  const char* name() const override { return "npu"; }
  plan::Rules rules() const override { return npu::PlanRules(); }

  Status Load(const ir::Graph& graph, const plan::Plan& plan) override {
    plan_ = &plan;
    npu::Machine machine;
    if (!machine_file_.empty()) {
      LS_ASSIGN_OR_RETURN(machine, npu::ReadMachineFile(machine_file_));
      target_ = npu::TargetOf(machine, target_.forced_tile);
    }
    LS_ASSIGN_OR_RETURN(model_, npu::Lower(graph, plan, target_));
    if (!machine_file_.empty()) timing_ = std::make_unique<npu::Timing>(machine, graph, model_);
    symbols_ = graph.table().symbols().size();
    executor_ = std::make_unique<npu::Executor>(target_.scratchpad_bytes);
    size_t most_tensors = 0, most_args = 0, most_codes = 0;
    first_kernel_.assign(plan.steps.size() + 1, 0);
    for (const npu::Kernel& kernel : model_.kernels) {
      walkers_.emplace_back(kernel);
      rehearsed_.push_back(plan.steps[kernel.step].writes_state && npu::Scatters(kernel));
      most_tensors = std::max(most_tensors, kernel.tensors.size());
      most_args = std::max(most_args, kernel.shape_args.size());
      most_codes = std::max(most_codes, kernel.codes.size());
      ++first_kernel_[kernel.step + 1];
    }
    for (size_t s = 1; s < first_kernel_.size(); ++s) first_kernel_[s] += first_kernel_[s - 1];
    tensors_.resize(most_tensors);
    shape_args_.resize(most_args);
    params_.resize(most_codes);
    return {};
  }

  Status Run(const RunContext& context, size_t begin, size_t end, size_t* failed) override {
    using Clock = std::chrono::steady_clock;
    for (size_t s = begin; s < end; ++s) {
      *failed = s;
      if (context.cancel && context.cancel->load(std::memory_order_relaxed))
        return Cancelled("cancelled before step {} of {}", s, plan_->steps.size());
      const auto start = context.times ? Clock::now() : Clock::time_point();
      for (size_t i = first_kernel_[s]; i < first_kernel_[s + 1]; ++i)
        LS_RETURN_IF_ERROR(RunKernel(context, i));
      if (context.times) {
        context.times->us[s] +=
            std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        ++context.times->calls[s];
      }
    }
    return timing_ && end == plan_->steps.size() ? Time(context) : Status();
  }

  void AddStats(Stats& stats) const override { stats.cycles = cycles_; }

 private:
  // Cycles are a function of the live shape, so that a run at the shape of the one before costs nothing more.
  Status Time(const RunContext& context) {
    const std::span<const int64_t> values = context.block.first(symbols_);
    if (std::ranges::equal(values, timed_) && cycles_ > 0) return {};
    cycles_ = 0;
    timed_.assign(values.begin(), values.end());
    LS_ASSIGN_OR_RETURN(const auto attributes, timing_->Attributes(values));
    LS_ASSIGN_OR_RETURN(const npu::ModelReport report, timing_->Simulate(attributes));
    cycles_ = report.total.cycles;
    return {};
  }

  Status RunKernel(const RunContext& context, size_t index) {
    const npu::Kernel& kernel = model_.kernels[index];
    for (size_t t = 0; t < kernel.tensors.size(); ++t) {
      const npu::Tensor& tensor = kernel.tensors[t];
      LS_ASSIGN_OR_RETURN(const int64_t bytes,
                          tensor.bytes.table().Evaluate(tensor.bytes, context.block));
      tensors_[t] = {context.bases[tensor.storage], static_cast<size_t>(bytes)};
    }
    for (size_t a = 0; a < kernel.shape_args.size(); ++a) {
      const sym::Expr e = kernel.shape_args[a];
      LS_ASSIGN_OR_RETURN(shape_args_[a], e.table().Evaluate(e, context.block));
    }
    for (size_t c = 0; c < kernel.codes.size(); ++c) {
      const plan::Step& step = plan_->steps[kernel.value_steps[c]];
      params_[c] = context.block.subspan(step.params_at, step.param_count);
    }
    const auto args = std::span(shape_args_).first(kernel.shape_args.size());
    const auto tensors = std::span(tensors_).first(kernel.tensors.size());
    const auto params = std::span(params_).first(kernel.codes.size());
    if (rehearsed_[index])
      LS_RETURN_IF_ERROR(executor_->Rehearse(kernel, walkers_[index], args, tensors, params));
    return executor_->Run(kernel, walkers_[index], args, tensors, params);
  }

  npu::Target target_;
  std::string machine_file_;  // empty: nothing is timed
  const plan::Plan* plan_ = nullptr;
  npu::Model model_;
  std::vector<npu::Walker> walkers_;  // by kernel
  std::vector<bool> rehearsed_;       // by kernel: it may fail after it has written a state
  std::vector<size_t> first_kernel_;  // by step
  std::unique_ptr<npu::Executor> executor_;
  std::vector<std::span<std::byte>> tensors_;
  std::vector<int64_t> shape_args_;
  std::vector<std::span<const int64_t>> params_;  // by code
  std::unique_ptr<npu::Timing> timing_;
  size_t symbols_ = 0;
  std::vector<int64_t> timed_;  // symbol values of the last run, which took
  int64_t cycles_ = 0;
};

}  // namespace

BackendPtr MakeNpuBackend(const NpuOptions& options) {
  return std::make_unique<NpuBackend>(options);
}

}  // namespace liveshape
