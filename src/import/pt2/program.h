// The exported program of a `.pt2` as plain data: what models/model.json says, typed and checked.
//
//   LS_ASSIGN_OR_RETURN(Program program, ParseProgram(json_text));
//   for (const Node& node : program.graph.nodes)
//     if (node.target == "torch.ops.aten.slice.Tensor") {
//       std::string_view x = *node.Find("self")->tensor();
//       std::optional<SymIntArg> start = node.Find("start") ? node.Find("start")->sym_int() : ...;
//     }
//
// What a successful parse guarantees, so that a user need not check again:
//   - graph.inputs and input_specs have one entry each per placeholder, in the same order; graph.outputs
//     and output_specs likewise; both args of such a pair name the same value;
//   - in every graph (subgraphs have their own names) a value is defined once, before its first use, and
//     has an entry in the table of its kind;
//   - integers are exact int64; anything beyond is refused, never rounded.
// Expressions stay strings (sympy srepr): reading them is sym's business.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace liveshape::pt2 {

// The codes of the file (torch/_export/serde/schema.py), which are not c10's.
enum class ScalarType : uint8_t {
  kUnknown = 0,
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kF32 = 7,
  kF64 = 8,
  kComplexF16 = 9,
  kComplexF32 = 10,
  kComplexF64 = 11,
  kBool = 12,
  kBF16 = 13,
  kU16 = 28,
  kF8E4M3FN = 29,
  kF8E5M2 = 30,
  kF8E4M3FNUZ = 31,
  kF8E5M2FNUZ = 32,
  kF8E8M0FNU = 33,
  kU32 = 34,
  kU64 = 35,
};
const char* Name(ScalarType type);      // "f32"
int64_t ElementBytes(ScalarType type);  // 0 for kUnknown

enum class MemoryFormat : uint8_t {
  kUnknown,
  kContiguous,
  kChannelsLast,
  kChannelsLast3d,
  kPreserve
};
enum class Layout : uint8_t {
  kUnknown,
  kSparseCoo,
  kSparseCsr,
  kSparseCsc,
  kSparseBsr,
  kSparseBsc,
  kMkldnn,
  kStrided
};

struct Device {
  std::string type;  // "cpu", "cuda", "meta"
  std::optional<int64_t> index;
};

// A size, stride, or the value of a symbolic scalar: either a number or an expression in sympy's srepr.
template <typename T>
struct SymValue {
  T value{};              // if there is no expression
  std::string expr;       // `Mul(Integer(2), Symbol('s0', positive=True, integer=True))`
  std::optional<T> hint;  // what the expression was for the example inputs
  bool is_expr() const { return !expr.empty(); }
};
using SymInt = SymValue<int64_t>;
using SymFloat = SymValue<double>;
using SymBool = SymValue<bool>;

struct TensorMeta {
  ScalarType dtype = ScalarType::kUnknown;
  std::vector<SymInt> sizes;
  std::vector<SymInt> strides;  // as traced; wrong at sizes 0 and 1, so recompute rather than trust
  SymInt storage_offset;
  bool requires_grad = false;
  Device device;
  Layout layout = Layout::kStrided;
};

// An argument that is either a number or the name of a symbolic value of the graph.
template <typename T>
struct SymArg {
  T value{};
  std::string name;
  bool is_name() const { return !name.empty(); }
};
using SymIntArg = SymArg<int64_t>;
using SymFloatArg = SymArg<double>;
using SymBoolArg = SymArg<bool>;

struct Graph;
struct NamedArg;

// One struct per alternative of the schema's union, so that an `as_ints` is never taken for sizes of strings.
struct None {};
struct TensorArg { std::string name; };
struct TensorsArg { std::vector<std::string> names; };
struct OptionalTensorsArg { std::vector<std::string> names; };  // "" where None
struct NestedTensorsArg { std::vector<std::vector<std::string>> names; };
struct OperatorArg { std::string name; };
struct ComplexArg { double real = 0, imag = 0; };
struct GraphArg {
  std::string name;
  std::shared_ptr<const Graph> graph;
};  // never null
struct CustomObjArg { std::string name, class_name; };
struct DictArg { std::shared_ptr<const std::vector<NamedArg>> entries; };  // never null

struct Arg {
  using Value = std::variant<None, TensorArg, TensorsArg, OptionalTensorsArg, NestedTensorsArg,
                             int64_t, std::vector<int64_t>, std::vector<std::vector<int64_t>>,
                             double, std::vector<double>, std::vector<std::vector<double>>, bool,
                             std::vector<bool>, std::string, std::vector<std::string>, SymIntArg,
                             std::vector<SymIntArg>, SymFloatArg, std::vector<SymFloatArg>,
                             SymBoolArg, std::vector<SymBoolArg>, ScalarType, MemoryFormat, Layout,
                             Device, OperatorArg, ComplexArg, GraphArg, CustomObjArg, DictArg>;
  Value value;

  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(value);
  }
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&value);
  }  // null if it is another kind
  bool is_none() const { return Is<None>(); }
  const char* kind() const;  // for messages: "tensor", "list of ints"

  // Readers that accept every spelling of the same thing; nullopt for another kind.
  std::optional<std::string_view> tensor() const;
  std::optional<std::vector<std::string>> tensors()
      const;                                 // tensors or optional tensors ("" where None)
  std::optional<SymIntArg> sym_int() const;  // int or symbolic int
  std::optional<std::vector<SymIntArg>> sym_ints() const;  // ints or symbolic ints
  std::optional<int64_t> integer() const;  // an int, or a symbolic int that is a plain number
  std::optional<double> number() const;    // float, int or bool, as ATen's Scalar
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;
  std::shared_ptr<const Graph> graph() const;  // null for another kind

  // The one value that this argument names (tensor, symbolic scalar, custom object); empty if it names none or several.
  std::string_view value_name() const;
};

