// Graphs and nodes.
#include <unordered_map>
#include <utility>

#include "import/pt2/read.h"

namespace liveshape::pt2 {
namespace {

Result<NamedArg> ReadNamedArg(const JsonAt& at) {
  NamedArg named;
  LS_ASSIGN_OR_RETURN(named.name, ReadMember(at, "name", ReadString));
  LS_ASSIGN_OR_RETURN(named.arg, ReadMember(at, "arg", ReadArg));
  LS_ASSIGN_OR_RETURN(auto kind, at.Find("kind"));
  if (kind) {
    LS_ASSIGN_OR_RETURN(int64_t code, kind->Int());
    if (code < 0 || code > 2)
      return kind->Error(Code::kUnsupported, "unknown kind of argument passing {}", code);
    named.is_keyword = code == 2;
  }
  return named;
}

Status ReadMetadata(const JsonAt& at, Node& node) {
  LS_ASSIGN_OR_RETURN(const JsonObject* metadata, at.Object());
  for (const auto& member : *metadata) {
    const auto* text = std::get_if<std::string_view>(&member.value.value);
    if (!text) continue;  // only for messages: never worth an error
    if (member.key == "stack_trace") node.source = ParseStackTrace(*text);
    if (member.key == "nn_module_stack") ParseModuleStack(*text, node);
  }
  return {};
}

Status ReadNodeBody(const JsonAt& at, Node& node) {
  LS_ASSIGN_OR_RETURN(auto metadata, at.Find("metadata"));
  if (metadata) LS_RETURN_IF_ERROR(ReadMetadata(*metadata, node));
  LS_ASSIGN_OR_RETURN(JsonAt inputs, at.Get("inputs"));
  LS_ASSIGN_OR_RETURN(node.inputs, ReadList(inputs, ReadNamedArg));
  LS_ASSIGN_OR_RETURN(JsonAt outputs, at.Get("outputs"));
  LS_ASSIGN_OR_RETURN(node.outputs, ReadList(outputs, ReadArg));
  LS_ASSIGN_OR_RETURN(auto single, at.Find("is_hop_single_tensor_return"));
  if (single) {
    LS_ASSIGN_OR_RETURN(node.is_hop_single_tensor_return, single->Bool());
  }
  if (node.name.empty() && !node.outputs.empty()) {
    node.name = node.outputs[0].value_name();
    if (const auto* list = node.outputs[0].As<TensorsArg>(); list && !list->names.empty())
      node.name = list->names[0];
  }
  return {};
}

Result<Node> ReadNode(const JsonAt& at) {
  Node node;
  LS_ASSIGN_OR_RETURN(node.target, ReadMember(at, "target", ReadString));
  LS_ASSIGN_OR_RETURN(auto name, at.Find("name"));
  if (name) {
    LS_ASSIGN_OR_RETURN(node.name, name->String());
  }
  if (Status status = ReadNodeBody(at, node); !status.ok())
    return std::move(status).Prefixed(node.Describe());
  return node;
}

template <typename Map, typename Read>
Status ReadTable(const JsonAt& at, std::string_view key, Read read, Map& map, bool required) {
  LS_ASSIGN_OR_RETURN(auto table, at.Find(key));
  if (!table) return required ? at.Error(Code::kDataLoss, "key `{}` is missing", key) : Status();
  LS_ASSIGN_OR_RETURN(const JsonObject* object, table->Object());
  for (const auto& member : *object) {
    LS_ASSIGN_OR_RETURN(auto value, read(table->At(member)));
    map.emplace(std::string(member.key), std::move(value));
  }
  return {};
}

Result<CustomObjArg> ReadCustomObjValue(const JsonAt& at) {
  CustomObjArg value;
  LS_ASSIGN_OR_RETURN(value.name, ReadMember(at, "name", ReadString));
  LS_ASSIGN_OR_RETURN(value.class_name, ReadMember(at, "class_fqn", ReadString));
  return value;
}

enum class ValueKind : uint8_t { kTensor, kSymInt, kSymFloat, kSymBool };
const char* Name(ValueKind kind) {
  static constexpr const char* kNames[] = {"tensor", "symbolic int", "symbolic float",
                                           "symbolic bool"};
  return kNames[static_cast<size_t>(kind)];
}

bool HasEntry(const Graph& graph, ValueKind kind, const std::string& name) {
  switch (kind) {
    case ValueKind::kTensor: return graph.tensor_values.contains(name);
    case ValueKind::kSymInt: return graph.sym_int_values.contains(name);
    case ValueKind::kSymFloat: return graph.sym_float_values.contains(name);
    case ValueKind::kSymBool: return graph.sym_bool_values.contains(name);
  }
  return false;
}

// Calls visit(kind, name) for every value that `arg` names, and stops at the first error. Custom objects are
// left out: nothing here computes on them.
template <typename Visit>
Status ForEachName(const Arg& arg, const Visit& visit) {
  const auto visit_syms = [&](ValueKind kind, const auto& list) -> Status {
    for (const auto& element : list)
      if (element.is_name()) LS_RETURN_IF_ERROR(visit(kind, element.name));
    return {};
  };
  const auto visit_tensors = [&](const std::vector<std::string>& names) -> Status {
    for (const std::string& name : names)
      if (!name.empty()) LS_RETURN_IF_ERROR(visit(ValueKind::kTensor, name));
    return {};
  };
  if (auto* a = arg.As<TensorArg>()) return visit(ValueKind::kTensor, a->name);
  if (auto* a = arg.As<TensorsArg>()) return visit_tensors(a->names);
  if (auto* a = arg.As<OptionalTensorsArg>()) return visit_tensors(a->names);
  if (auto* a = arg.As<NestedTensorsArg>()) {
    for (const auto& names : a->names) LS_RETURN_IF_ERROR(visit_tensors(names));
    return {};
  }
  if (auto* a = arg.As<SymIntArg>())
    return a->is_name() ? visit(ValueKind::kSymInt, a->name) : Status();
  if (auto* a = arg.As<SymFloatArg>())
    return a->is_name() ? visit(ValueKind::kSymFloat, a->name) : Status();
  if (auto* a = arg.As<SymBoolArg>())
    return a->is_name() ? visit(ValueKind::kSymBool, a->name) : Status();
  if (auto* a = arg.As<std::vector<SymIntArg>>()) return visit_syms(ValueKind::kSymInt, *a);
  if (auto* a = arg.As<std::vector<SymFloatArg>>()) return visit_syms(ValueKind::kSymFloat, *a);
  if (auto* a = arg.As<std::vector<SymBoolArg>>()) return visit_syms(ValueKind::kSymBool, *a);
  if (auto* a = arg.As<DictArg>())
    for (const NamedArg& entry : *a->entries) LS_RETURN_IF_ERROR(ForEachName(entry.arg, visit));
  return {};
}

}  // namespace

Status CheckGraph(const Graph& graph) {
  std::unordered_map<std::string_view, ValueKind> defined;
  const auto define = [&](ValueKind kind, const std::string& name) -> Status {
    if (!HasEntry(graph, kind, name))
      return DataLoss("{} `{}` has no entry in the graph's table of values", Name(kind), name);
    if (!defined.emplace(name, kind).second) return DataLoss("value `{}` is defined twice", name);
    return {};
  };
  const auto use = [&](ValueKind kind, const std::string& name) -> Status {
    auto found = defined.find(name);
    if (found == defined.end())
      return DataLoss("{} `{}` is used before it is defined", Name(kind), name);
    if (found->second != kind)
      return DataLoss("`{}` is a {}, but is used as a {}", name, Name(found->second), Name(kind));
    return {};
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (Status status = ForEachName(graph.inputs[i], define); !status.ok())
      return std::move(status).Prefixed(fmt::format("graph input {}", i));
  for (const Node& node : graph.nodes) {
    Status status;
    for (size_t i = 0; i < node.inputs.size() && status.ok(); ++i)
      status = ForEachName(node.inputs[i].arg, use);
    for (size_t i = 0; i < node.outputs.size() && status.ok(); ++i)
      status = ForEachName(node.outputs[i], define);
    if (!status.ok()) return std::move(status).Prefixed(node.Describe());
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    if (Status status = ForEachName(graph.outputs[i], use); !status.ok())
      return std::move(status).Prefixed(fmt::format("graph output {}", i));
  return {};
}

Result<Graph> ReadGraph(const JsonAt& at) {
  Graph graph;
  LS_ASSIGN_OR_RETURN(JsonAt inputs, at.Get("inputs"));
  LS_ASSIGN_OR_RETURN(graph.inputs, ReadList(inputs, ReadArg));
  LS_ASSIGN_OR_RETURN(JsonAt outputs, at.Get("outputs"));
  LS_ASSIGN_OR_RETURN(graph.outputs, ReadList(outputs, ReadArg));
  LS_ASSIGN_OR_RETURN(JsonAt nodes, at.Get("nodes"));
  LS_ASSIGN_OR_RETURN(graph.nodes, ReadList(nodes, ReadNode));
  LS_RETURN_IF_ERROR(ReadTable(at, "tensor_values", ReadTensorMeta, graph.tensor_values, true));
  LS_RETURN_IF_ERROR(ReadTable(at, "sym_int_values", ReadSymInt, graph.sym_int_values, true));
  LS_RETURN_IF_ERROR(ReadTable(at, "sym_bool_values", ReadSymBool, graph.sym_bool_values, true));
  // These two came with later minor versions.
  LS_RETURN_IF_ERROR(
      ReadTable(at, "sym_float_values", ReadSymFloat, graph.sym_float_values, false));
  LS_RETURN_IF_ERROR(
      ReadTable(at, "custom_obj_values", ReadCustomObjValue, graph.custom_obj_values, false));
  LS_ASSIGN_OR_RETURN(auto single, at.Find("is_single_tensor_return"));
  if (single) {
    LS_ASSIGN_OR_RETURN(graph.is_single_tensor_return, single->Bool());
  }
  if (Status status = CheckGraph(graph); !status.ok()) return std::move(status).Prefixed(at.Path());
  return graph;
}

}  // namespace liveshape::pt2
