// Values and arguments: the leaves of the schema.
#include <utility>

#include "import/pt2/read.h"

namespace liveshape::pt2 {
namespace {

// Enums are numbers in the file; a number that we do not know must not become a valid-looking enumerator.
Result<ScalarType> ReadScalarType(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(int64_t code, at.Int());
  if (code < 0 || code > 255 || (code != 0 && ElementBytes(static_cast<ScalarType>(code)) == 0))
    return at.Error(Code::kUnsupported, "unknown dtype code {}", code);
  return static_cast<ScalarType>(code);
}

template <typename Enum>
Result<Enum> ReadEnum(const JsonAt& at, Enum last, const char* what) {
  LS_ASSIGN_OR_RETURN(int64_t code, at.Int());
  if (code < 0 || code > static_cast<int64_t>(last))
    return at.Error(Code::kUnsupported, "unknown {} code {}", what, code);
  return static_cast<Enum>(code);
}
Result<Layout> ReadLayout(const JsonAt& at) { return ReadEnum(at, Layout::kStrided, "layout"); }
Result<MemoryFormat> ReadMemoryFormat(const JsonAt& at) {
  return ReadEnum(at, MemoryFormat::kPreserve, "memory format");
}

Result<Device> ReadDevice(const JsonAt& at) {
  Device device;
  LS_ASSIGN_OR_RETURN(device.type, ReadMember(at, "type", ReadString));
  LS_ASSIGN_OR_RETURN(auto index, at.Find("index"));
  if (index) {
    LS_ASSIGN_OR_RETURN(device.index, index->Int());
  }
  return device;
}

// An empty name would read as "no name" everywhere else.
Result<std::string> ReadName(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(std::string name, at.String());
  if (name.empty()) return at.Error(Code::kDataLoss, "a value has an empty name");
  return name;
}

Result<std::string> ReadNamed(const JsonAt& at) {
  return ReadMember(at, "name", ReadName);
}  // TensorArgument

Result<std::string> ReadOptionalTensor(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(JsonAt only, at.Only());
  if (only.key() == "as_none") return std::string();
  if (only.key() == "as_tensor") return ReadNamed(only);
  return only.Error(Code::kUnsupported, "unknown kind of optional tensor");
}

// {as_expr: {expr_str, hint}} or {<plain_key>: value}.
template <typename T, typename Read>
Result<SymValue<T>> ReadSymValue(const JsonAt& at, std::string_view plain_key, Read read) {
  SymValue<T> value;
  LS_ASSIGN_OR_RETURN(JsonAt only, at.Only());
  if (only.key() == plain_key) {
    LS_ASSIGN_OR_RETURN(value.value, read(only));
    return value;
  }
  if (only.key() != "as_expr")
    return only.Error(Code::kUnsupported, "unknown kind of symbolic value");
  LS_ASSIGN_OR_RETURN(value.expr, ReadMember(only, "expr_str", ReadString));
  if (value.expr.empty()) return only.Error(Code::kDataLoss, "the expression is empty");
  LS_ASSIGN_OR_RETURN(auto hint, only.Find("hint"));
  if (hint) {
    LS_ASSIGN_OR_RETURN(JsonAt only_hint, hint->Only());
    if (only_hint.key() == plain_key) {  // a hint of another type says nothing of use
      LS_ASSIGN_OR_RETURN(value.hint, read(only_hint));
    }
  }
  return value;
}

// {as_name: name} or {<plain_key>: value}.
template <typename T, typename Read>
Result<SymArg<T>> ReadSymArg(const JsonAt& at, std::string_view plain_key, Read read) {
  SymArg<T> arg;
  LS_ASSIGN_OR_RETURN(JsonAt only, at.Only());
  if (only.key() == "as_name") {
    LS_ASSIGN_OR_RETURN(arg.name, ReadName(only));
  } else if (only.key() == plain_key) {
    LS_ASSIGN_OR_RETURN(arg.value, read(only));
  } else {
    return only.Error(Code::kUnsupported, "unknown kind of symbolic argument");
  }
  return arg;
}
Result<SymIntArg> ReadSymIntArg(const JsonAt& at) {
  return ReadSymArg<int64_t>(at, "as_int", ReadInt);
}
Result<SymFloatArg> ReadSymFloatArg(const JsonAt& at) {
  return ReadSymArg<double>(at, "as_float", ReadDouble);
}
Result<SymBoolArg> ReadSymBoolArg(const JsonAt& at) {
  return ReadSymArg<bool>(at, "as_bool", ReadBool);
}

Result<ComplexArg> ReadComplex(const JsonAt& at) {
  ComplexArg value;
  LS_ASSIGN_OR_RETURN(value.real, ReadMember(at, "real", ReadDouble));
  LS_ASSIGN_OR_RETURN(value.imag, ReadMember(at, "imag", ReadDouble));
  return value;
}

Result<GraphArg> ReadGraphArg(const JsonAt& at) {
  GraphArg arg;
  LS_ASSIGN_OR_RETURN(arg.name, ReadMember(at, "name", ReadString));
  LS_ASSIGN_OR_RETURN(Graph graph, ReadMember(at, "graph", ReadGraph));
  arg.graph = std::make_shared<const Graph>(std::move(graph));
  return arg;
}

Result<CustomObjArg> ReadCustomObj(const JsonAt& at) {
  CustomObjArg arg;
  LS_ASSIGN_OR_RETURN(arg.name, ReadNamed(at));
  LS_ASSIGN_OR_RETURN(arg.class_name, ReadMember(at, "class_fqn", ReadString));
  return arg;
}

Result<DictArg> ReadDict(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(const JsonObject* object, at.Object());
  std::vector<NamedArg> entries;
  for (const auto& member : *object) {
    LS_ASSIGN_OR_RETURN(Arg arg, ReadArg(at.At(member)));
    entries.push_back({.name = std::string(member.key), .arg = std::move(arg), .is_keyword = true});
  }
  return DictArg{std::make_shared<const std::vector<NamedArg>>(std::move(entries))};
}

// The alternative `T` of Arg, made of what `read` yields; Many: of a list of that.
template <typename T, auto read>
Result<Arg> One(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(auto value, read(at));
  return Arg{T{std::move(value)}};
}

template <auto read>
auto ListOf(const JsonAt& at) {
  return ReadList(at, read);
}

template <typename T, auto read>
constexpr auto Many = One<T, ListOf<read>>;

Result<Arg> ReadNone(const JsonAt&) { return Arg{None{}}; }
Result<Arg> ReadMaybeTensor(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(std::string name, ReadOptionalTensor(at));
  if (name.empty()) return Arg{None{}};
  return Arg{TensorArg{std::move(name)}};
}

struct ArgReader {
  std::string_view key;
  Result<Arg> (*read)(const JsonAt&);
};

// Every alternative of the schema's Argument union.
constexpr ArgReader kArgReaders[] = {
    {"as_none", ReadNone},
    {"as_tensor", One<TensorArg, ReadNamed>},
    {"as_tensors", Many<TensorsArg, ReadNamed>},
    {"as_optional_tensor", ReadMaybeTensor},
    {"as_optional_tensors", Many<OptionalTensorsArg, ReadOptionalTensor>},
    {"as_nested_tensors", Many<NestedTensorsArg, ListOf<ReadNamed>>},
    {"as_int", One<int64_t, ReadInt>},
    {"as_ints", Many<std::vector<int64_t>, ReadInt>},
    {"as_int_lists", Many<std::vector<std::vector<int64_t>>, ListOf<ReadInt>>},
    {"as_float", One<double, ReadDouble>},
    {"as_floats", Many<std::vector<double>, ReadDouble>},
    {"as_float_lists", Many<std::vector<std::vector<double>>, ListOf<ReadDouble>>},
    {"as_bool", One<bool, ReadBool>},
    {"as_bools", Many<std::vector<bool>, ReadBool>},
    {"as_string", One<std::string, ReadString>},
    {"as_strings", Many<std::vector<std::string>, ReadString>},
    {"as_sym_int", One<SymIntArg, ReadSymIntArg>},
    {"as_sym_ints", Many<std::vector<SymIntArg>, ReadSymIntArg>},
    {"as_sym_float", One<SymFloatArg, ReadSymFloatArg>},
    {"as_sym_floats", Many<std::vector<SymFloatArg>, ReadSymFloatArg>},
    {"as_sym_bool", One<SymBoolArg, ReadSymBoolArg>},
    {"as_sym_bools", Many<std::vector<SymBoolArg>, ReadSymBoolArg>},
    {"as_scalar_type", One<ScalarType, ReadScalarType>},
    {"as_memory_format", One<MemoryFormat, ReadMemoryFormat>},
    {"as_layout", One<Layout, ReadLayout>},
    {"as_device", One<Device, ReadDevice>},
    {"as_operator", One<OperatorArg, ReadString>},
    {"as_complex", One<ComplexArg, ReadComplex>},
    {"as_graph", One<GraphArg, ReadGraphArg>},
    {"as_custom_obj", One<CustomObjArg, ReadCustomObj>},
    {"as_string_to_argument", One<DictArg, ReadDict>},
};

}  // namespace

Result<SymInt> ReadSymInt(const JsonAt& at) { return ReadSymValue<int64_t>(at, "as_int", ReadInt); }
Result<SymFloat> ReadSymFloat(const JsonAt& at) {
  return ReadSymValue<double>(at, "as_float", ReadDouble);
}
Result<SymBool> ReadSymBool(const JsonAt& at) {
  return ReadSymValue<bool>(at, "as_bool", ReadBool);
}

Result<TensorMeta> ReadTensorMeta(const JsonAt& at) {
  TensorMeta meta;
  LS_ASSIGN_OR_RETURN(meta.dtype, ReadMember(at, "dtype", ReadScalarType));
  LS_ASSIGN_OR_RETURN(meta.sizes, ReadMember(at, "sizes", ListOf<ReadSymInt>));
  LS_ASSIGN_OR_RETURN(meta.strides, ReadMember(at, "strides", ListOf<ReadSymInt>));
  LS_ASSIGN_OR_RETURN(meta.storage_offset, ReadMember(at, "storage_offset", ReadSymInt));
  LS_ASSIGN_OR_RETURN(meta.requires_grad, ReadMember(at, "requires_grad", ReadBool));
  LS_ASSIGN_OR_RETURN(meta.device, ReadMember(at, "device", ReadDevice));
  LS_ASSIGN_OR_RETURN(meta.layout, ReadMember(at, "layout", ReadLayout));
  if (meta.strides.size() != meta.sizes.size() && meta.layout == Layout::kStrided)
    return at.Error(Code::kDataLoss, "a tensor has {} sizes but {} strides", meta.sizes.size(),
                    meta.strides.size());
  for (const SymInt& size : meta.sizes)
    if (!size.is_expr() && size.value < 0)
      return at.Error(Code::kDataLoss, "a tensor has the negative size {}", size.value);
  return meta;
}

Result<Arg> ReadArg(const JsonAt& at) {
  LS_ASSIGN_OR_RETURN(JsonAt only, at.Only());
  for (const ArgReader& reader : kArgReaders)
    if (only.key() == reader.key) return reader.read(only);
  return at.Error(Code::kUnsupported, "unknown kind of argument `{}`", only.key());
}

}  // namespace liveshape::pt2
