// What the plain structs of program.h can say about themselves.
#include <algorithm>

#include "import/pt2/program.h"

namespace liveshape::pt2 {

const char* Name(ScalarType type) {
  switch (type) {
    case ScalarType::kUnknown: return "unknown";
    case ScalarType::kU8: return "u8";
    case ScalarType::kI8: return "i8";
    case ScalarType::kI16: return "i16";
    case ScalarType::kI32: return "i32";
    case ScalarType::kI64: return "i64";
    case ScalarType::kF16: return "f16";
    case ScalarType::kF32: return "f32";
    case ScalarType::kF64: return "f64";
    case ScalarType::kComplexF16: return "c32";
    case ScalarType::kComplexF32: return "c64";
    case ScalarType::kComplexF64: return "c128";
    case ScalarType::kBool: return "bool";
    case ScalarType::kBF16: return "bf16";
    case ScalarType::kU16: return "u16";
    case ScalarType::kF8E4M3FN: return "f8_e4m3fn";
    case ScalarType::kF8E5M2: return "f8_e5m2";
    case ScalarType::kF8E4M3FNUZ: return "f8_e4m3fnuz";
    case ScalarType::kF8E5M2FNUZ: return "f8_e5m2fnuz";
    case ScalarType::kF8E8M0FNU: return "f8_e8m0fnu";
    case ScalarType::kU32: return "u32";
    case ScalarType::kU64: return "u64";
  }
  return "unknown";
}

int64_t ElementBytes(ScalarType type) {
  switch (type) {
    case ScalarType::kU8:
    case ScalarType::kI8:
    case ScalarType::kBool:
    case ScalarType::kF8E4M3FN:
    case ScalarType::kF8E5M2:
    case ScalarType::kF8E4M3FNUZ:
    case ScalarType::kF8E5M2FNUZ:
    case ScalarType::kF8E8M0FNU: return 1;
    case ScalarType::kI16:
    case ScalarType::kU16:
    case ScalarType::kF16:
    case ScalarType::kBF16: return 2;
    case ScalarType::kI32:
    case ScalarType::kU32:
    case ScalarType::kF32:
    case ScalarType::kComplexF16: return 4;
    case ScalarType::kI64:
    case ScalarType::kU64:
    case ScalarType::kF64:
    case ScalarType::kComplexF32: return 8;
    case ScalarType::kComplexF64: return 16;
    case ScalarType::kUnknown: return 0;
  }
  return 0;
}

const char* Name(InputKind kind) {
  static constexpr const char* kNames[] = {"user_input",      "parameter",      "buffer",
                                           "tensor_constant", "constant_input", "custom_obj"};
  return kNames[static_cast<size_t>(kind)];
}

const char* Name(OutputKind kind) {
  static constexpr const char* kNames[] = {
      "user_output", "buffer_mutation",       "parameter_mutation",    "user_input_mutation",
      "loss_output", "gradient_to_parameter", "gradient_to_user_input"};
  return kNames[static_cast<size_t>(kind)];
}

const char* Arg::kind() const {
  // In the order of Arg::Value.
  static constexpr const char* kNames[] = {"none",
                                           "tensor",
                                           "list of tensors",
                                           "list of optional tensors",
                                           "list of lists of tensors",
                                           "int",
                                           "list of ints",
                                           "list of lists of ints",
                                           "float",
                                           "list of floats",
                                           "list of lists of floats",
                                           "bool",
                                           "list of bools",
                                           "string",
                                           "list of strings",
                                           "symbolic int",
                                           "list of symbolic ints",
                                           "symbolic float",
                                           "list of symbolic floats",
                                           "symbolic bool",
                                           "list of symbolic bools",
                                           "dtype",
                                           "memory format",
                                           "layout",
                                           "device",
                                           "operator",
                                           "complex",
                                           "graph",
                                           "custom object",
                                           "dict"};
  static_assert(std::size(kNames) == std::variant_size_v<Value>);
  return kNames[value.index()];
}

std::optional<std::string_view> Arg::tensor() const {
  if (auto* arg = As<TensorArg>()) return arg->name;
  return std::nullopt;
}

std::optional<std::vector<std::string>> Arg::tensors() const {
  if (auto* arg = As<TensorsArg>()) return arg->names;
  if (auto* arg = As<OptionalTensorsArg>()) return arg->names;
  return std::nullopt;
}

std::optional<SymIntArg> Arg::sym_int() const {
  if (auto* arg = As<SymIntArg>()) return *arg;
  if (auto* arg = As<int64_t>()) return SymIntArg{.value = *arg, .name = {}};
  return std::nullopt;
}

std::optional<std::vector<SymIntArg>> Arg::sym_ints() const {
  if (auto* arg = As<std::vector<SymIntArg>>()) return *arg;
  if (auto* arg = As<std::vector<int64_t>>()) {
    std::vector<SymIntArg> list;
    for (int64_t element : *arg) list.push_back({.value = element, .name = {}});
    return list;
  }
  return std::nullopt;
}

std::optional<int64_t> Arg::integer() const {
  if (auto* arg = As<int64_t>()) return *arg;
  if (auto* arg = As<SymIntArg>(); arg && !arg->is_name()) return arg->value;
  return std::nullopt;
}

std::optional<double> Arg::number() const {
  if (auto* arg = As<double>()) return *arg;
  if (auto* arg = As<SymFloatArg>(); arg && !arg->is_name()) return arg->value;
  if (auto plain = integer()) return static_cast<double>(*plain);
  if (auto plain = boolean()) return *plain ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<bool> Arg::boolean() const {
  if (auto* arg = As<bool>()) return *arg;
  if (auto* arg = As<SymBoolArg>(); arg && !arg->is_name()) return arg->value;
  return std::nullopt;
}

std::optional<std::string_view> Arg::string() const {
  if (auto* arg = As<std::string>()) return *arg;
  return std::nullopt;
}

std::shared_ptr<const Graph> Arg::graph() const {
  auto* arg = As<GraphArg>();
  return arg ? arg->graph : nullptr;
}

std::string_view Arg::value_name() const {
  if (auto* arg = As<TensorArg>()) return arg->name;
  if (auto* arg = As<SymIntArg>()) return arg->name;
  if (auto* arg = As<SymFloatArg>()) return arg->name;
  if (auto* arg = As<SymBoolArg>()) return arg->name;
  if (auto* arg = As<CustomObjArg>()) return arg->name;
  return {};
}

std::string SourceLine::str() const {
  return empty() ? std::string() : fmt::format("{}:{}", file, line);
}

const Arg* Node::Find(std::string_view arg_name) const {
  auto found = std::ranges::find(inputs, arg_name, &NamedArg::name);
  return found == inputs.end() ? nullptr : &found->arg;
}

std::string Node::Describe() const {
  if (source.empty()) return fmt::format("node `{}` ({})", name, target);
  return fmt::format("node `{}` ({}, at {})", name, target, source.str());
}

const TensorMeta* Graph::FindTensor(std::string_view name) const {
  auto found = tensor_values.find(name);
  return found == tensor_values.end() ? nullptr : &found->second;
}

}  // namespace liveshape::pt2
