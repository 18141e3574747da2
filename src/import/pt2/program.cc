#include "import/pt2/program.h"

#include <utility>

#include "import/pt2/read.h"

namespace liveshape::pt2 {
namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr std::string_view kDocument = "models/model.json";

Result<SchemaVersion> ReadSchemaVersion(const JsonAt& at) {
  SchemaVersion version;
  LS_ASSIGN_OR_RETURN(version.major, ReadMember(at, "major", ReadInt));
  LS_ASSIGN_OR_RETURN(version.minor, ReadMember(at, "minor", ReadInt));
  if (version.major > kSchemaMajor)
    return Unsupported(
        "the .pt2 has schema version {}.{}; this build reads {}.x (torch 2.13): export with torch "
        "2.13, or use a newer liveshape",
        version.major, version.minor, kSchemaMajor);
  if (version.major < kSchemaMajor)
    return Unsupported(
        "the .pt2 has schema version {}.{}, older than {}.x that this build reads: export it again "
        "with torch 2.13",
        version.major, version.minor, kSchemaMajor);
  return version;
}

// One alternative of the InputSpec or OutputSpec union: its kind and the key of the name it refers to.
template <typename Kind>
struct SpecKind {
  std::string_view key;
  Kind kind;
  std::string_view target_key;  // empty if it refers to nothing
  bool arg_is_tensor;           // `arg` is a bare {name}, not an Argument
};
constexpr SpecKind<InputKind> kInputKinds[] = {
    {"user_input", InputKind::kUserInput, "", false},
    {"parameter", InputKind::kParameter, "parameter_name", true},
    {"buffer", InputKind::kBuffer, "buffer_name", true},
    {"tensor_constant", InputKind::kTensorConstant, "tensor_constant_name", true},
};
constexpr SpecKind<OutputKind> kOutputKinds[] = {
    {"user_output", OutputKind::kUserOutput, "", false},
    {"buffer_mutation", OutputKind::kBufferMutation, "buffer_name", true},
    {"parameter_mutation", OutputKind::kParameterMutation, "parameter_name", true},
    {"user_input_mutation", OutputKind::kUserInputMutation, "user_input_name", true},
    {"loss_output", OutputKind::kLossOutput, "", true},
    {"gradient_to_parameter", OutputKind::kGradientToParameter, "parameter_name", true},
    {"gradient_to_user_input", OutputKind::kGradientToUserInput, "user_input_name", true},
};

// Fills kind, arg and target; false if `kinds` has no such key.
template <typename Spec, typename Kinds>
Result<bool> ReadSpec(const JsonAt& only, const Kinds& kinds, Spec& spec) {
  for (const auto& entry : kinds) {
    if (only.key() != entry.key) continue;
    spec.kind = entry.kind;
    if (entry.arg_is_tensor) {
      LS_ASSIGN_OR_RETURN(JsonAt arg, only.Get("arg"));
      LS_ASSIGN_OR_RETURN(std::string name, ReadMember(arg, "name", ReadString));
      spec.arg = Arg{TensorArg{std::move(name)}};
    } else {
      LS_ASSIGN_OR_RETURN(spec.arg, ReadMember(only, "arg", ReadArg));
    }
    if (!entry.target_key.empty()) {
      LS_ASSIGN_OR_RETURN(spec.target, ReadMember(only, entry.target_key, ReadString));
    }
    return true;
  }
  return false;
}

Status RefuseToken(const JsonAt& only) {
  return only.Error(Code::kUnsupported, "effect tokens (ops with side effects) are not supported");
}

// A constant input has no name in the graph, only in its spec: that becomes the path until the pytree gives a better one.
Result<InputSpec> ReadInputSpec(const JsonAt& at) {
  InputSpec spec;
  LS_ASSIGN_OR_RETURN(JsonAt only, at.Only());
  LS_ASSIGN_OR_RETURN(bool known, ReadSpec(only, kInputKinds, spec));
  if (known) {
    if (spec.kind == InputKind::kBuffer) {
      LS_ASSIGN_OR_RETURN(spec.persistent, ReadMember(only, "persistent", ReadBool));
    }
    return spec;
  }
  if (only.key() == "constant_input") {
    spec.kind = InputKind::kConstantInput;
    LS_ASSIGN_OR_RETURN(spec.path, ReadMember(only, "name", ReadString));
    LS_ASSIGN_OR_RETURN(spec.arg, ReadMember(only, "value", ReadArg));
    return spec;
  }
  if (only.key() == "custom_obj") {
    spec.kind = InputKind::kCustomObj;
    LS_ASSIGN_OR_RETURN(JsonAt arg, only.Get("arg"));
    CustomObjArg object;
    LS_ASSIGN_OR_RETURN(object.name, ReadMember(arg, "name", ReadString));
    LS_ASSIGN_OR_RETURN(object.class_name, ReadMember(arg, "class_fqn", ReadString));
    spec.arg = Arg{std::move(object)};
    LS_ASSIGN_OR_RETURN(spec.target, ReadMember(only, "custom_obj_name", ReadString));
    return spec;
  }
  if (only.key() == "token") return RefuseToken(only);
  return only.Error(Code::kUnsupported, "unknown kind of input `{}`", only.key());
}

Result<OutputSpec> ReadOutputSpec(const JsonAt& at) {
  OutputSpec spec;
  LS_ASSIGN_OR_RETURN(JsonAt only, at.Only());
  LS_ASSIGN_OR_RETURN(bool known, ReadSpec(only, kOutputKinds, spec));
  if (known) return spec;
  if (only.key() == "token") return RefuseToken(only);
  return only.Error(Code::kUnsupported, "unknown kind of output `{}`", only.key());
}

// The signature and the graph tell the same story, one entry per value, in the same order.
template <typename Spec>
Status CheckSpecs(const std::vector<Spec>& specs, const std::vector<Arg>& args, const char* what) {
  if (specs.size() != args.size())
    return DataLoss("{}: the signature has {} {}s, the graph {}", kDocument, specs.size(), what,
                    args.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].arg.value_name() != args[i].value_name())
      return DataLoss("{}: {} {} is `{}` in the signature and `{}` in the graph", kDocument, what,
                      i, specs[i].arg.value_name(), args[i].value_name());
    // The importer looks a tensor of the signature up among the graph's.
    if (specs[i].arg.tensor().has_value() != args[i].tensor().has_value())
      return DataLoss("{}: {} {} `{}` is {} in the signature and {} in the graph", kDocument, what,
                      i, args[i].value_name(), specs[i].arg.kind(), args[i].kind());
  }
  return {};
}

