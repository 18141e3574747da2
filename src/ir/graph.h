// The graph: a list of nodes in topological order over SSA values whose dims are expressions.
//
//   ir::Graph graph;                                    // owns its sym::Table
//   sym::Expr s = graph.table().Symbol({.name = "s0", .lo = 1, .hi = 128});
//   ir::ValueId x = graph.AddInput("x", {DType::kF32, {s, graph.table().Int(64)}});
//   LS_ASSIGN_OR_RETURN(auto y, graph.AddNode(ops::kSoftmax, {x}, {{"dim", 1}, {"all_masked", "nan"}}));
//   graph.outputs.push_back({.name = "y", .value = y[0]});
//
// Everything the graph writes in place is a State: its value at the start of a run is an ordinary value,
// the value it has afterwards is named by State::result. Nodes are pure; the planner decides what is
// done in place. Integer scalars (SymInt) are not values: they are expressions.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "ir/dtype.h"
#include "ir/pointwise.h"
#include "sym/expr.h"

namespace liveshape::ir {

using sym::Expr;
using Dims = std::vector<Expr>;
using ValueId = uint32_t;
inline constexpr ValueId kNoValue = ~0u;  // an optional input that is absent

struct TensorType {
  DType dtype = DType::kF32;
  Dims dims = {};
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

struct OpDef;  // ir/op.h

// An attribute. Flags and dtypes are int64. Expressions are evaluated by the shape program and reach
// kernels as numbers.
using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<Expr>,
                          PointwiseProgram>;
using Attrs = std::vector<std::pair<std::string, Attr>>;

struct Node {
  const OpDef* op = nullptr;
  std::string name = {};             // torch's name of the node it came from: for people
  std::string source = {};           // "model.py:31" where known
  std::vector<ValueId> inputs = {};  // kNoValue where an optional input is absent
  std::vector<ValueId> outputs = {};
  Attrs attrs = {};

  const Attr* Find(std::string_view attr) const;
  // The attribute must exist with that type: shape rules and importers have made sure.
  int64_t Int(std::string_view attr) const;
  double Float(std::string_view attr) const;
  const std::string& String(std::string_view attr) const;
  const std::vector<int64_t>& Ints(std::string_view attr) const;
  const std::vector<Expr>& Exprs(std::string_view attr) const;
  const PointwiseProgram& Program() const;  // attribute "program"
  int64_t IntOr(std::string_view attr, int64_t otherwise) const;
  bool Has(std::string_view attr) const { return Find(attr) != nullptr; }
  void Set(std::string_view attr, Attr value);  // adds or replaces
};

// "node `softmax_3` (softmax, model.py:31)": how a message names a node.
std::string Describe(const Node& node);

enum class Origin : uint8_t { kNode, kInput, kConstant, kState };

struct Value {
  std::string name = {};
  TensorType type = {};
  Origin origin = Origin::kNode;
  uint32_t index = 0;  // into inputs, constants or states; for kNode see Graph::ProducerOf
};

// A graph input: a tensor, or an integer (SymInt) that names a symbol.
struct Input {
  std::string name = {};     // nested names are joined by dots: "past.0.key"
  ValueId value = kNoValue;  // tensor, or
  Expr scalar = {};          // integer: the symbol (or a constant the caller must repeat)
  bool used = true;          // an unused input is accepted and checked, not read
};

struct Output {
  std::string name = {};
  ValueId value = kNoValue;  // tensor, or
  Expr scalar = {};          // integer
};

// How a constant's elements are encoded and arranged; both are part of the artifact (append only). The
// quantised ones are of matrices of a float dtype, in kPanel16 (ops/linear/quantised.h): 32 elements of a
// row share an f16 scale.
enum class Encoding : uint8_t { kPlain = 0, kQ8SymG32 = 1, kQ4SymG32 = 2 };
enum class ConstantLayout : uint8_t {
  kPlain = 0,    // row-major, contiguous
  kPanel16 = 1,  // [rows/16 rounded up][cols][16], zero-padded: what the CPU's matmul streams
};
const char* Name(Encoding encoding);      // "plain", "q8_sym_g32", "q4_sym_g32"
const char* Name(ConstantLayout layout);  // "plain", "panel16"

// Bytes are borrowed from `owner` (a mapped file, a buffer), never copied while a graph is edited.
struct Constant {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<int64_t> dims = {};
  Encoding encoding = Encoding::kPlain;
  ConstantLayout layout = ConstantLayout::kPlain;
  std::span<const std::byte> data = {};
  std::shared_ptr<const void> owner = {};
  std::string external = {};  // non-empty: given at load under this name, `data` is empty
  ValueId value = kNoValue;

