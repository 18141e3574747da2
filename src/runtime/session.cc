#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/observe.h"
#include "ir/graph.h"
#include "liveshape/liveshape.h"
#include "runtime/backend.h"
#include "runtime/binding.h"
#include "runtime/memory.h"
#include "runtime/resident.h"

namespace liveshape {
namespace {

using Clock = std::chrono::steady_clock;
double MicrosSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

}  // namespace

struct Session::Impl {
  std::shared_ptr<const Artifact> artifact;
  BackendPtr backend;
  SessionOptions options;
  plan::Plan plan;
  Binding binding;
  SessionMemory memory;
  std::vector<TensorRef> outputs;
  ResidentInputs resident;
  struct Feed { size_t input, output; };
  std::vector<Feed> feeds;
  std::vector<bool> kept;  // outputs that are not brought back
  struct DataDim {
    size_t output, dim;
    sym::Stage stage;
  };
  std::vector<DataDim> data_dims;  // of outputs: what no bind knows
  sym::Stage known = 0;            // outputs have the dims of this stage and before
  Stats stats;
  StepTimes times;
  std::atomic<bool> cancel{false};
  bool needs_reset = false;
  std::vector<uint32_t> context_states;  // only where poison is asked for
  uint64_t plans_made = 1;
  uint64_t objects_at_load = 0;  // of the backend