Status ReadSignature(const JsonAt& at, Program& program) {
  LS_ASSIGN_OR_RETURN(JsonAt inputs, at.Get("input_specs"));
  LS_ASSIGN_OR_RETURN(program.input_specs, ReadList(inputs, ReadInputSpec));
  LS_ASSIGN_OR_RETURN(JsonAt outputs, at.Get("output_specs"));
  LS_ASSIGN_OR_RETURN(program.output_specs, ReadList(outputs, ReadOutputSpec));
  LS_RETURN_IF_ERROR(CheckSpecs(program.input_specs, program.graph.inputs, "input"));
  return CheckSpecs(program.output_specs, program.graph.outputs, "output");
}

Result<std::vector<std::string>> ReadFieldNames(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(JsonAt names, at.Get("field_names"));
  return ReadList(names, ReadString);
}

// The root module's call (fqn "") has the pytree specs; absent in programs that were put together by hand.
Result<CallSpecs> ReadRootCall(const JsonAt& graph_module) {
  CallSpecs specs;
  LS_ASSIGN_OR_RETURN(auto calls, graph_module.Find("module_call_graph"));
  if (!calls) return specs;
  LS_ASSIGN_OR_RETURN(const JsonArray* array, calls->Array());
  for (size_t i = 0; i < array->size(); ++i) {
    const JsonAt call = calls->At(*array, i);
    LS_ASSIGN_OR_RETURN(std::string fqn, ReadMember(call, "fqn", ReadString));
    if (!fqn.empty()) continue;
    LS_ASSIGN_OR_RETURN(auto signature, call.Find("signature"));
    if (!signature) break;
    LS_ASSIGN_OR_RETURN(specs.in_spec, ReadMember(*signature, "in_spec", ReadString));
    LS_ASSIGN_OR_RETURN(specs.out_spec, ReadMember(*signature, "out_spec", ReadString));
    LS_ASSIGN_OR_RETURN(auto names, signature->Find("forward_arg_names"));
    if (names) {
      LS_ASSIGN_OR_RETURN(specs.forward_arg_names, ReadList(*names, ReadString));
    }
    break;
  }
  LS_ASSIGN_OR_RETURN(auto tuples, graph_module.Find("treespec_namedtuple_fields"));
  if (!tuples) return specs;
  LS_ASSIGN_OR_RETURN(const JsonObject* object, tuples->Object());
  for (const auto& member : *object) {
    LS_ASSIGN_OR_RETURN(auto fields, ReadFieldNames(tuples->At(member)));
    specs.namedtuple_fields.emplace(std::string(member.key), std::move(fields));
  }
  return specs;
}

