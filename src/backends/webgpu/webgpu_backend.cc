// The WebGPU backend's machinery: memory on the device, one dispatch list, one submit a run. It knows no op by
// name; which kernel serves which op is in table.cc. docs/webgpu.md has the picture.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "backends/webgpu/device/limits.h"
#include "backends/webgpu/fuse.h"
#include "backends/webgpu/memory.h"
#include "backends/webgpu/numbers.h"
#include "backends/webgpu/shader.h"
#include "liveshape/liveshape.h"
#include "ops/ops.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

using gpu::BoundRange;
using gpu::Command;
using webgpu::Dispatch;
using webgpu::Lowering;
using webgpu::WebGpuKernel;

const WebGpuKernel* FindKernel(const ir::OpDef& op) {
  for (const WebGpuKernel* kernel : webgpu::AllKernels())
    if (kernel->op == &op) return kernel;
  return nullptr;
}

// What never changes of one dispatch; only its workgroup count does.
struct LoadedDispatch {
  gpu::PipelineId pipeline = {};
  gpu::GroupId group = {};
  uint32_t groups_at = 0;  // slot of the count in webgpu::Numbers
  uint32_t step = 0;
  std::string label = {};  // names the node in an error
  std::vector<BoundRange> ranges = {};
};

class WebGpuBackend : public Backend {
 public:
  explicit WebGpuBackend(const WebGpuOptions& options) : options_(options) {}

  const char* name() const override { return "webgpu"; }
  plan::Rules rules() const override;
  Status Load(const ir::Graph& graph, const plan::Plan& plan) override;
  Status Run(const RunContext& context, size_t begin, size_t end, size_t* failed) override;

  Status FetchState(size_t state, std::byte* host) override {
    encoded_ahead_ = false;  // both encode for themselves
    return memory_.Fetch(state, host);
  }
  Status StoreState(size_t state, const std::byte* host) override {
    encoded_ahead_ = false;
    return memory_.Store(state, host);
  }
  bool holds_tensors() const override { return true; }
  void KeepOutput(size_t output, bool keep) override { memory_.KeepOutput(output, keep); }
  void FeedInput(size_t input, size_t output) override {
    memory_.FeedInput(plan_->input_storage[input], output);
    commands_.reserve(dispatches_.size() + memory_.most_copies());
    last_commands_.reserve(commands_.capacity());  // they change places at every run
  }
  Status FetchOutput(size_t output, std::byte* host) override {
    encoded_ahead_ = false;
    return memory_.FetchOutput(output, host);
  }
  Status StoreArena(std::span<const std::byte> host) override { return memory_.Poison(host); }
  uint64_t objects_made() const override;
  void AddStats(Stats& stats) const override;

 private:
  Lowering LoweringOf(const plan::Step& step, const plan::Step& operands) const;
  Status FindFusions();
  Status LowerStep(const Lowering& lowering);
  // `step` fails where a dispatch does; the time of it is booked on `booked`.
  Status AddParts(const Lowering& l, const std::vector<Dispatch>& dispatches, uint32_t step,
                  uint32_t booked);
  Status LoadParts();
  Status LoadDispatch(const webgpu::Shader& shader, size_t first, size_t count);

  WebGpuOptions options_;
  const webgpu::Tuning tuning_ = webgpu::ReadTuning(std::getenv("LIVESHAPE_WEBGPU_TUNING"));
  const ir::Graph* graph_ = nullptr;
  const plan::Plan* plan_ = nullptr;
  std::optional<plan::Locations> locations_;
  std::unique_ptr<gpu::Device> device_;
  webgpu::DeviceMemory memory_;
  webgpu::Numbers numbers_;
  std::map<std::string, gpu::PipelineId> pipelines_;  // by WGSL: equal nodes share one
  std::vector<std::unique_ptr<webgpu::Fusion>> fusions_;
  std::vector<const webgpu::Fusion*> fusion_of_;  // by step
  std::vector<webgpu::Part> parts_;   // while loading: in order, before neighbours are joined
  std::vector<uint32_t> part_steps_;  // by part: the step that its time is booked on
  std::vector<LoadedDispatch> dispatches_;
  std::map<uint32_t, std::string> failures_;  // what fail() means, by step
  std::vector<Command> commands_;
  std::vector<Command> last_commands_;
  bool encoded_ahead_ = false;     // last_commands_ wait on the device, ready to be submitted
  std::vector<uint32_t> encoded_;  // steps of the dispatches of this run
  std::vector<double> times_;
  uint64_t runs_ = 0;  // only where a fault is injected
};

