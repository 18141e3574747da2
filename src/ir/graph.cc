#include "ir/graph.h"

#include "ir/op.h"

namespace liveshape::ir {
namespace {

// An attribute that a shape rule has already found: its absence is a bug of ours.
template <typename T>
const T& Get(const Node& node, std::string_view attr, const char* what) {
  const Attr* found = node.Find(attr);
  const T* value = found ? std::get_if<T>(found) : nullptr;
  if (!value)
    Panic(__FILE__, __LINE__,
          fmt::format("node `{}` ({}) has no attribute `{}` of type {}", node.name,
                      node.op ? node.op->name : "?", attr, what));
  return *value;
}

Dims ToDims(sym::Table& table, std::span<const int64_t> dims) {
  Dims result;
  result.reserve(dims.size());
  for (int64_t d : dims) result.push_back(table.Int(d));
  return result;
}

}  // namespace

const Attr* Node::Find(std::string_view attr) const {
  for (const auto& [key, value] : attrs)
    if (key == attr) return &value;
  return nullptr;
}

int64_t Node::Int(std::string_view attr) const { return Get<int64_t>(*this, attr, "int"); }
double Node::Float(std::string_view attr) const { return Get<double>(*this, attr, "float"); }
const std::string& Node::String(std::string_view attr) const {
  return Get<std::string>(*this, attr, "string");
}
const std::vector<int64_t>& Node::Ints(std::string_view attr) const {
  return Get<std::vector<int64_t>>(*this, attr, "ints");
}
const std::vector<Expr>& Node::Exprs(std::string_view attr) const {
  return Get<std::vector<Expr>>(*this, attr, "expressions");
}
const PointwiseProgram& Node::Program() const {
  return Get<PointwiseProgram>(*this, "program", "pointwise program");
}

int64_t Node::IntOr(std::string_view attr, int64_t otherwise) const {
  const Attr* found = Find(attr);
  const int64_t* value = found ? std::get_if<int64_t>(found) : nullptr;
  return value ? *value : otherwise;
}

void Node::Set(std::string_view attr, Attr value) {
  for (auto& [key, existing] : attrs) {
    if (key != attr) continue;
    existing = std::move(value);
    return;
  }
  attrs.emplace_back(attr, std::move(value));
}

std::string Describe(const Node& node) {
  return fmt::format("node `{}` ({}{}{})", node.name, node.op ? node.op->name : "no op",
                     node.source.empty() ? "" : ", ", node.source);
}

ValueId Graph::AddInput(std::string name, TensorType type) {
  const auto id = static_cast<ValueId>(values.size());
  values.push_back({name, std::move(type), Origin::kInput, static_cast<uint32_t>(inputs.size())});
  inputs.push_back({.name = std::move(name), .value = id});
  return id;
}

void Graph::AddScalarInput(std::string name, Expr scalar) {
  inputs.push_back({.name = std::move(name), .scalar = scalar});
}

ValueId Graph::AddConstant(Constant constant) {
  const auto id = static_cast<ValueId>(values.size());
  values.push_back({constant.name,
                    {constant.dtype, ToDims(table(), constant.dims)},
                    Origin::kConstant,
                    static_cast<uint32_t>(constants.size())});
  constant.value = id;
  constants.push_back(std::move(constant));
  return id;
}

ValueId Graph::AddState(State state) {
  const auto id = static_cast<ValueId>(values.size());
  values.push_back({state.name,
                    {state.dtype, ToDims(table(), state.dims)},
                    Origin::kState,
                    static_cast<uint32_t>(states.size())});
  state.value = id;
  if (state.result == kNoValue) state.result = id;
  states.push_back(std::move(state));
  return id;
}

ValueId Graph::AddValue(std::string name, TensorType type) {
  values.push_back({std::move(name), std::move(type), Origin::kNode, 0});
  return static_cast<ValueId>(values.size() - 1);
}

Result<std::vector<ValueId>> Graph::AddNode(const OpDef& op, std::vector<ValueId> node_inputs,
                                            Attrs attrs, std::string node_name,
                                            std::string source) {
  if (node_name.empty()) node_name = fmt::format("{}_{}", op.name, nodes.size());
  Node node{.op = &op,
            .name = std::move(node_name),
            .source = std::move(source),
            .inputs = std::move(node_inputs),
            .outputs = {},
            .attrs = std::move(attrs)};
  std::vector<const TensorType*> types;
  types.reserve(node.inputs.size());
  for (ValueId id : node.inputs) {
    LS_CHECK(id == kNoValue || id < values.size());
    types.push_back(id == kNoValue ? nullptr : &values[id].type);
  }
  auto inferred = op.infer({table(), node, types});
  if (!inferred.ok()) return std::move(inferred).status().Prefixed(Describe(node));

  for (size_t i = 0; i < inferred->size(); ++i) {
    std::string value_name = inferred->size() == 1 ? node.name : fmt::format("{}.{}", node.name, i);
    node.outputs.push_back(AddValue(std::move(value_name), std::move((*inferred)[i])));
  }
  nodes.push_back(std::move(node));
  return nodes.back().outputs;
}

std::vector<uint32_t> Graph::Producers() const {
  std::vector<uint32_t> producers(values.size(), kNoNode);
  for (uint32_t i = 0; i < nodes.size(); ++i)
    for (ValueId id : nodes[i].outputs) producers[id] = i;
  return producers;
}

std::vector<std::vector<uint32_t>> Graph::Users() const {
  std::vector<std::vector<uint32_t>> users(values.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (ValueId id : nodes[i].inputs) {
      if (id == kNoValue) continue;
      std::vector<uint32_t>& list = users[id];
      if (list.empty() || list.back() != i) list.push_back(i);
    }
  }
  return users;
}

void Graph::ReplaceUses(std::span<const ValueId> map) {
  auto replace = [&](ValueId& id) {
    for (size_t steps = 0; id < map.size() && map[id] != kNoValue && map[id] != id; ++steps) {
      LS_CHECK(steps <= map.size());  // a chain that returns to itself has no end
      id = map[id];
    }
  };
  for (Node& node : nodes)
    for (ValueId& id : node.inputs) replace(id);
  for (Output& output : outputs) replace(output.value);
  for (State& state : states) replace(state.result);
}

void Graph::ForEachExpr(const Node& node, const std::function<void(Expr)>& visit) const {
  for (ValueId out : node.outputs)
    for (Expr e : type(out).dims) visit(e);
  for (const auto& [name, attr] : node.attrs) {
    if (const auto* exprs = std::get_if<std::vector<Expr>>(&attr))
      for (Expr e : *exprs) visit(e);
    if (const auto* program = std::get_if<PointwiseProgram>(&attr))
      for (Expr e : program->scalars) visit(e);
  }
}

}  // namespace liveshape::ir
