#include "runtime/binding.h"

#include <algorithm>
#include <cstring>

namespace liveshape {
namespace {

std::string ShapeText(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return text + "]";
}

int64_t ReadInteger(const std::byte* data, DType dtype, int64_t element) {
  const auto read = [&](auto zero) {
    decltype(zero) value;
    std::memcpy(&value, data + static_cast<size_t>(element) * sizeof(value), sizeof(value));
    return static_cast<int64_t>(value);
  };
  switch (dtype) {
    case DType::kI32: return read(int32_t{0});
    case DType::kI16: return read(int16_t{0});
    case DType::kI8: return read(int8_t{0});
    case DType::kU8:
    case DType::kBool: return read(uint8_t{0});
    default: return read(int64_t{0});
  }
}

}  // namespace

Status Binding::Prepare(const ir::Graph& graph, const plan::Plan& plan) {
  graph_ = &graph;
  plan_ = &plan;
  solver_ = std::make_unique<sym::SymbolSolver>(graph.table());
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ir::Input& input = graph.inputs[i];
    if (input.scalar) {
      solver_->AddEquation(input.scalar, fmt::format("input {} `{}`", i, input.name));
    } else if (input.value != ir::kNoValue) {
      const ir::Dims& dims = graph.type(input.value).dims;
      for (size_t d = 0; d < dims.size(); ++d)
        solver_->AddEquation(dims[d], fmt::format("input {} `{}` dim {}", i, input.name, d));
    }
  }
  LS_RETURN_IF_ERROR(solver_->Prepare());
  const size_t symbols = graph.table().symbols().size();
  symbols_.assign(symbols, 0);
  candidate_.assign(symbols, 0);
  observed_.assign(solver_->equation_count(), 0);
  for (auto& block : blocks_) block.assign(plan.program.block_size(), 0);
  return {};
}

Status Binding::CheckInputs(std::span<const TensorRef> inputs, std::span<int64_t> observed) const {
  if (inputs.size() != graph_->inputs.size())
    return InvalidArgument("bind: {} inputs given, the model has {}", inputs.size(),
                           graph_->inputs.size());
  size_t next = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Input& expected = graph_->inputs[i];
    const TensorRef& given = inputs[i];
    if (expected.value == ir::kNoValue) {
      if (!expected.scalar) continue;  // a constant argument that the graph does not depend on
      if (!IsInteger(given.dtype) || !given.dims.empty() || given.data == nullptr)
        return InvalidArgument("bind: input {} `{}` is an integer: give a 0-d i64 or i32", i,
                               expected.name);
      observed[next++] = ReadInteger(static_cast<const std::byte*>(given.data), given.dtype, 0);
      continue;
    }
    const ir::TensorType& type = graph_->type(expected.value);
    if (given.dtype != type.dtype)
      return InvalidArgument("bind: input {} `{}` is {}, the model takes {}", i, expected.name,
                             Name(given.dtype), Name(type.dtype));
    if (given.dims.size() != type.dims.size())
      return InvalidArgument("bind: input {} `{}` has shape {} of rank {}, the model takes {}", i,
                             expected.name, ShapeText(given.dims), given.dims.size(),
                             ir::ToString(type));
    for (int64_t d : given.dims) {
      if (d < 0)
        return InvalidArgument("bind: input {} `{}` has a negative dim in {}", i, expected.name,
                               ShapeText(given.dims));
      observed[next++] = d;
    }
  }
  return {};
}

// Evaluates stage 0 into the block that is not current, and makes it current if all checks hold.
Status Binding::Evaluate(std::span<const int64_t> symbols, bool* changed) {
  const auto& infos = graph_->table().symbols();
  bool same = bound_;
  for (size_t i = 0; i < infos.size() && same; ++i)
    same = infos[i].stage > 0 || symbols[i] == symbols_[i];
  *changed = !same;
  if (same) return {};
  std::vector<int64_t>& next = blocks_[1 - current_];
  plan_->program.SetSymbols(symbols, next);
  if (Status s = plan_->program.Run(0, next); !s.ok()) return std::move(s).Prefixed("bind");
  // Sections of later stages are evaluated before each run, when their values are known.
  std::copy(symbols.begin(), symbols.end(), symbols_.begin());
  current_ = 1 - current_;
  bound_ = true;
  return {};
}