  // Not dense elements of its dtype: read only through an input that its op declares as packed_input.
  bool packed() const { return encoding != Encoding::kPlain || layout != ConstantLayout::kPlain; }
};

// Bytes that a constant's data must have in its encoding and layout; none if it cannot be stored so (kPanel16
// is for matrices), or no memory could hold it.
std::optional<size_t> StoredBytes(const Constant& constant);
// The same for a dense row-major tensor.
std::optional<size_t> DenseBytes(DType dtype, std::span<const int64_t> dims);

struct State {
  std::string name = {};
  DType dtype = DType::kF32;
  std::vector<int64_t> dims = {};           // its capacity
  std::span<const std::byte> initial = {};  // row-major, contiguous
  std::shared_ptr<const void> owner = {};
  ValueId value = kNoValue;   // at the start of a run
  ValueId result = kNoValue;  // after it; == value if the graph only reads it
};

// An integer that is data to torch but known before the first kernel: element `element` (flat, row-major)
// of an integer input or state. It is a symbol of stage 1.
struct HostValue {
  uint32_t symbol = 0;
  Origin source = Origin::kInput;  // kInput or kState
  uint32_t index = 0;              // into inputs or states
  Expr element = {};               // over stage-0 symbols
};

// Must hold at a live shape; the text is what the user sees where it does not: "the program requires S % 4 == 0".
struct Guard {
  Expr condition = {};
  std::string text = {};
};

class Graph {
 public:
  Graph() : table_(std::make_unique<sym::Table>()) {}

  sym::Table& table() const { return *table_; }

  ValueId AddInput(std::string name, TensorType type);
  void AddScalarInput(std::string name, Expr scalar);
  ValueId AddConstant(Constant constant);
  ValueId AddState(State state);
  ValueId AddValue(std::string name, TensorType type);  // to be produced by a node

  // Appends a node; output types come from the op's shape rule. The builder of every pass and importer.
  Result<std::vector<ValueId>> AddNode(const OpDef& op, std::vector<ValueId> inputs, Attrs attrs,
                                       std::string name = {}, std::string source = {});

  const Value& value(ValueId id) const { return values[id]; }
  const TensorType& type(ValueId id) const { return values[id].type; }

  // Index of the node that makes each value (kNoNode for inputs, constants, states), and the users of
  // each value; recomputed on every call, so take them once per pass.
  static constexpr uint32_t kNoNode = ~0u;
  std::vector<uint32_t> Producers() const;
  std::vector<std::vector<uint32_t>> Users() const;  // node indices, ascending, no repeats
  // Replaces uses of values (in nodes, outputs and state results) by `map[value]`, kNoValue = keep.
  // Chains in the map are followed.
  void ReplaceUses(std::span<const ValueId> map);
  // Every expression of a node: its outputs' dims and what its attributes hold.
  void ForEachExpr(const Node& node, const std::function<void(Expr)>& visit) const;

  std::string name;
  std::deque<Value> values;  // references to dims outlive the nodes that are added after them
  std::vector<Node> nodes;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Constant> constants;
  std::vector<State> states;
  std::vector<HostValue> host_values;
  std::vector<Guard> guards;

 private:
  std::unique_ptr<sym::Table> table_;
};

// Every invariant: ids in range, topological order, one producer a value, shape rules agree with the
// stored dims, attributes complete. Run after import, after each pass in tests, and on load.
Status Verify(const Graph& graph);

// What no proof decides of what `node` asks of its sizes: what its shape rule requires, that its outputs' dims are
// as the rule gives them and not negative. Adds to `requirements` what is not there.
Status AddRequirements(const Graph& graph, const Node& node, std::vector<Guard>& requirements);
// All that must hold at a live shape and is not proven: what nodes ask of sizes, and the program's guards. It is
// derived, never stored: what an artifact leaves out is checked all the same.
Result<std::vector<Guard>> Requirements(const Graph& graph);
// What a listing shows of them: of a graph with a node that no shape serves, the program's guards alone.
std::vector<Guard> ListedGuards(const Graph& graph);

// One line a node: `%12 y: f32[s0, 64] = softmax(%11) dim=1   # model.py:31`.
std::string Print(const Graph& graph);
std::string ToString(const TensorType& type);
std::string ToString(const Attr& attr);

}  // namespace liveshape::ir
