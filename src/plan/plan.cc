#include "plan/plan.h"

#include <algorithm>
#include <map>

#include "plan/offsets.h"

namespace liveshape::plan {
namespace {

// Where a value lies, before slots have offsets and numbers.
struct Located {
  StorageId storage = kNoStorage;
  ir::Layout layout;
};

class Planner {
 public:
  Planner(const ir::Graph& graph, const Rules& rules)
      : graph_(graph),
        rules_(rules),
        table_(graph.table()),
        builder_(graph.table()),
        located_(graph.values.size()) {}

  Result<Plan> Run();

 private:
  void LocateExternals();
  void CountReads();
  Status PlanNode(uint32_t index);
  bool PlanView(uint32_t index);
  bool CanWriteInPlace(uint32_t index, size_t input) const;
  Status PlanOutputs();
  Status CommitStates();
  Status SizeSlots();
  Status AddChecks();

  StorageId NewSlot(DType dtype, Expr bytes, bool scratch = false);
  Located Fresh(ValueId value);
  bool Satisfies(ValueId value, Need need) const;
  bool WholeStorage(ValueId value) const;
  ValueId Dense(ValueId value);  // a planner's copy of a value, made at most once
  Operand MakeOperand(ValueId value, const Located& at);
  Operand Read(ValueId value) { return MakeOperand(value, located_[value]); }
  void Touch(StorageId storage);
  void Advance(Expr e) { stage_ = std::max(stage_, table_.StageOf(e)); }
  Status PlanBirth(uint32_t index);
  void KeepForBirths();
  void Push(Step step);