  const ir::Graph& graph() const { return artifact->graph(); }
  Status Bind(std::span<const TensorRef> inputs);
  Status Run(std::span<const TensorRef> inputs, std::span<TensorRef> outputs);
  Status Execute();
  void SetOutputDims(sym::Stage stage);
  void AfterBind(bool changed, Clock::time_point start);
  Status BorrowInputs(std::span<const TensorRef> inputs);
  bool WritesToCaller(size_t output, const TensorRef& given) const;
  const void* WhereMade(size_t output, std::span<const TensorRef> caller) const;
  void CheckContract(const AllocationScope& scope, const char* where);
  void Inject(const char* fault);
  Status RunSteps(size_t begin, size_t end);
  void NoteStatesWritten(size_t end);
  Status InitialStates();
  void PrepareResident();
  Status CheckOutput(size_t output) const;
  void NoteResident(std::span<const TensorRef> inputs);
};

void DeleteBackend::operator()(Backend* backend) const { delete backend; }

Session::Session() : impl_(std::make_unique<Impl>()) {}
Session::~Session() = default;

Result<std::unique_ptr<Session>> Session::Create(std::shared_ptr<const Artifact> artifact,
                                                 BackendPtr backend,
                                                 const SessionOptions& options) {
  std::unique_ptr<Session> session(new Session());
  Impl& s = *session->impl_;
  s.artifact = std::move(artifact);
  s.backend = std::move(backend);
  s.options = options;
  {
    MutexLock planning(s.artifact->planning());
    LS_ASSIGN_OR_RETURN(s.plan, plan::MakePlan(s.graph(), s.backend->rules()));
    LS_RETURN_IF_ERROR(s.backend->Load(s.graph(), s.plan));
    LS_RETURN_IF_ERROR(s.binding.Prepare(s.graph(), s.plan));
    LS_RETURN_IF_ERROR(s.memory.Reserve(s.graph(), s.plan));  // asks for bounds, too
  }
  if (options.poison != Poison::kNone) s.context_states = ContextStates(s.graph());
  LS_RETURN_IF_ERROR(s.InitialStates());
  s.objects_at_load = s.backend->objects_made();
  s.times.us.resize(s.plan.steps.size());
  s.times.calls.resize(s.plan.steps.size());
  for (size_t i = 0; i < s.plan.outputs.size(); ++i) {
    const plan::PlannedOutput& planned = s.plan.outputs[i];
    TensorRef ref;
    const bool scalar = planned.operand.storage == plan::kNoStorage;
    ref.dtype = scalar ? DType::kI64 : planned.operand.dtype;
    ref.dims.resize(planned.operand.rank);
    s.outputs.push_back(std::move(ref));
    for (size_t d = 0; d < planned.operand.rank; ++d) {
      const auto stage = s.graph().table().StageOf(s.graph().type(planned.operand.value).dims[d]);
      if (stage > 0) s.data_dims.push_back({s.outputs.size() - 1, d, stage});
    }
  }
  s.PrepareResident();
  s.stats.allocations_observed = AllocationsObserved();
  return session;
}

Status Session::Impl::InitialStates() {
  memory.PoisonStates(graph(), context_states, options.poison);
  for (size_t i = 0; i < memory.state_count(); ++i) {
    const bool poisoned =
        std::find(context_states.begin(), context_states.end(), i) != context_states.end();
    const bool zeros = memory.starts_at_zero(i) && !poisoned;
    LS_RETURN_IF_ERROR(backend->StoreState(i, zeros ? nullptr : memory.state(i)));
  }
  return {};
}

// Detectors of the contract (X1). An error path may build its message; a path that succeeds may not
// allocate, rebuild or move anything.
void Session::Impl::CheckContract(const AllocationScope& scope, const char* where) {
  stats.allocations += scope.count();
  const uint64_t objects = backend->objects_made() - objects_at_load;
  stats.rebuilds = plans_made - 1 + objects;
  const int64_t moved = memory.FirstMoved(memory.bases());
  if (moved >= 0) ++stats.moved_addresses;
  if (!options.strict) return;
  AllocationPause pause;
  if (scope.count() > 0)
    Panic(__FILE__, __LINE__,
          fmt::format("strict: {} allocations inside {}, the first a {} of {} bytes", scope.count(),
                      where, scope.first_function(), scope.first_bytes()));
  if (plans_made != 1)
    Panic(__FILE__, __LINE__, fmt::format("strict: the plan was rebuilt inside {}", where));
  if (objects != 0)
    Panic(__FILE__, __LINE__,
          fmt::format("strict: the backend made {} objects inside {}", objects, where));
  if (moved >= 0)
    Panic(__FILE__, __LINE__,
          fmt::format("strict: the address of storage {} moved inside {}", moved, where));
}

// What the tests of the detectors ask for; nothing else sets options.inject.
void Session::Impl::Inject(const char* fault) {
  if (options.inject.empty() || options.inject != fault) return;
  if (options.inject == "allocate") {
    static void* volatile seen;  // keeps the compiler from removing the pair
    seen = std::malloc(64);
    std::free(seen);
  } else if (options.inject == "rebuild") {
    AllocationPause pause;
    if (auto again = plan::MakePlan(graph(), backend->rules()); again.ok()) ++plans_made;
  } else if (options.inject == "move") {
    for (size_t i = 0; i < plan.storages.size(); ++i)
      if (plan.storages[i].place != plan::Place::kInput) {
        memory.bases()[i] += 64;
        break;
      }
  }
}

// Numbers of later stages are still those of an earlier run: no dim shows them.
void Session::Impl::SetOutputDims(sym::Stage stage) {
  known = stage;
  const std::span<const int64_t> block = binding.block();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const plan::Operand& operand = plan.outputs[i].operand;
    for (size_t d = 0; d < operand.rank; ++d) outputs[i].dims[d] = block[operand.dims_at + d];
    outputs[i].data = operand.storage == plan::kNoStorage
                          ? const_cast<int64_t*>(&block[plan.outputs[i].scalar_at])
                      : kept[i] ? nullptr
                                : static_cast<void*>(memory.bases()[operand.storage]);
  }
  for (const DataDim& late : data_dims)
    if (late.stage > stage) outputs[late.output].dims[late.dim] = kUnknownDim;
}

void Session::Impl::AfterBind(bool changed, Clock::time_point start) {
  if (changed || (known > 0 && !data_dims.empty())) SetOutputDims(0);
  if (!changed) return;
  ++stats.binds;
  stats.last_bind_us = MicrosSince(start);
}

Status Session::Impl::Bind(std::span<const TensorRef> inputs) {
  AllocationScope scope;
  const auto start = Clock::now();
  bool changed = false;
  LS_RETURN_IF_ERROR(binding.BindShapes(inputs, &changed));
  AfterBind(changed, start);
  CheckContract(scope, "bind");
  return {};
}