Status Binding::BindShapes(std::span<const TensorRef> inputs, bool* changed) {
  *changed = false;
  LS_RETURN_IF_ERROR(CheckInputs(inputs, observed_));
  std::copy(symbols_.begin(), symbols_.end(), candidate_.begin());
  if (Status s = solver_->Solve(observed_, candidate_); !s.ok())
    return std::move(s).Prefixed("bind");
  return Evaluate(candidate_, changed);
}

Status Binding::BindSymbols(std::span<const int64_t> values, bool* changed) {
  *changed = false;
  const auto& infos = graph_->table().symbols();
  if (values.size() != infos.size())
    return InvalidArgument("bind: {} symbol values given, the model has {} symbols", values.size(),
                           infos.size());
  for (size_t i = 0; i < infos.size(); ++i)
    candidate_[i] = infos[i].stage == 0 ? values[i] : symbols_[i];
  return Evaluate(candidate_, changed);
}

Status Binding::BindHostValues(std::span<const TensorRef> inputs, const SessionMemory& memory,
                               bool* changed) {
  *changed = false;
  if (plan_->program.stage_count() < 2) return {};
  const std::span<const int64_t> now = blocks_[current_];
  std::copy(symbols_.begin(), symbols_.end(), candidate_.begin());
  for (size_t i = 0; i < graph_->host_values.size(); ++i) {
    const ir::HostValue& host = graph_->host_values[i];
    const int64_t element = now[plan_->host_value_element_at[i]];
    const bool input = host.source == ir::Origin::kInput;
    const auto* data =
        input ? static_cast<const std::byte*>(inputs[host.index].data) : memory.state(host.index);
    const DType dtype = input ? inputs[host.index].dtype : graph_->states[host.index].dtype;
    const size_t bytes = input ? inputs[host.index].bytes() : memory.state_bytes(host.index);
    const sym::SymbolInfo& info = graph_->table().symbols()[host.symbol];
    if (element < 0 || (static_cast<size_t>(element) + 1) * SizeOf(dtype) > bytes)
      return OutOfRange("run: host value `{}` is element {} of a tensor of {} bytes", info.name,
                        element, bytes);
    const int64_t value = ReadInteger(data, dtype, element);
    if (value < info.lo || value > info.hi)
      return OutOfRange("run: `{}` ({} `{}`) is {}, outside its range [{}, {}]", info.name,
                        input ? "input" : "state",
                        input ? graph_->inputs[host.index].name : graph_->states[host.index].name,
                        value, info.lo, info.hi);
    candidate_[host.symbol] = value;
  }
  // The block of the live shape is copied, so that a refused host value leaves it whole.
  std::vector<int64_t>& next = blocks_[1 - current_];
  std::copy(now.begin(), now.end(), next.begin());
  std::copy(candidate_.begin(), candidate_.end(),
            next.begin());  // the block begins with the symbols
  if (Status s = plan_->program.Run(1, next); !s.ok()) return std::move(s).Prefixed("run");
  *changed = true;
  std::copy(candidate_.begin(), candidate_.end(), symbols_.begin());
  current_ = 1 - current_;
  return {};
}

Status Binding::BindBorn(sym::Stage stage, const SessionMemory& memory) {
  std::vector<int64_t>& block = blocks_[current_];
  for (const plan::Birth& birth : plan_->births) {
    const sym::SymbolInfo& info = graph_->table().symbols()[birth.symbol];
    if (info.stage != stage) continue;
    const int64_t value = ReadInteger(memory.bases()[birth.from.storage], birth.from.dtype,
                                      block[birth.from.offset_at]);
    if (value < info.lo || value > info.hi)
      return OutOfRange(
          "run: {} makes `{}` = {}, outside [{}, {}], for which the model was compiled (`compile "
          "--bound {}=N` sets its maximum)",
          ir::Describe(graph_->nodes[birth.node]), info.name, value, info.lo, info.hi, info.name);
    block[birth.symbol] = symbols_[birth.symbol] = value;  // the block begins with the symbols
  }
  return plan_->program.Run(stage, block).Prefixed("run");
}

}  // namespace liveshape