  const ir::Graph& graph_;
  const Rules& rules_;
  sym::Table& table_;
  sym::ProgramBuilder builder_;
  Plan plan_;
  std::vector<Located> located_;
  std::map<ValueId, Located> dense_copies_;
  std::vector<uint32_t> last_read_;  // node index of the last reader of each value, views followed
  std::vector<bool> state_chain_;    // values that lead in place to a state's result
  sym::Stage stage_ = 0;    // of the step in the making: nodes come in the order of their stages
  size_t births_done_ = 0;  // those whose stage has begun
};

StorageId Planner::NewSlot(DType dtype, Expr bytes, bool scratch) {
  Storage s{.place = Place::kArena, .dtype = dtype, .scratch = scratch, .bytes = bytes};
  s.first_step = s.last_step = static_cast<uint32_t>(plan_.steps.size());
  plan_.storages.push_back(s);
  return static_cast<StorageId>(plan_.storages.size() - 1);
}

Located Planner::Fresh(ValueId value) {
  const ir::TensorType& type = graph_.type(value);
  const Expr bytes = sym::Product(table_, type.dims) * static_cast<int64_t>(SizeOf(type.dtype));
  return {NewSlot(type.dtype, bytes), ir::ContiguousLayout(table_, type.dims)};
}

void Planner::LocateExternals() {
  auto place = [&](Place where, size_t index, ValueId value, DType dtype) {
    plan_.storages.push_back(
        {.place = where, .index = static_cast<uint32_t>(index), .dtype = dtype});
    const StorageId id = static_cast<StorageId>(plan_.storages.size() - 1);
    located_[value] = {id, ir::ContiguousLayout(table_, graph_.type(value).dims)};
    return id;
  };
  for (size_t i = 0; i < graph_.inputs.size(); ++i)
    plan_.input_storage.push_back(graph_.inputs[i].value == ir::kNoValue
                                      ? kNoStorage
                                      : place(Place::kInput, i, graph_.inputs[i].value,
                                              graph_.type(graph_.inputs[i].value).dtype));
  for (size_t i = 0; i < graph_.constants.size(); ++i)
    plan_.constant_storage.push_back(
        place(Place::kConstant, i, graph_.constants[i].value, graph_.constants[i].dtype));
  for (size_t i = 0; i < graph_.states.size(); ++i)
    plan_.state_storage.push_back(
        place(Place::kState, i, graph_.states[i].value, graph_.states[i].dtype));
}

// A value is read as late as any view of it is. The result of a state and the outputs are read last.
void Planner::CountReads() {
  last_read_.assign(graph_.values.size(), 0);
  const uint32_t end = static_cast<uint32_t>(graph_.nodes.size());
  for (const ir::Output& output : graph_.outputs)
    if (output.value != ir::kNoValue) last_read_[output.value] = end;
  for (const ir::State& state : graph_.states)
    if (state.result != ir::kNoValue && state.result != state.value) last_read_[state.result] = end;
  for (uint32_t n = end; n-- > 0;) {
    const ir::Node& node = graph_.nodes[n];
    uint32_t until = n;
    if (node.op->view)
      for (ValueId out : node.outputs) until = std::max(until, last_read_[out]);
    for (ValueId in : node.inputs)
      if (in != ir::kNoValue) last_read_[in] = std::max(last_read_[in], until);
  }
  state_chain_.assign(graph_.values.size(), false);
  const std::vector<uint32_t> producers = graph_.Producers();
  for (const ir::State& state : graph_.states)
    for (ValueId v = state.result; v != ir::kNoValue && v != state.value;) {
      if (producers[v] == ir::Graph::kNoNode) break;
      const ir::Node& node = graph_.nodes[producers[v]];
      if (node.op->in_place_input < 0) break;
      state_chain_[v] = true;
      v = node.inputs[static_cast<size_t>(node.op->in_place_input)];
    }
}

bool Planner::WholeStorage(ValueId value) const {
  const Located& at = located_[value];
  return at.layout.offset.is_int(0) && ir::IsContiguous(at.layout, graph_.type(value).dims);
}

// Safe when nobody reads the old value later, and when what is overwritten is ours to overwrite: a slot,
// or the state whose next value this is.
bool Planner::CanWriteInPlace(uint32_t index, size_t input) const {
  const ir::Node& node = graph_.nodes[index];
  const ValueId base = node.inputs[input];
  const StorageId storage = located_[base].storage;
  const Place where = plan_.storages[storage].place;
  if (where == Place::kInput || where == Place::kConstant || !WholeStorage(base)) return false;
  if (where == Place::kState) {
    if (!state_chain_[node.outputs[0]]) return false;
    const ir::State& state = graph_.states[plan_.storages[storage].index];
    if (graph_.type(node.outputs[0]).dims != graph_.type(state.value).dims) return false;
  }
  for (ValueId v = 0; v < located_.size(); ++v)
    if (located_[v].storage == storage && last_read_[v] > index) return false;
  for (size_t i = 0; i < node.inputs.size(); ++i)  // an operand that overlaps what is being written
    if (i != input && node.inputs[i] != ir::kNoValue && located_[node.inputs[i]].storage == storage)
      return false;
  return true;
}

bool Planner::PlanView(uint32_t index) {
  const ir::Node& node = graph_.nodes[index];
  const ValueId in = node.inputs[0], out = node.outputs[0];
  const StorageId storage = located_[in].storage;
  if (plan_.storages[storage].place == Place::kConstant &&
      graph_.constants[plan_.storages[storage].index].packed())
    return false;
  const ir::TensorType* type = &graph_.type(in);
  auto layout = node.op->view({table_, node, {&type, 1}}, graph_.type(out), located_[in].layout);
  if (!layout) return false;
  located_[out] = {storage, std::move(*layout)};
  return true;
}

bool Planner::Satisfies(ValueId value, Need need) const {
  const Located& at = located_[value];
  const StorageId storage = at.storage;
  if (plan_.storages[storage].place == Place::kConstant &&
      graph_.constants[plan_.storages[storage].index].packed())
    return true;  // the kernel was chosen for the layout
  const Dims& dims = graph_.type(value).dims;
  if (need == Need::kStrided || dims.empty()) return true;
  if (need == Need::kInnerDense) return at.layout.strides.back().is_int(1) || dims.back().is_int(1);
  return ir::IsContiguous(at.layout, dims);
}

void Planner::Touch(StorageId storage) {
  if (storage != kNoStorage)
    plan_.storages[storage].last_step =
        std::max(plan_.storages[storage].last_step, static_cast<uint32_t>(plan_.steps.size()));
}

Operand Planner::MakeOperand(ValueId value, const Located& at) {
  Touch(at.storage);
  const ir::TensorType& type = graph_.type(value);
  Operand operand{.storage = at.storage,
                  .dtype = type.dtype,
                  .rank = static_cast<uint8_t>(type.dims.size()),
                  .value = value};
  for (const Dims* list : {&type.dims, &at.layout.strides})
    for (Expr e : *list) Advance(e);
  Advance(at.layout.offset);
  operand.dims_at = builder_.Tuple(type.dims);
  operand.strides_at = builder_.Tuple(at.layout.strides);
  operand.offset_at = builder_.Slot(at.layout.offset);
  return operand;
}

// What a size is born from must last until the stage of that size begins.
void Planner::KeepForBirths() {
  for (; births_done_ < plan_.births.size(); ++births_done_) {
    const Birth& birth = plan_.births[births_done_];
    if (table_.symbols()[birth.symbol].stage > stage_) break;
    Touch(birth.from.storage);
  }
}

void Planner::Push(Step step) {
  step.stage = stage_;
  KeepForBirths();
  for (const Operand& out : step.outputs)
    step.writes_state = step.writes_state || plan_.storages[out.storage].place == Place::kState;
  plan_.steps.push_back(std::move(step));
}

Status Planner::PlanBirth(uint32_t index) {
  const ir::Node& node = graph_.nodes[index];
  const auto symbol = static_cast<uint32_t>(node.Int("symbol"));
  const sym::Stage born = table_.symbols()[symbol].stage;
  Birth birth{.symbol = symbol, .node = index, .from = Read(node.inputs[0])};
  const bool in_order =
      plan_.births.empty() || table_.symbols()[plan_.births.back().symbol].stage <= born;
  if (stage_ >= born || !in_order)
    return InvalidArgument("`{}` is of stage {}, its value is known only after stage {}",
                           table_.symbols()[symbol].name, born, stage_);
  plan_.births.push_back(birth);
  return {};
}

ValueId Planner::Dense(ValueId value) {
  if (!dense_copies_.contains(value)) {
    Step copy;
    Located to = Fresh(value);
    copy.inputs = {Read(value)};
    copy.outputs = {MakeOperand(value, to)};
    Push(std::move(copy));
    ++plan_.copies;
    dense_copies_[value] = to;
  }
  return value;
}

Status Planner::PlanNode(uint32_t index) {
  const ir::Node& node = graph_.nodes[index];
  if (node.op->gives_symbol) return PlanBirth(index);
  if (node.op->view && PlanView(index)) return {};
  Step step;
  step.node = index;
  std::vector<Located> sources;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    sources.push_back(v == ir::kNoValue ? Located{} : located_[v]);
    if (v == ir::kNoValue) continue;
    // A view that strides cannot say runs as a copy of its (strided) input.
    const Need need = rules_.need && !node.op->view ? rules_.need(node, i) : Need::kStrided;
    if (!Satisfies(v, need)) sources.back() = dense_copies_[Dense(v)];
  }
  const int in_place = node.op->in_place_input;
  step.in_place = in_place >= 0 && CanWriteInPlace(index, static_cast<size_t>(in_place));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId out = node.outputs[i];
    located_[out] = i == 0 && step.in_place
                        ? Located{located_[node.inputs[static_cast<size_t>(in_place)]].storage,
                                  ir::ContiguousLayout(table_, graph_.type(out).dims)}
                        : Fresh(out);
  }
  for (size_t i = 0; i < node.inputs.size(); ++i)
    step.inputs.push_back(node.inputs[i] == ir::kNoValue ? Operand{}
                                                         : MakeOperand(node.inputs[i], sources[i]));
  for (ValueId out : node.outputs) step.outputs.push_back(Read(out));