Status Session::Impl::BorrowInputs(std::span<const TensorRef> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (plan.input_storage[i] != plan::kNoStorage) {
      LS_ASSIGN_OR_RETURN(memory.bases()[plan.input_storage[i]], memory.Borrow(i, inputs[i]));
    }
  return {};
}

// An output goes straight to the caller where its slot is its own and elements are aligned there.
bool Session::Impl::WritesToCaller(size_t i, const TensorRef& given) const {
  const plan::PlannedOutput& output = plan.outputs[i];
  return given.data && output.redirectable && output.operand.storage != plan::kNoStorage &&
         IsAligned(given.data, output.operand.dtype);
}

// Two outputs may be one value; an earlier one may then have taken it to the caller's memory.
const void* Session::Impl::WhereMade(size_t i, std::span<const TensorRef> caller) const {
  if (plan.outputs[i].operand.storage != plan::kNoStorage)
    for (size_t j = 0; j < i; ++j)
      if (plan.outputs[j].operand.storage == plan.outputs[i].operand.storage &&
          WritesToCaller(j, caller[j]))
        return caller[j].data;
  return outputs[i].data;
}

// After a failure: states that no step before `end` wrote are as before; else the session says so and stays
// shut.
void Session::Impl::NoteStatesWritten(size_t end) {
  for (size_t i = 0; i < end; ++i) needs_reset = needs_reset || plan.steps[i].writes_state;
}

Status Session::Impl::RunSteps(size_t begin, size_t end) {
  const RunContext context{binding.block(), memory.bases(), &cancel,
                           options.profile ? &times : nullptr};
  size_t failed = end;
  Status status = backend->Run(context, begin, end, &failed);
  if (status.ok()) return {};
  const plan::Step* step = failed < plan.steps.size() ? &plan.steps[failed] : nullptr;
  NoteStatesWritten(failed);
  needs_reset = needs_reset || (step && step->commits_state);
  if (step == nullptr || step->node == ir::Graph::kNoNode) return status;
  return std::move(status).Prefixed("run: " + ir::Describe(graph().nodes[step->node]));
}

// What is known before the first kernel runs first (stages 0 and 1). Each later stage begins by reading
// the sizes that the steps before it have made.
Status Session::Impl::Execute() {
  const sym::Stage last = plan.program.stage_count() - 1;
  size_t begin = 0;
  for (sym::Stage stage = 1;; ++stage) {
    if (stage > 1 && backend->computes()) {
      if (Status s = binding.BindBorn(stage, memory); !s.ok()) {
        NoteStatesWritten(begin);
        return s;
      }
      SetOutputDims(stage);
    }
    size_t end = begin;
    while (end < plan.steps.size() && plan.steps[end].stage <= stage) ++end;
    LS_RETURN_IF_ERROR(RunSteps(begin, end));
    begin = end;
    if (stage >= last) return {};
  }
}