plan::Rules WebGpuBackend::rules() const {
  return {
      .alignment = webgpu::kSlotAlignment,
      .need =
          [](const ir::Node& node, size_t input) {
            const WebGpuKernel* kernel = FindKernel(*node.op);
            return kernel && kernel->need ? kernel->need(node, input) : plan::Need::kStrided;
          },
      .scratch =
          [](const ir::Graph& graph, const ir::Node& node) {
            const WebGpuKernel* kernel = FindKernel(*node.op);
            return kernel && kernel->scratch ? kernel->scratch(graph, node) : sym::Expr();
          },
      .linger = webgpu::kFusionReach,
  };
}

Status WebGpuBackend::Load(const ir::Graph& graph, const plan::Plan& plan) {
  graph_ = &graph;
  plan_ = &plan;
  locations_.emplace(graph, plan);
  // Refused by name before a device is opened: that needs none (W9).
  for (const plan::Step& step : plan.steps) {
    const ir::OpDef& op = step.node == ir::Graph::kNoNode ? ops::kCopy : *graph.nodes[step.node].op;
    if (FindKernel(op) == nullptr)
      return Unsupported("load: the WebGPU backend has no kernel for `{}`{}", op.name,
                         step.node == ir::Graph::kNoNode
                             ? ""
                             : fmt::format(" ({})", ir::Describe(graph.nodes[step.node])));
  }
  if (!plan.births.empty())
    return Unsupported(
        "load: {} makes a size of data, which the WebGPU backend cannot read back "
        "in the middle of a run",
        ir::Describe(graph.nodes[plan.births[0].node]));
  const char* asked = std::getenv("LIVESHAPE_WEBGPU_LIMITS");
  const std::string& limits = options_.limits.empty() && asked ? asked : options_.limits;
  LS_ASSIGN_OR_RETURN(const gpu::Limits at_most, gpu::ParseLimits(limits));
  LS_ASSIGN_OR_RETURN(
      device_, gpu::OpenDevice({.adapter = options_.adapter,
                                .at_most = at_most,
                                .timestamps = options_.profile && options_.inject != "features"}));
  if (options_.inject == "memory")
    device_->CreateBuffer(device_->limits().buffer_bytes + 4, gpu::BufferUse::kStorage, "arena");
  numbers_.Begin(graph.table(), device_->limits().offset_alignment);
  LS_RETURN_IF_ERROR(memory_.Create(*device_, graph, plan, numbers_).Prefixed("load"));
  LS_RETURN_IF_ERROR(FindFusions());
  for (const plan::Step& step : plan.steps) {
    const Lowering lowering = LoweringOf(step, step);
    LS_RETURN_IF_ERROR(LowerStep(lowering).Prefixed(
        "load: " + (lowering.node ? ir::Describe(*lowering.node) : "a copy")));
  }
  LS_RETURN_IF_ERROR(LoadParts());
  LS_RETURN_IF_ERROR(numbers_.Finish(*device_));
  for (LoadedDispatch& d : dispatches_) {
    d.ranges[0].buffer = numbers_.buffer();
    d.group = device_->CreateGroup(d.pipeline, d.ranges, d.label);
  }
  if (options_.profile) device_->CreateTimestamps(static_cast<uint32_t>(dispatches_.size()));
  commands_.reserve(dispatches_.size() + memory_.most_copies());
  last_commands_.reserve(commands_.capacity());
  encoded_.reserve(dispatches_.size());
  times_.resize(dispatches_.size());
  memory_.ClearError();
  return device_->error().Prefixed("load");
}

Lowering WebGpuBackend::LoweringOf(const plan::Step& step, const plan::Step& operands) const {
  const ir::Node* node = step.node == ir::Graph::kNoNode ? nullptr : &graph_->nodes[step.node];
  return {*graph_, *plan_,     operands, node, device_->limits(), device_->features(),
          tuning_, *locations_};
}