  std::vector<Expr> params;
  for (const auto& [name, attr] : node.attrs) {
    if (auto* exprs = std::get_if<std::vector<Expr>>(&attr)) {
      // A pointwise node's dims are its output's; its program's scalars are its parameters.
      if (name != "dims" || !node.Has("program"))
        params.insert(params.end(), exprs->begin(), exprs->end());
    } else if (auto* program = std::get_if<ir::PointwiseProgram>(&attr)) {
      params.insert(params.end(), program->scalars.begin(), program->scalars.end());
    }
  }
  for (Expr e : params) Advance(e);
  step.param_count = static_cast<uint32_t>(params.size());
  if (!params.empty()) step.params_at = builder_.Tuple(params);
  if (rules_.scratch)
    if (Expr bytes = rules_.scratch(graph_, node); bytes && !bytes.is_int(0)) {
      Advance(bytes);
      step.scratch = NewSlot(DType::kU8, bytes, /*scratch=*/true);
    }
  Push(std::move(step));
  return {};
}

// Outputs are dense and belong to the session: a view, an input, a constant or a state is copied.
Status Planner::PlanOutputs() {
  std::vector<StorageId> taken;
  for (const ir::Output& output : graph_.outputs) {
    PlannedOutput planned;
    if (output.value == ir::kNoValue) {
      planned.scalar_at = builder_.Slot(output.scalar);
      plan_.outputs.push_back(planned);
      continue;
    }
    Located at = located_[output.value];
    const bool ours =
        plan_.storages[at.storage].place == Place::kArena && WholeStorage(output.value);
    if (!ours) {
      at = dense_copies_[Dense(output.value)];
    }
    planned.operand = MakeOperand(output.value, at);
    planned.redirectable = std::find(taken.begin(), taken.end(), at.storage) == taken.end();
    taken.push_back(at.storage);
    plan_.outputs.push_back(planned);
  }
  return {};
}