Status Session::Impl::Run(std::span<const TensorRef> inputs, std::span<TensorRef> caller) {
  if (needs_reset)
    return FailedPrecondition(
        "run: an earlier run failed after it had begun to change states; call "
        "ResetStates or Restore first");
  if (!caller.empty() && caller.size() != outputs.size())
    return InvalidArgument("run: {} outputs given, the model has {}", caller.size(),
                           outputs.size());
  for (size_t i = 0; i < caller.size(); ++i)
    if (kept[i] && caller[i].data)
      return InvalidArgument("run: output {} stays on the device; ReadOutput fetches it", i);
  LS_RETURN_IF_ERROR(resident.Check(inputs));
  LS_RETURN_IF_ERROR(Bind(inputs));
  if (options.poison != Poison::kNone) {
    AllocationPause pause;
    memory.Poison(plan, binding.block(), options.poison);
    LS_RETURN_IF_ERROR(backend->StoreArena({memory.arena().data(), memory.arena().size()}));
  }
  AllocationScope scope;
  const auto start = Clock::now();
  LS_RETURN_IF_ERROR(BorrowInputs(inputs));
  bool changed = false;
  LS_RETURN_IF_ERROR(binding.BindHostValues(inputs, memory, &changed));
  if (changed) SetOutputDims(1);
  for (size_t i = 0; i < caller.size(); ++i)
    if (WritesToCaller(i, caller[i]))
      memory.bases()[plan.outputs[i].operand.storage] = static_cast<std::byte*>(caller[i].data);
  Inject("allocate");
  Status status = Execute();
  for (size_t i = 0; i < caller.size(); ++i) {
    const StorageRestore restore(memory, plan, i);
    if (!status.ok()) continue;
    TensorRef& out = caller[i];
    void* const given = out.data;
    const bool fits = out.dims.size() == outputs[i].dims.size();
    out.dtype = outputs[i].dtype;
    if (fits)
      std::copy(outputs[i].dims.begin(), outputs[i].dims.end(), out.dims.begin());
    else
      out.dims = outputs[i].dims;
    if (WritesToCaller(i, out)) continue;
    const void* const made = WhereMade(i, caller);
    out.data = given == nullptr ? outputs[i].data : given;
    if (out.data != made) std::memcpy(out.data, made, outputs[i].bytes());
  }
  if (!status.ok()) {
    SetOutputDims(0);
    resident.Forget();
  }
  LS_RETURN_IF_ERROR(std::move(status));
  NoteResident(inputs);
  Inject("rebuild");
  Inject("move");
  stats.last_run_ms = MicrosSince(start) / 1000;
  ++stats.runs;
  CheckContract(scope, "run");
  return {};
}

Status Session::Bind(std::span<const TensorRef> inputs) { return impl_->Bind(inputs); }

Status Session::BindSymbols(std::span<const int64_t> values) {
  AllocationScope scope;
  const auto start = Clock::now();
  bool changed = false;
  LS_RETURN_IF_ERROR(impl_->binding.BindSymbols(values, &changed));
  impl_->AfterBind(changed, start);
  impl_->CheckContract(scope, "bind");
  return {};
}

Status Session::Run(std::span<const TensorRef> inputs) { return impl_->Run(inputs, {}); }
Status Session::Run(std::span<const TensorRef> inputs, std::span<TensorRef> outputs) {
  return impl_->Run(inputs, outputs);
}

void Session::Impl::PrepareResident() {
  std::vector<int> ranks;
  for (const ir::Input& input : graph().inputs) {
    const bool tensor = plan.input_storage[ranks.size()] != plan::kNoStorage;
    ranks.push_back(tensor ? static_cast<int>(graph().type(input.value).dims.size()) : -1);
  }
  for (const ir::HostValue& host : graph().host_values)
    if (host.source == ir::Origin::kInput) ranks[host.index] = -1;
  if (!backend->holds_tensors()) std::fill(ranks.begin(), ranks.end(), -1);
  resident.Prepare(ranks);
  kept.resize(outputs.size());
}

void Session::Impl::NoteResident(std::span<const TensorRef> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].data) resident.Hold(i, inputs[i].dims);
  for (const Feed& feed : feeds) resident.Hold(feed.input, outputs[feed.output].dims);
}

Status Session::Impl::CheckOutput(size_t output) const {
  if (!backend->holds_tensors())
    return Unsupported("the {} backend computes in the host's memory: nothing stays elsewhere",
                       backend->name());
  if (output >= outputs.size() || plan.outputs[output].operand.storage == plan::kNoStorage)
    return InvalidArgument("output {}: the model has {}, integers do not stay", output,
                           outputs.size());
  return {};
}

Status Session::KeepOutput(size_t output, bool keep) {
  LS_RETURN_IF_ERROR(impl_->CheckOutput(output));
  impl_->kept[output] = keep;
  impl_->backend->KeepOutput(output, keep);
  if (impl_->binding.bound()) impl_->SetOutputDims(impl_->known);
  return {};
}