Status WebGpuBackend::FindFusions() {
  fusion_of_.assign(plan_->steps.size(), nullptr);
  if (!tuning_.fuse) return {};
  for (const plan::Step& step : plan_->steps) {
    const Lowering l = LoweringOf(step, step);
    const WebGpuKernel& kernel = *FindKernel(l.node ? *l.node->op : ops::kCopy);
    if (kernel.fuse == nullptr) continue;
    LS_ASSIGN_OR_RETURN(std::optional<webgpu::Fusion> fusion, kernel.fuse(l));
    if (fusion) fusion->owner = &step;
    const auto taken = [&](const plan::Step* s) { return fusion_of_[s - plan_->steps.data()]; };
    if (!fusion || std::any_of(fusion->steps.begin(), fusion->steps.end(), taken)) continue;
    // What needs more bindings than there are stays apart.
    const Lowering whole = LoweringOf(*fusion->steps.back(), *fusion->step);
    if (std::any_of(fusion->dispatches.begin(), fusion->dispatches.end(), [&](const Dispatch& d) {
          const webgpu::Part part{whole, d};
          return !webgpu::MakeShader({&part, 1}, memory_).ok();
        }))
      continue;
    fusions_.push_back(std::make_unique<webgpu::Fusion>(std::move(*fusion)));
    for (const plan::Step* s : fusions_.back()->steps)
      fusion_of_[s - plan_->steps.data()] = fusions_.back().get();
  }
  return {};
}

Status WebGpuBackend::LowerStep(const Lowering& l) {
  const WebGpuKernel& kernel = *FindKernel(l.node ? *l.node->op : ops::kCopy);
  const webgpu::Fusion* fusion = fusion_of_[&l.step - l.plan.steps.data()];
  const auto number = static_cast<uint32_t>(&l.step - l.plan.steps.data());
  if (!fusion || fusion->when) {
    LS_ASSIGN_OR_RETURN(std::vector<Dispatch> dispatches, kernel.lower(l));
    if (fusion)
      for (Dispatch& d : dispatches)
        d.groups = sym::Select(fusion->when, l.table().Int(0), d.groups);
    LS_RETURN_IF_ERROR(AddParts(l, dispatches, number, number));
  }
  if (!fusion || fusion->steps.back() != &l.step) return {};
  std::vector<Dispatch> dispatches = fusion->dispatches;
  if (fusion->when)
    for (Dispatch& d : dispatches) d.groups = sym::Select(fusion->when, d.groups, l.table().Int(0));
  return AddParts(LoweringOf(l.step, *fusion->step), dispatches, number,
                  static_cast<uint32_t>(fusion->owner - l.plan.steps.data()));
}

Status WebGpuBackend::AddParts(const Lowering& l, const std::vector<Dispatch>& dispatches,
                               uint32_t step, uint32_t booked) {
  for (const Dispatch& dispatch : dispatches) {
    if (l.table().Bounds(dispatch.groups).hi <= 0 && dispatches.size() > 1) continue;
    // Folded into two dimensions, any count of 32 bits fits.
    if (l.table().Bounds(dispatch.groups).hi > INT32_MAX)
      return ResourceExhausted("{} workgroups at the bound", sym::ToString(dispatch.groups));
    parts_.push_back({l, dispatch});
    part_steps_.push_back(booked);
    LS_RETURN_IF_ERROR(webgpu::MakeShader({&parts_.back(), 1}, memory_).status());
    if (!dispatch.failure.empty()) failures_[step] = dispatch.failure;
  }
  return {};
}

// Neighbours in the list that need nothing of each other become one dispatch, as far as the device binds their buffers.
Status WebGpuBackend::LoadParts() {
  const std::span<const webgpu::Part> parts = parts_;
  for (size_t first = 0, count = 0; first < parts.size(); first += count) {
    LS_ASSIGN_OR_RETURN(webgpu::Shader shader,
                        webgpu::MakeShader(parts.subspan(first, 1), memory_));
    for (count = 1; tuning_.fuse && first + count < parts.size(); ++count) {
      const webgpu::Part& next = parts[first + count];
      const auto apart = [&](const webgpu::Part& p) {
        return !webgpu::CanLieBeside(p, next, memory_);
      };
      if (std::any_of(&parts[first], &next, apart)) break;
      Result<webgpu::Shader> joined = webgpu::MakeShader(parts.subspan(first, count + 1), memory_);
      if (!joined.ok() || graph_->table().Bounds(joined->groups).hi > INT32_MAX) break;
      shader = *std::move(joined);
    }
    LS_RETURN_IF_ERROR(LoadDispatch(shader, first, count).Prefixed("load"));
  }
  parts_.clear();
  return {};
}

