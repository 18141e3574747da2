#include <type_traits>

#include "import/pt2/dump.h"
#include "import/pt2/json_writer.h"

namespace liveshape::pt2 {
namespace {

void Write(JsonWriter& json, const Graph& graph);
void Write(JsonWriter& json, const Arg& arg);

template <typename T>
void Write(JsonWriter& json, const SymValue<T>& value) {
  if (value.is_expr())
    json.Value(value.expr);
  else
    json.Value(value.value);
}

// A name is told from a number by {"name": ...}.
template <typename T>
void Write(JsonWriter& json, const SymArg<T>& arg) {
  if (!arg.is_name()) return json.Value(arg.value);
  json.Open('{').Key("name").Value(arg.name);
  json.Close('}');
}

struct ArgWriter {
  JsonWriter& json;
  void operator()(const None&) { json.Null(); }
  void operator()(const TensorArg& arg) { json.Value(arg.name); }
  void operator()(const TensorsArg& arg) { json.Values(arg.names); }
  void operator()(const OptionalTensorsArg& arg) { json.Values(arg.names); }
  void operator()(const NestedTensorsArg& arg) { Nested(arg.names); }
  void operator()(int64_t value) { json.Value(value); }
  void operator()(double value) { json.Value(value); }
  void operator()(bool value) { json.Value(value); }
  void operator()(const std::string& value) { json.Value(value); }
  void operator()(const std::vector<int64_t>& list) { json.Values(list); }
  void operator()(const std::vector<double>& list) { json.Values(list); }
  void operator()(const std::vector<std::string>& list) { json.Values(list); }
  void operator()(const std::vector<bool>& list) {
    json.Open('[');
    for (bool element : list) json.Value(element);
    json.Close(']');
  }
  void operator()(const std::vector<std::vector<int64_t>>& lists) { Nested(lists); }
  void operator()(const std::vector<std::vector<double>>& lists) { Nested(lists); }
  template <typename T>
  void operator()(const SymArg<T>& arg) {
    Write(json, arg);
  }
  template <typename T>
  void operator()(const std::vector<SymArg<T>>& list) {
    json.Open('[');
    for (const auto& element : list) Write(json, element);
    json.Close(']');
  }
  void operator()(ScalarType type) { json.Value(Name(type)); }
  void operator()(MemoryFormat format) { json.Value(static_cast<int64_t>(format)); }
  void operator()(Layout layout) { json.Value(static_cast<int64_t>(layout)); }
  void operator()(const Device& device) { json.Value(device.type); }
  void operator()(const OperatorArg& arg) { json.Value(arg.name); }
  void operator()(const ComplexArg& arg) { json.Values(std::vector<double>{arg.real, arg.imag}); }
  void operator()(const GraphArg& arg) { Write(json, *arg.graph); }
  void operator()(const CustomObjArg& arg) { json.Value(arg.name); }
  void operator()(const DictArg& arg) {
    json.Open('{');
    for (const NamedArg& entry : *arg.entries) Write(json.Key(entry.name), entry.arg);
    json.Close('}');
  }
  template <typename Lists>
  void Nested(const Lists& lists) {
    json.Open('[');
    for (const auto& list : lists) json.Values(list);
    json.Close(']');
  }
};

void Write(JsonWriter& json, const Arg& arg) {
  json.Open('{').Key("kind").Value(arg.kind());
  json.Key("value");
  std::visit(ArgWriter{json}, arg.value);
  json.Close('}');
}

void Write(JsonWriter& json, const std::vector<Arg>& args) {
  json.Open('[');
  for (const Arg& arg : args) Write(json, arg);
  json.Close(']');
}

void Write(JsonWriter& json, const std::vector<SymInt>& values) {
  json.Open('[');
  for (const SymInt& value : values) Write(json, value);
  json.Close(']');
}

void Write(JsonWriter& json, const Node& node) {
  json.Open('{').Key("name").Value(node.name);
  json.Key("target").Value(node.target);
  json.Key("inputs").Open('[');
  for (const NamedArg& input : node.inputs) {
    json.Open('{').Key("name").Value(input.name);
    json.Key("keyword").Value(input.is_keyword);
    Write(json.Key("arg"), input.arg);
    json.Close('}');
  }
  json.Close(']');
  Write(json.Key("outputs"), node.outputs);
  json.Key("source").Value(node.source.str());
  json.Key("source_text").Value(node.source.text);
  json.Key("module").Value(node.module_path);
  json.Key("module_type").Value(node.module_type);
  json.Close('}');
}

void Write(JsonWriter& json, const TensorMeta& meta) {
  json.Open('{').Key("dtype").Value(Name(meta.dtype));
  Write(json.Key("sizes"), meta.sizes);
  Write(json.Key("strides"), meta.strides);
  json.Close('}');
}

template <typename Map>
void WriteTable(JsonWriter& json, std::string_view key, const Map& map) {
  json.Key(key).Open('{');
  for (const auto& [name, value] : map) Write(json.Key(name), value);
  json.Close('}');
}

void Write(JsonWriter& json, const Graph& graph) {
  json.Open('{');
  Write(json.Key("inputs"), graph.inputs);
  Write(json.Key("outputs"), graph.outputs);
  json.Key("nodes").Open('[');
  for (const Node& node : graph.nodes) Write(json, node);
  json.Close(']');
  WriteTable(json, "tensor_values", graph.tensor_values);
  WriteTable(json, "sym_int_values", graph.sym_int_values);
  WriteTable(json, "sym_float_values", graph.sym_float_values);
  WriteTable(json, "sym_bool_values", graph.sym_bool_values);
  json.Close('}');
}

template <typename Spec>
void WriteSpecs(JsonWriter& json, const std::vector<Spec>& specs) {
  json.Open('[');
  for (const Spec& spec : specs) {
    json.Open('{').Key("kind").Value(Name(spec.kind));
    json.Key("name").Value(spec.arg.value_name());
    json.Key("target").Value(spec.target);
    json.Key("path").Value(spec.path);
    Write(json.Key("arg"), spec.arg);
    if constexpr (std::is_same_v<Spec, InputSpec>) json.Key("persistent").Value(spec.persistent);
    json.Close('}');
  }
  json.Close(']');
}

void WriteWeights(JsonWriter& json, const Pt2Archive& archive, const std::vector<Weight>& weights) {
  json.Open('[');
  for (const Weight& weight : weights) {
    json.Open('{').Key("name").Value(weight.name);
    json.Key("dtype").Value(Name(weight.dtype));
    json.Key("sizes").Values(weight.sizes);
    json.Key("strides").Values(weight.strides);
    json.Key("storage_offset").Value(weight.storage_offset);
    json.Key("storage").Value(archive.storage(weight).path);
    json.Key("storage_bytes").Value(static_cast<int64_t>(archive.storage(weight).bytes.size()));
    json.Key("contiguous").Value(weight.is_contiguous());
    json.Key("is_parameter").Value(weight.is_parameter);
    json.Key("dropped").Value(weight.dropped);
    json.Close('}');
  }
  json.Close(']');
}

void WriteRanges(JsonWriter& json, const Program& program) {
  json.Open('{');
  for (const auto& [key, range] : program.range_constraints) {
    json.Key(key).Open('[');
    for (const auto& bound : {range.lo, range.hi}) bound ? json.Value(*bound) : json.Null();
    json.Close(']');
  }
  json.Close('}');
}

}  // namespace

std::string DumpArg(const Arg& arg) {
  JsonWriter json;
  std::visit(ArgWriter{json}, arg.value);
  return std::move(json).Take();
}

std::string DumpJson(const Pt2Archive& archive) {
  const Program& program = archive.program();
  JsonWriter json;
  json.Open('{').Key("torch_version").Value(program.torch_version);
  json.Key("schema_version")
      .Values(std::vector<int64_t>{program.schema_version.major, program.schema_version.minor});
  json.Key("dialect").Value(program.dialect);
  WriteSpecs(json.Key("inputs"), program.input_specs);
  WriteSpecs(json.Key("outputs"), program.output_specs);
  Write(json.Key("graph"), program.graph);
  WriteRanges(json.Key("ranges"), program);
  json.Key("guards").Values(program.guards_code);
  json.Key("forward_arg_names").Values(program.forward_arg_names);
  WriteWeights(json.Key("weights"), archive, archive.weights());
  WriteWeights(json.Key("constants"), archive, archive.constants());
  json.Key("weights_dropped").Value(archive.weights_dropped());
  json.Key("extras").Open('{');
  for (const auto& [name, text] : archive.extras()) json.Key(name).Value(text);
  json.Close('}');
  json.Close('}');
  return std::move(json).Take();
}

}  // namespace liveshape::pt2