Status Session::FeedInput(size_t input, size_t output) {
  LS_RETURN_IF_ERROR(impl_->CheckOutput(output));
  if (input >= impl_->graph().inputs.size() || !impl_->resident.CanHold(input))
    return InvalidArgument("input {}: not a tensor that only kernels read", input);
  const ir::TensorType& to = impl_->graph().type(impl_->graph().inputs[input].value);
  const TensorRef& from = impl_->outputs[output];
  if (to.dtype != from.dtype || to.dims.size() != from.dims.size())
    return InvalidArgument("input {} is {}, output {} is {} of rank {}", input, ir::ToString(to),
                           output, Name(from.dtype), from.dims.size());
  for (const Impl::Feed& feed : impl_->feeds)
    if (feed.input == input)
      return InvalidArgument("input {} is fed by output {} already", input, feed.output);
  impl_->feeds.push_back({input, output});
  impl_->backend->FeedInput(input, output);
  return {};
}

Status Session::ReadOutput(size_t output, std::span<std::byte> destination) const {
  if (output >= impl_->outputs.size() || impl_->stats.runs == 0)
    return InvalidArgument("output {}: the model has {}, after a run", output,
                           impl_->outputs.size());
  const TensorRef& out = impl_->outputs[output];
  if (destination.size() != out.bytes())
    return InvalidArgument("output {} has {} bytes, {} given", output, out.bytes(),
                           destination.size());
  if (impl_->kept[output]) return impl_->backend->FetchOutput(output, destination.data());
  if (!destination.empty()) std::memcpy(destination.data(), out.data, destination.size());
  return {};
}

size_t Session::output_count() const { return impl_->outputs.size(); }
const TensorRef& Session::output(size_t i) const { return impl_->outputs[i]; }
bool Session::output_known_at_bind(size_t i) const {
  const ir::Graph& graph = impl_->graph();
  const ir::Output& output = graph.outputs[i];
  if (output.scalar) return graph.table().StageOf(output.scalar) == 0;
  for (const ir::Expr dim : graph.type(output.value).dims)
    if (graph.table().StageOf(dim) > 0) return false;
  return true;
}
std::span<const int64_t> Session::symbol_values() const { return impl_->binding.symbols(); }
bool Session::needs_reset() const { return impl_->needs_reset; }
std::atomic<bool>& Session::cancel() { return impl_->cancel; }

std::vector<std::string> Session::state_names() const {
  std::vector<std::string> names;
  for (const ir::State& state : impl_->graph().states) names.push_back(state.name);
  return names;
}

namespace {

Result<size_t> FindState(const ir::Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.states.size(); ++i)
    if (graph.states[i].name == name) return i;
  std::string known;
  for (const ir::State& state : graph.states) known += (known.empty() ? "" : ", ") + state.name;
  return NotFound("there is no state `{}`; the model has: {}", name,
                  known.empty() ? "none" : known);
}

}  // namespace

Result<TensorRef> Session::state(std::string_view name) const {
  LS_ASSIGN_OR_RETURN(size_t i, FindState(impl_->graph(), name));
  const ir::State& state = impl_->graph().states[i];
  return TensorRef{state.dtype, nullptr, state.dims};
}

Status Session::ReadState(std::string_view name, std::span<std::byte> destination) const {
  LS_ASSIGN_OR_RETURN(size_t i, FindState(impl_->graph(), name));
  if (destination.size() != impl_->memory.state_bytes(i))
    return InvalidArgument("state `{}` has {} bytes, {} given", name, impl_->memory.state_bytes(i),
                           destination.size());
  LS_RETURN_IF_ERROR(impl_->backend->FetchState(i, impl_->memory.state(i)));
  std::memcpy(destination.data(), impl_->memory.state(i), destination.size());
  return {};
}

Status Session::WriteState(std::string_view name, std::span<const std::byte> source) {
  LS_ASSIGN_OR_RETURN(size_t i, FindState(impl_->graph(), name));
  if (source.size() != impl_->memory.state_bytes(i))
    return InvalidArgument("state `{}` has {} bytes, {} given", name, impl_->memory.state_bytes(i),
                           source.size());
  std::memcpy(impl_->memory.state(i), source.data(), source.size());
  return impl_->backend->StoreState(i, impl_->memory.state(i));
}