Status WebGpuBackend::LoadDispatch(const webgpu::Shader& shader, size_t first, size_t count) {
  LoadedDispatch d;
  for (size_t i = first; i < first + count; ++i) {
    const ir::Node* node = parts_[i].lowering.node;
    d.label += (i > first ? ", " : "") +
               (node ? fmt::format("{} ({})", node->name, node->op->name) : std::string("copy"));
  }
  d.step = part_steps_[first];
  d.groups_at = numbers_.Slot(shader.groups);
  d.ranges.push_back(
      {{}, numbers_.AddParams(shader.params), webgpu::Numbers::BytesOf(shader.params)});
  d.ranges.insert(d.ranges.end(), shader.ranges.begin(), shader.ranges.end());
  auto [pipeline, added] = pipelines_.try_emplace(shader.wgsl);
  if (added) {
    std::vector<gpu::Binding> bindings(d.ranges.size(), gpu::Binding::kStorage);
    bindings[0] = gpu::Binding::kUniform;
    const gpu::ShaderId module = device_->CreateShader(
        options_.inject == "shader" ? shader.wgsl + "nonsense" : shader.wgsl, d.label);
    pipeline->second = device_->CreatePipeline(module, bindings, d.label);
    LS_RETURN_IF_ERROR(device_->error());
  }
  d.pipeline = pipeline->second;
  dispatches_.push_back(std::move(d));
  return {};
}

// Counts beyond what one dimension takes are folded into a second (W10); the shader drops what is too much.
Command FoldedDispatch(gpu::PipelineId pipeline, gpu::GroupId group, uint64_t groups,
                       uint32_t most) {
  if (groups <= most) return Command::Dispatch(pipeline, group, static_cast<uint32_t>(groups));
  const uint64_t rows = (groups + most - 1) / most;
  return Command::Dispatch(pipeline, group, static_cast<uint32_t>((groups + rows - 1) / rows),
                           static_cast<uint32_t>(rows));
}

Status WebGpuBackend::Run(const RunContext& context, size_t begin, size_t end, size_t* failed) {
  // All steps are one submit: what fails, fails the whole of it.
  *failed = begin;
  if (context.cancel && context.cancel->load(std::memory_order_relaxed))
    return Cancelled("cancelled before the run was submitted");
  LS_RETURN_IF_ERROR(numbers_.Bind(*device_, context.block));
  memory_.Upload(numbers_, context.bases);
  commands_.clear();
  encoded_.clear();
  for (const LoadedDispatch& d : dispatches_)
    if (const int64_t groups = numbers_.at(d.groups_at); groups > 0) {
      commands_.push_back(FoldedDispatch(d.pipeline, d.group, static_cast<uint64_t>(groups),
                                         device_->limits().workgroup_count));
      encoded_.push_back(d.step);
    }
  memory_.AddReadback(numbers_, commands_);
  const bool timed = context.times && options_.profile;
  const bool repeated = !timed && commands_ == last_commands_;
  if (!repeated || !encoded_ahead_) LS_RETURN_IF_ERROR(device_->Encode(commands_, timed));
  encoded_ahead_ = false;
  *failed = end;
  if (options_.inject == "lose" && ++runs_ == 2) device_->Lose();
  LS_RETURN_IF_ERROR(device_->Submit());
  // What was the same twice is likely to be so again: the next run is encoded while this one runs.
  if (repeated) {
    LS_RETURN_IF_ERROR(device_->Encode(commands_));
    encoded_ahead_ = true;
  }
  std::swap(commands_, last_commands_);
  LS_ASSIGN_OR_RETURN(const uint32_t error, memory_.Readback(context.bases));
  if (error != 0) {
    memory_.ClearError();
    const plan::Step& step = plan_->steps[error - 1];
    return OutOfRange("run: {}: {}", ir::Describe(graph_->nodes[step.node]), failures_[error - 1]);
  }
  if (timed) {
    const std::span<double> us = std::span(times_).first(encoded_.size());
    LS_RETURN_IF_ERROR(device_->ReadTimestamps(us));
    for (size_t i = 0; i < us.size(); ++i) {
      context.times->us[encoded_[i]] += us[i];
      ++context.times->calls[encoded_[i]];
    }
  }
  return {};
}

uint64_t WebGpuBackend::objects_made() const {
  const gpu::Counts& made = device_->created();
  return uint64_t{made.buffers} + made.shaders + made.pipelines + made.groups;
}

void WebGpuBackend::AddStats(Stats& stats) const {
  const gpu::Counts& made = device_->created();
  stats.device_buffers = made.buffers;
  stats.device_shaders = made.shaders;
  stats.device_pipelines = made.pipelines;
  stats.device_bind_groups = made.groups;
  stats.device_library_allocations = device_->library_allocations();
  stats.arena_resident = memory_.arena_bytes();  // a device has no pages to give back
}

}  // namespace

BackendPtr MakeWebGpuBackend(const WebGpuOptions& options) {
  return std::make_unique<WebGpuBackend>(options);
}

}  // namespace liveshape