struct NamedArg {
  std::string name;  // the operator schema's; empty for arguments of higher-order ops
  Arg arg;
  bool is_keyword = false;
};

struct SourceLine {
  std::string file;  // base name only
  int64_t line = 0;
  std::string text;  // the source line itself, where the trace has it
  bool empty() const { return file.empty(); }
  std::string str() const;  // "modeling_llama.py:42", or ""
};

struct Node {
  std::string name;    // fx name; the first output's where the file has none
  std::string target;  // "torch.ops.aten.add.Tensor", "_operator.add", "torch.sym_max", ...
  std::vector<NamedArg> inputs;  // defaulted arguments are absent
  std::vector<Arg> outputs;      // getitem folded in; Tensor[] results are one TensorsArg
  std::optional<bool> is_hop_single_tensor_return;
  SourceLine
      source;  // innermost frame outside torch; the innermost of all if every frame is torch's
  std::string module_path;  // innermost nn.Module: "model.layers.0.mlp"; "" for the root
  std::string module_type;  // "torch.nn.modules.linear.Linear"

  // By schema name; null if absent (then the operator's default holds).
  const Arg* Find(std::string_view arg_name) const;
  // For messages: "node `add_3` (torch.ops.aten.add.Tensor, at model.py:12)".
  std::string Describe() const;
};

struct Graph {
  std::vector<Arg> inputs;
  std::vector<Arg> outputs;
  std::vector<Node> nodes;
  std::map<std::string, TensorMeta, std::less<>> tensor_values;
  std::map<std::string, SymInt, std::less<>> sym_int_values;
  std::map<std::string, SymFloat, std::less<>> sym_float_values;
  std::map<std::string, SymBool, std::less<>> sym_bool_values;
  std::map<std::string, CustomObjArg, std::less<>> custom_obj_values;
  bool is_single_tensor_return = false;

  const TensorMeta* FindTensor(std::string_view name) const;  // null if there is none
};

enum class InputKind : uint8_t {
  kUserInput,
  kParameter,
  kBuffer,
  kTensorConstant,
  kConstantInput,
  kCustomObj
};
enum class OutputKind : uint8_t {
  kUserOutput,
  kBufferMutation,
  kParameterMutation,
  kUserInputMutation,
  kLossOutput,
  kGradientToParameter,
  kGradientToUserInput,
};
const char* Name(InputKind kind);
const char* Name(OutputKind kind);

struct InputSpec {
  InputKind kind = InputKind::kUserInput;
  Arg arg;                 // the graph value; for kConstantInput the constant itself
  std::string target;      // parameter, buffer or constant: its fully qualified name in the weights
  bool persistent = true;  // buffers: in the state dict
  // kUserInput, kConstantInput: where it sits in the call: `x`, `d.q.x`, `l.0`.
  std::string path;
};

struct OutputSpec {
  OutputKind kind = OutputKind::kUserOutput;
  Arg arg;  // the graph value, or a constant
  std::string
      target;  // mutations and gradients: buffer or parameter name; user inputs: the placeholder's name
  // kUserOutput: where it sits in the result: `logits` and `past.0.k` of a dict, `out.0` of a tuple, `out` alone.
  std::string path;
};

struct Range {
  std::optional<int64_t> lo, hi;  // nullopt: unbounded
};

struct SchemaVersion { int64_t major = 0, minor = 0; };

struct Program {
  Graph graph;
  std::vector<InputSpec> input_specs;
  std::vector<OutputSpec> output_specs;
  std::map<std::string, Range, std::less<>>
      range_constraints;                       // a key may be an expression: "4*s6"
  std::vector<std::string> guards_code;        // Python: `L['x'].size()[0] % 4 == 0`
  std::vector<std::string> forward_arg_names;  // empty where the export has none
  std::map<std::string, int64_t, std::less<>> opset_version;
  std::string dialect;  // "TRAINING", "ATEN", "EDGE"; empty where the export names none
  std::string torch_version;
  SchemaVersion schema_version;
};

// `text` is models/model.json. Refuses a schema major other than 8, tokens, and argument kinds it does not know,
// naming the place in the JSON and, inside a graph, the node.
Result<Program> ParseProgram(std::string_view text);

}  // namespace liveshape::pt2
