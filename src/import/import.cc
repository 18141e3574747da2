#include "import/import.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "import/functional.h"
#include "import/importer.h"
#include "import/symbols.h"
#include "ops/ops.h"

namespace liveshape {
namespace import {

Result<DType> ToDType(pt2::ScalarType t) {
  switch (t) {
    case pt2::ScalarType::kF32: return DType::kF32;
    case pt2::ScalarType::kF16: return DType::kF16;
    case pt2::ScalarType::kBF16: return DType::kBF16;
    case pt2::ScalarType::kF64: return DType::kF64;
    case pt2::ScalarType::kI64: return DType::kI64;
    case pt2::ScalarType::kI32: return DType::kI32;
    case pt2::ScalarType::kI16: return DType::kI16;
    case pt2::ScalarType::kI8: return DType::kI8;
    case pt2::ScalarType::kU8: return DType::kU8;
    case pt2::ScalarType::kBool: return DType::kBool;
    default: return Unsupported("dtype {}", pt2::Name(t));
  }
}

namespace {

bool IsInPlace(std::string_view target) {
  // "aten.add_.Tensor": the op's name ends in one underscore.
  const size_t dot = target.rfind('.');
  return target.starts_with("aten.") && dot != target.npos && dot > 5 && target[dot - 1] == '_' &&
         target[dot - 2] != '_';
}

}  // namespace

// Names whose storage the graph writes to: found before values exist, because a written weight is a
// state and any other a constant.
void Importer::FindWritten(const pt2::Graph& graph, std::map<std::string, std::string> roots,
                           std::set<std::string>& written) {
  auto root = [&](std::string name) {
    for (auto it = roots.find(name); it != roots.end(); it = roots.find(name)) name = it->second;
    return name;
  };
  for (const pt2::Node& node : graph.nodes) {
    const std::string target = ShortTarget(node.target);
    if (const WrapperOp* wrapper = FindWrapper(target)) {
      const pt2::Graph* inner = node.inputs.size() > wrapper->graph_arg
                                    ? node.inputs[wrapper->graph_arg].arg.graph().get()
                                    : nullptr;
      std::map<std::string, std::string> inner_roots;
      for (size_t i = 0; inner && i < inner->inputs.size(); ++i) {
        const size_t at = wrapper->graph_arg + 1 + i;
        auto from = inner->inputs[i].tensor();
        if (at >= node.inputs.size() || !from) continue;
        auto to = node.inputs[at].arg.tensor();
        // A prefix that no name has keeps the two scopes apart; the operand's root is what counts.
        if (to) inner_roots[std::string(*from)] = "^" + root(std::string(*to));
      }
      std::set<std::string> inner_written;
      if (inner) FindWritten(*inner, inner_roots, inner_written);
      for (const std::string& name : inner_written)
        if (name.starts_with("^")) written.insert(name.substr(1));
      continue;
    }
    if (node.inputs.empty()) continue;
    auto self = node.inputs[0].arg.tensor();
    if (!self) continue;
    const bool in_place = IsInPlace(target);
    if (in_place) written.insert(root(std::string(*self)));
    if (!in_place && !MayAlias(target)) continue;
    for (const pt2::Arg& out : node.outputs)
      if (auto names = out.tensors())
        for (const std::string& name : *names) roots[name] = std::string(*self);
      else if (auto name = out.tensor())
        roots[std::string(*name)] = std::string(*self);
  }
}

// Dense row-major bytes of a weight: in place where it lies so, else a copy (a transposed tie).
Result<std::span<const std::byte>> Importer::DenseBytes(const pt2::Weight& w,
                                                        std::shared_ptr<const void>& owner) {
  auto storage = archive_.storage(w).bytes;
  owner = owner_;
  const size_t element = static_cast<size_t>(pt2::ElementBytes(w.dtype));
  size_t numel = 1;
  for (int64_t d : w.sizes) numel *= static_cast<size_t>(d);
  if (w.dropped) {
    if (!random_)
      return Unsupported(
          "`{}` was saved without weights: --random-weights SEED makes some up, to measure with",
          w.name);
    LS_ASSIGN_OR_RETURN(storage, random_->Storage(w, owner));
  }
  if (w.is_contiguous() || numel == 0) {
    return numel == 0
               ? std::span<const std::byte>()
               : storage.subspan(static_cast<size_t>(w.storage_offset) * element, numel * element);
  }
  auto copy = std::make_shared<std::vector<std::byte>>(numel * element);
  std::vector<int64_t> index(w.sizes.size(), 0);
  for (size_t i = 0; i < numel; ++i) {
    int64_t at = w.storage_offset;
    for (size_t d = 0; d < index.size(); ++d) at += index[d] * w.strides[d];
    std::memcpy(copy->data() + i * element, storage.data() + static_cast<size_t>(at) * element,
                element);
    for (size_t d = index.size(); d-- > 0;) {
      if (++index[d] < w.sizes[d]) break;
      index[d] = 0;
    }
  }
  owner = copy;
  return std::span<const std::byte>(*copy);
}

Status Importer::AddWeights(Env& env) {
  const pt2::Program& program = archive_.program();
  std::set<std::string> written;
  FindWritten(program.graph, {}, written);
  // A buffer mutation names the buffer, not the placeholder.
  std::set<std::string> mutated_targets;
  for (const pt2::OutputSpec& spec : program.output_specs)
    if (spec.kind == pt2::OutputKind::kBufferMutation ||
        spec.kind == pt2::OutputKind::kParameterMutation)
      mutated_targets.insert(spec.target);

  struct Use {
    const pt2::InputSpec* spec;
    const pt2::Weight* weight;
    std::string placeholder;
  };
  std::map<size_t, std::vector<Use>> by_storage;
  std::set<size_t> written_storages;
  for (const pt2::InputSpec& spec : program.input_specs) {
    const pt2::Weight* weight = archive_.FindWeight(spec);
    if (weight == nullptr) {
      if (spec.kind == pt2::InputKind::kParameter || spec.kind == pt2::InputKind::kBuffer ||
          spec.kind == pt2::InputKind::kTensorConstant)
        return DataLoss("`{}` is not among the archive's weights", spec.target);
      continue;
    }
    const std::string placeholder(spec.arg.tensor().value_or(""));
    by_storage[weight->storage].push_back({&spec, weight, placeholder});
    if (written.contains(placeholder) || mutated_targets.contains(spec.target))
      written_storages.insert(weight->storage);
  }
  for (const auto& [storage, uses] : by_storage) {
    const bool is_state = written_storages.contains(storage);
    std::map<std::vector<int64_t>, TensorId> made;  // by dtype, offset, sizes and strides
    for (const Use& use : uses) {
      const pt2::Weight& w = *use.weight;
      std::vector<int64_t> key = {static_cast<int64_t>(w.dtype), w.storage_offset};
      key.insert(key.end(), w.sizes.begin(), w.sizes.end());
      key.insert(key.end(), w.strides.begin(), w.strides.end());
      auto it = made.find(key);
      if (it == made.end()) {
        if (is_state && !made.empty())
          return Unsupported(
              "`{}` is written in place and shares its storage with a tensor of another shape",
              w.name);
        LS_ASSIGN_OR_RETURN(DType dtype, ToDType(w.dtype));
        std::shared_ptr<const void> owner;
        LS_ASSIGN_OR_RETURN(auto bytes, DenseBytes(w, owner));
        const Use* named = &use;  // a buffer's name says more than a lifted constant's
        for (const Use& other : uses)
          if (other.spec->kind == pt2::InputKind::kBuffer) named = &other;
        ir::ValueId value = is_state ? graph_->AddState({.name = named->spec->target,
                                                         .dtype = dtype,
                                                         .dims = w.sizes,
                                                         .initial = bytes,
                                                         .owner = owner})
                                     : graph_->AddConstant({.name = use.spec->target,
                                                            .dtype = dtype,
                                                            .dims = w.sizes,
                                                            .data = bytes,
                                                            .owner = owner});
        it = made.emplace(std::move(key), store_.AddBase(value)).first;
        if (is_state)
          state_bases_[store_.BaseOf(it->second)] =
              static_cast<uint32_t>(graph_->states.size() - 1);
      }
      env.tensors[use.placeholder] = it->second;
      weight_by_target_[use.spec->target] = it->second;
    }
  }
  return {};
}

Status Importer::AddUserInputs(Env& env) {
  const pt2::Program& program = archive_.program();
  for (const pt2::InputSpec& spec : program.input_specs) {
    if (spec.kind != pt2::InputKind::kUserInput && spec.kind != pt2::InputKind::kConstantInput)
      continue;
    const std::string name = spec.path.empty() ? std::string(spec.arg.value_name()) : spec.path;
    const auto integer = spec.arg.integer();
    const bool dropped = spec.kind == pt2::InputKind::kConstantInput && !integer;
    flat_inputs_.push_back(dropped ? kNoInput : static_cast<uint32_t>(graph_->inputs.size()));
    if (!dropped) input_by_path_[name] = flat_inputs_.back();
    if (spec.kind == pt2::InputKind::kConstantInput) {
      // The graph does not depend on it. An integer keeps its place in the call and must be repeated; a
      // flag, a string or None has no tensor to stand for it.
      if (integer) {
        graph_->AddScalarInput(name, table().Int(*integer));
        graph_->inputs.back().used = false;
      }
      specialised_.push_back(integer ? fmt::format("`{}` is fixed at {}", name, *integer)
                                     : fmt::format("`{}` is fixed ({})", name, spec.arg.kind()));
      continue;
    }
    if (auto tensor = spec.arg.tensor()) {
      const pt2::TensorMeta* meta = program.graph.FindTensor(*tensor);
      LS_ASSIGN_OR_RETURN(ir::TensorType type, TypeOf(*meta));
      env.tensors[std::string(*tensor)] = store_.AddBase(graph_->AddInput(name, std::move(type)));
      continue;
    }
    const std::string value(spec.arg.value_name());
    auto it = program.graph.sym_int_values.find(value);
    if (it == program.graph.sym_int_values.end())
      return Unsupported("input `{}` is {}: only tensors and integers are inputs", name,
                         spec.arg.kind());
    LS_ASSIGN_OR_RETURN(Expr scalar, ToExpr(it->second));
    graph_->AddScalarInput(name, scalar);
    env.scalars[value] = scalar;
  }
  return {};
}

Status Importer::AddOutputs(Env& env) {
  const pt2::Program& program = archive_.program();
  std::set<std::string> names;
  for (const pt2::OutputSpec& spec : program.output_specs) {
    if (spec.kind == pt2::OutputKind::kBufferMutation ||
        spec.kind == pt2::OutputKind::kParameterMutation) {
      auto it = weight_by_target_.find(spec.target);
      if (it == weight_by_target_.end())
        return DataLoss("mutation of unknown buffer `{}`", spec.target);
      LS_ASSIGN_OR_RETURN(ir::ValueId value, ReadTensor(env, spec.arg.value_name()));
      const auto state = state_bases_.find(store_.BaseOf(it->second));
      if (state == state_bases_.end())
        return Internal("`{}` is written but is not a state", spec.target);
      graph_->states[state->second].result = value;
      continue;
    }
    if (spec.kind == pt2::OutputKind::kUserInputMutation)
      return Unsupported(
          "the model writes to its input `{}` in place: return it as an output instead, or "
          "make it a buffer",
          spec.target);
    if (spec.kind != pt2::OutputKind::kUserOutput)
      return Unsupported("output of kind {}: only inference programs are served",
                         pt2::Name(spec.kind));
    std::string name = spec.path.empty() ? std::string(spec.arg.value_name()) : spec.path;
    if (name.empty()) name = fmt::format("out.{}", graph_->outputs.size());
    if (spec.arg.is_none()) continue;
    ir::Output output{.name = name};
    if (spec.arg.tensor()) {
      LS_ASSIGN_OR_RETURN(output.value, ReadTensor(env, *spec.arg.tensor()));
    } else {
      LS_ASSIGN_OR_RETURN(ops::AtenValue value, ToAten(env, spec.arg));
      if (auto* e = std::get_if<Expr>(&value))
        output.scalar = *e;
      else if (auto* b = std::get_if<bool>(&value))
        output.scalar = table().Int(*b);
      else
        return Unsupported("output `{}` is {}: only tensors and integers are outputs", name,
                           spec.arg.kind());
    }
    graph_->outputs.push_back(std::move(output));
  }
  for (const auto& [base, state] : state_bases_) {
    ir::State& s = graph_->states[state];
    if (s.result == ir::kNoValue || s.result == s.value) s.result = store_.Current(base);
  }
  return {};
}

Result<ImportResult> Importer::Run() {
  LS_RETURN_IF_ERROR(DeclareSymbols(archive_, options_, table()));
  LS_RETURN_IF_ERROR(CheckTargets(archive_.program().graph));
  Env env{archive_.program().graph, {}, {}};
  LS_RETURN_IF_ERROR(AddWeights(env));
  LS_RETURN_IF_ERROR(AddUserInputs(env));
  MarkBornSymbols();
  LS_RETURN_IF_ERROR(
      ImportGuards(archive_.program(), input_by_path_, flat_inputs_, *graph_, warnings_));
  LS_RETURN_IF_ERROR(ImportNodes(env));
  graph_->guards.insert(graph_->guards.end(), claims_.begin(), claims_.end());
  if (sampler_->unchecked())
    warnings_.push_back(
        "sizes were not checked against the export's: no shape drawn meets all that the program "
        "requires");
  LS_RETURN_IF_ERROR(AddOutputs(env));
  MarkUnusedInputs();
  ImportResult result;
  result.symbols = EntryPoints(*graph_);
  LS_RETURN_IF_ERROR(FindSpecialisedDims(archive_, *graph_, input_by_path_, specialised_));
  result.specialised = std::move(specialised_);
  result.graph = std::move(graph_);
  result.warnings = std::move(warnings_);
  return result;
}

// torch calls what is born in the graph u0, u1, ...: bind has nothing to find it by. Not every one gets a value: some
// are offsets (of `x[:, i]` at a 0-d i) or other names of a size (NameSizes), which nothing reads.
void Importer::MarkBornSymbols() {
  std::set<uint32_t> entering;
  for (const ir::Input& input : graph_->inputs) {
    ir::Dims sizes = input.value == ir::kNoValue ? ir::Dims() : graph_->type(input.value).dims;
    if (input.scalar) sizes.push_back(input.scalar);
    for (const sym::Expr size : sizes)
      for (const uint32_t symbol : table().FreeSymbols(size)) entering.insert(symbol);
  }
  for (uint32_t s = 0; s < table().symbols().size(); ++s) {
    const sym::SymbolInfo& info = table().symbols()[s];
    if (info.name[0] == 'u' && info.stage == 0 && !entering.contains(s)) table().SetStage(s, 2);
  }
}

void Importer::MarkUnusedInputs() {
  std::vector<bool> used(graph_->values.size(), false);
  for (const ir::Node& node : graph_->nodes)
    for (ir::ValueId v : node.inputs)
      if (v != ir::kNoValue) used[v] = true;
  for (const ir::Output& output : graph_->outputs)
    if (output.value != ir::kNoValue) used[output.value] = true;
  for (ir::Input& input : graph_->inputs)
    if (input.value != ir::kNoValue) input.used = used[input.value];
}

}  // namespace import

Result<ImportResult> ImportPt2(const pt2::Pt2Archive& archive, std::shared_ptr<const void> owner,
                               const ImportOptions& options) {
  return import::Importer(archive, std::move(owner), options).Run();
}

}  // namespace liveshape