Status Planner::CommitStates() {
  // First into the arena whatever lies in another state, then all commits: no commit can spoil another.
  for (const ir::State& state : graph_.states) {
    if (state.result == ir::kNoValue || state.result == state.value) continue;
    const Storage& storage = plan_.storages[located_[state.result].storage];
    if (storage.place == Place::kState &&
        located_[state.result].storage != located_[state.value].storage)
      Dense(state.result);
  }
  for (const ir::State& state : graph_.states) {
    if (state.result == ir::kNoValue || state.result == state.value) continue;
    const Located& target = located_[state.value];
    if (located_[state.result].storage == target.storage && WholeStorage(state.result))
      continue;  // in place
    if (graph_.type(state.result).dims != graph_.type(state.value).dims)
      return InvalidArgument("state `{}` would change its shape to {}", state.name,
                             ir::ToString(graph_.type(state.result)));
    auto copied = dense_copies_.find(state.result);
    Step commit;
    commit.commits_state = true;
    commit.inputs = {MakeOperand(
        state.result, copied != dense_copies_.end() ? copied->second : located_[state.result])};
    commit.outputs = {MakeOperand(state.value, target)};
    Push(std::move(commit));
  }
  return {};
}

std::string Unbounded(const sym::Table& table, Expr e) {
  for (uint32_t s : table.FreeSymbols(e)) {
    const sym::SymbolInfo& info = table.symbols()[s];
    if (info.hi != sym::Interval::kPosInf) continue;
    const std::string& name = info.display.empty() ? info.name : info.display;
    return fmt::format("symbol `{}` has no maximum; set one with `compile --bound {}=N`", name,
                       name);
  }
  return "no maximum could be derived";
}

Status Planner::SizeSlots() {
  constexpr int64_t kMost = int64_t{1} << 46;  // 64 TiB: beyond any address space we may reserve
  for (Storage& s : plan_.storages) {
    if (s.place != Place::kArena) continue;
    s.bytes_at = builder_.Slot(s.bytes);
    int64_t most = table_.Bounds(s.bytes).hi;
    if (most > kMost) {
      const std::string reason = Unbounded(table_, s.bytes);
      return most == sym::Interval::kPosInf
                 ? InvalidArgument("a tensor of {} bytes has no finite bound: {}",
                                   sym::ToString(s.bytes), reason)
                 : ResourceExhausted(
                       "a tensor of {} bytes would need {} at the bound; lower it with "
                       "`compile --bound`",
                       sym::ToString(s.bytes), most);
    }
    most = std::max<int64_t>(most, 0);
    s.capacity =
        (static_cast<size_t>(most) + rules_.alignment - 1) / rules_.alignment * rules_.alignment;
    // Host values and sizes born from data can exceed what was planned: an explicit guard (W6).
    if (table_.StageOf(s.bytes) > 0)
      builder_.Check(sym::Le(s.bytes, table_.Int(most)),
                     fmt::format("a tensor of {} bytes exceeds its capacity {}",
                                 sym::ToString(s.bytes), most));
  }
  return {};
}

Status Planner::AddChecks() {
  LS_ASSIGN_OR_RETURN(const std::vector<ir::Guard> requirements, ir::Requirements(graph_));
  for (const ir::Guard& guard : requirements) {
    std::string text = guard.text;
    for (const char* separator = " at "; uint32_t s : table_.FreeSymbols(guard.condition)) {
      const std::string name = sym::ToString(table_.SymbolAt(s));
      text += fmt::format("{}{}={{{}}}", std::exchange(separator, ", "), name, name);
    }
    builder_.Check(guard.condition, std::move(text));
  }
  for (const ir::HostValue& host : graph_.host_values)
    plan_.host_value_element_at.push_back(builder_.Slot(host.element));
  return {};
}

Result<Plan> Planner::Run() {
  LocateExternals();
  CountReads();
  for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
    if (Status s = PlanNode(n); !s.ok())
      return std::move(s).Prefixed(
          fmt::format("plan: node `{}` ({})", graph_.nodes[n].name, graph_.nodes[n].op->name));
  LS_RETURN_IF_ERROR(PlanOutputs());
  LS_RETURN_IF_ERROR(CommitStates());
  for (const Birth& birth : plan_.births)  // those that only outputs and guards ask for
    if (table_.symbols()[birth.symbol].stage > stage_) Touch(birth.from.storage);
  // Outputs are read after the run.
  for (const PlannedOutput& output : plan_.outputs)
    if (output.operand.storage != kNoStorage)
      plan_.storages[output.operand.storage].last_step = static_cast<uint32_t>(plan_.steps.size());
  for (Storage& s : plan_.storages)
    s.last_step = std::min(s.last_step + rules_.linger, static_cast<uint32_t>(plan_.steps.size()));
  LS_RETURN_IF_ERROR(SizeSlots());
  LS_RETURN_IF_ERROR(AddChecks());
  plan_.arena_bytes = AssignOffsets(plan_.storages);
  plan_.lower_bound = LowerBound(plan_.storages);
  plan_.program = builder_.Finish();
  return std::move(plan_);
}

}  // namespace

Result<Plan> MakePlan(const ir::Graph& graph, const Rules& rules) {
  return Planner(graph, rules).Run();
}

}  // namespace liveshape::plan