Status Session::ResetStates() {
  impl_->memory.ResetStates(impl_->graph());
  LS_RETURN_IF_ERROR(impl_->InitialStates());
  impl_->needs_reset = false;
  return {};
}

Result<std::vector<std::byte>> Session::Snapshot() const {
  if (impl_->needs_reset)
    return FailedPrecondition("snapshot: states are half-changed; reset or restore first");
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < impl_->memory.state_count(); ++i) {
    LS_RETURN_IF_ERROR(impl_->backend->FetchState(i, impl_->memory.state(i)));
    bytes.insert(bytes.end(), impl_->memory.state(i),
                 impl_->memory.state(i) + impl_->memory.state_bytes(i));
  }
  return bytes;
}

Status Session::Restore(std::span<const std::byte> snapshot) {
  size_t total = 0;
  for (size_t i = 0; i < impl_->memory.state_count(); ++i) total += impl_->memory.state_bytes(i);
  if (snapshot.size() != total)
    return InvalidArgument("restore: the snapshot has {} bytes, the states {}", snapshot.size(),
                           total);
  size_t at = 0;
  for (size_t i = 0; i < impl_->memory.state_count(); ++i) {
    std::memcpy(impl_->memory.state(i), snapshot.data() + at, impl_->memory.state_bytes(i));
    at += impl_->memory.state_bytes(i);
    LS_RETURN_IF_ERROR(impl_->backend->StoreState(i, impl_->memory.state(i)));
  }
  impl_->needs_reset = false;
  return {};
}

namespace {

// The largest sum of slots that are live together, at the live shape: each takes whole multiples of the alignment.
size_t PeakLiveBytes(const plan::Plan& plan, std::span<const int64_t> block, int64_t alignment) {
  std::vector<int64_t> change(plan.steps.size() + 2, 0);
  for (const plan::Storage& s : plan.storages) {
    if (s.place != plan::Place::kArena) continue;
    const int64_t bytes =
        (std::max<int64_t>(0, block[s.bytes_at]) + alignment - 1) / alignment * alignment;
    change[s.first_step] += bytes;
    change[s.last_step + 1] -= bytes;
  }
  int64_t live = 0, most = 0;
  for (int64_t delta : change) most = std::max(most, live += delta);
  return static_cast<size_t>(most);
}

}  // namespace

Stats Session::stats() const {
  Stats stats = impl_->stats;
  stats.arena_reserved = impl_->memory.arena().size();
  stats.arena_resident = impl_->memory.arena().Resident();
  const auto alignment = static_cast<int64_t>(impl_->backend->rules().alignment);
  stats.arena_live =
      impl_->binding.bound() ? PeakLiveBytes(impl_->plan, impl_->binding.block(), alignment) : 0;
  impl_->backend->AddStats(stats);
  return stats;
}

void Session::Trim() {
  if (impl_->binding.bound()) impl_->memory.Trim(impl_->plan, impl_->binding.block());
}

std::vector<ProfileEntry> Session::profile() const {
  std::vector<ProfileEntry> entries;
  for (size_t i = 0; i < impl_->plan.steps.size(); ++i) {
    const plan::Step& step = impl_->plan.steps[i];
    ProfileEntry entry;
    entry.op = "copy", entry.us = impl_->times.us[i], entry.calls = impl_->times.calls[i];
    if (step.node != ir::Graph::kNoNode) {
      const ir::Node& node = impl_->graph().nodes[step.node];
      entry.op = node.op->name, entry.node = node.name, entry.source = node.source;
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

void Session::ResetProfile() {
  std::fill(impl_->times.us.begin(), impl_->times.us.end(), 0);
  std::fill(impl_->times.calls.begin(), impl_->times.calls.end(), 0);
}

Session::PlanReport Session::plan_report() const {
  const plan::Plan& plan = impl_->plan;
  PlanReport report{.bytes = plan.arena_bytes,
                    .lower_bound = plan.lower_bound,
                    .steps = plan.steps.size(),
                    .copies = plan.copies,
                    .shape_instructions = plan.program.instruction_count()};
  for (const plan::Storage& s : plan.storages) report.slots += s.place == plan::Place::kArena;
  return report;
}

}  // namespace liveshape