Status NameUserValues(const JsonAt& graph_module, Program& program) {
  LS_ASSIGN_OR_RETURN(CallSpecs call, ReadRootCall(graph_module));
  std::vector<std::string> placeholders;
  for (const InputSpec& spec : program.input_specs)
    placeholders.emplace_back(spec.kind == InputKind::kConstantInput ? spec.path
                                                                     : spec.arg.value_name());
  LS_RETURN_IF_ERROR(NameInputs(call, placeholders, program.input_specs));
  LS_RETURN_IF_ERROR(NameOutputs(call, program.output_specs));
  program.forward_arg_names = std::move(call.forward_arg_names);
  return {};
}

Status ReadRanges(const JsonAt& at, Program& program) {
  LS_ASSIGN_OR_RETURN(const JsonObject* object, at.Object());
  for (const auto& member : *object) {
    const JsonAt entry = at.At(member);
    Range range;
    LS_ASSIGN_OR_RETURN(auto lo, entry.Find("min_val"));
    if (lo) {
      LS_ASSIGN_OR_RETURN(range.lo, lo->Int());
    }
    LS_ASSIGN_OR_RETURN(auto hi, entry.Find("max_val"));
    if (hi) {
      LS_ASSIGN_OR_RETURN(range.hi, hi->Int());
    }
    if (range.lo && range.hi && *range.lo > *range.hi)
      return entry.Error(Code::kDataLoss, "the range [{}, {}] is empty", *range.lo, *range.hi);
    program.range_constraints.emplace(std::string(member.key), range);
  }
  return {};
}

// What may be absent: older minor versions do not have it.
Status ReadHeader(const JsonAt& root, Program& program) {
  LS_ASSIGN_OR_RETURN(auto guards, root.Find("guards_code"));
  if (guards) {
    LS_ASSIGN_OR_RETURN(program.guards_code, ReadList(*guards, ReadString));
  }
  LS_ASSIGN_OR_RETURN(auto torch_version, root.Find("torch_version"));
  if (torch_version) {
    LS_ASSIGN_OR_RETURN(program.torch_version, torch_version->String());
  }
  LS_ASSIGN_OR_RETURN(auto verifiers, root.Find("verifiers"));
  if (verifiers) {
    LS_ASSIGN_OR_RETURN(std::vector<std::string> names, ReadList(*verifiers, ReadString));
    if (!names.empty()) program.dialect = names[0];
  }
  LS_ASSIGN_OR_RETURN(auto opsets, root.Find("opset_version"));
  if (opsets) {
    LS_ASSIGN_OR_RETURN(const JsonObject* object, opsets->Object());
    for (const auto& member : *object) {
      LS_ASSIGN_OR_RETURN(program.opset_version[std::string(member.key)], opsets->At(member).Int());
    }
  }
  return {};
}

}  // namespace

Result<Program> ParseProgram(std::string_view text) {
  LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(text, kDocument));
  const JsonAt root(kDocument, document.root);
  Program program;
  // First of all: another major version may differ in everything that follows.
  LS_ASSIGN_OR_RETURN(program.schema_version,
                      ReadMember(root, "schema_version", ReadSchemaVersion));
  LS_RETURN_IF_ERROR(ReadHeader(root, program));
  LS_ASSIGN_OR_RETURN(JsonAt module, root.Get("graph_module"));
  LS_ASSIGN_OR_RETURN(program.graph, ReadMember(module, "graph", ReadGraph));
  LS_ASSIGN_OR_RETURN(JsonAt signature, module.Get("signature"));
  LS_RETURN_IF_ERROR(ReadSignature(signature, program));
  LS_RETURN_IF_ERROR(NameUserValues(module, program));
  LS_ASSIGN_OR_RETURN(JsonAt ranges, root.Get("range_constraints"));
  LS_RETURN_IF_ERROR(ReadRanges(ranges, program));
  return program;
}

}  // namespace liveshape::pt2
