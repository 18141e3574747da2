// What an op is. Which ops exist is the business of src/ops (one folder an op, one table).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace liveshape::ir {

// What a shape rule sees: a node whose outputs are not typed yet, and its inputs' types (null where an
// optional input is absent).
struct InferContext {
  sym::Table& table;
  const Node& node;
  std::span<const TensorType* const> inputs;
  std::vector<Guard>* undecided = nullptr;  // null: nobody asks

  const TensorType& in(size_t i) const { return *inputs[i]; }
  bool has(size_t i) const { return i < inputs.size() && inputs[i] != nullptr; }

  // What the rule asks of sizes: an error where it provably fails; what no proof decides goes to `undecided`
  // (AddRequirements), so that kernels may rely on it either way. `text()` says what is wrong where it fails.
  template <class Text>
  Status Require(Expr condition, const Text& text) const {
    const sym::Tri holds = table.IsTrue(condition);
    if (holds == sym::Tri::kNo) return InvalidArgument("{}", text());
    if (holds != sym::Tri::kYes && undecided) undecided->push_back({condition, text()});
    return {};
  }
  template <class Text>
  Status RequireEqual(Expr a, Expr b, const Text& text) const {
    return a == b ? Status() : Require(sym::Eq(a, b), text);
  }
  template <class Text>
  Status RequireEqual(const Dims& a, const Dims& b, const Text& text) const {
    if (a.size() != b.size()) return InvalidArgument("{}", text());
    for (size_t i = 0; i < a.size(); ++i) LS_RETURN_IF_ERROR(RequireEqual(a[i], b[i], text));
    return {};
  }
};

// Where the elements of a value lie: element [i0, i1, ...] is at offset + sum(i * stride), in elements
// of its storage. Strides are expressions; an expanded dim has stride 0.
struct Layout {
  Dims strides;
  Expr offset;
};
Layout ContiguousLayout(sym::Table& table, const Dims& dims);
bool IsContiguous(const Layout& layout,
                  const Dims& dims);  // provably row-major and dense, from any offset

// A dim that can be no more than 1 broadcasts: its one element is repeated, and where it is 0 there is none to read.
// It need not be the constant 1: x[:1] has Min(S, 1). A larger one that merely is 1 now does not.
bool Broadcasts(Expr dim);
Expr CanExpand(Expr dim, Expr size);  // what `dim` must satisfy to be seen as `size`

// The value that `view` is made of by view nodes alone: itself if no view made it.
ValueId RootOfViews(const Graph& graph, std::span<const uint32_t> producers, ValueId view);
// Where `view` lies in its dense `base`, if it is reached from there by view nodes and strides can express
// each of them.
std::optional<Layout> LayoutInBase(const Graph& graph, std::span<const uint32_t> producers,
                                   ValueId base, ValueId view);

// What a node costs beyond the plain case of an op that counts no FLOPs and touches each operand once; a field
// that is none, and a read beyond the end of `reads`, is the plain case. plan/cost.h makes bytes of it (X6).
//
//   return {.flops = 2 * rows * columns * depth};              // linear
//   return {.reads = {rows * width}};                          // embedding: of the table, only these rows
struct Cost {
  Expr flops = {};               // as torch's FlopCounterMode counts; none: it counts nothing here
  Expr needed = {};              // of these, what the answer depends on (keys that are not masked)
  std::vector<Expr> reads = {};  // elements of input i that must be read; none: all
  // Of an op that takes over input in_place_input: elements of output 0 that change, and reads[in_place_input],
  // hold where it does; elsewhere all of that input is copied.
  Expr written_in_place = {};
};

struct OpDef {
  const char* name;

  // The shape rule: the one copy of this op's shape arithmetic. Also checks attributes and dtypes: what
  // it accepts, kernels may rely on. Errors are prefixed with the node by the caller.
  Result<std::vector<TensorType>> (*infer)(const InferContext& context);

  // A view: where output 0's elements lie given where input 0's do; none if they cannot be expressed
  // by strides (then the planner makes a copy). Null for an op that computes.
  std::optional<Layout> (*view)(const InferContext& context, const TensorType& output,
                                const Layout& input) = nullptr;

  // The output may take over this input's storage when nobody reads the old value later; the kernel
  // then writes only what changes (index_put into a KV cache). -1: never.
  int in_place_input = -1;

  // This input may be a packed constant (Constant::packed), which kernels read by row; in a quantised encoding
  // too where reads_quantised. -1: none. Everything else reads dense elements: ir::Verify refuses the rest.
  int packed_input = -1;
  bool reads_quantised = false;

  // Makes no tensor: gives the symbol of attribute `symbol` its value, the one element of input 0. Whatever
  // has that symbol in its sizes comes after it; the shape program is cut there.
  bool gives_symbol = false;

  // Null: the plain case.
  Cost (*cost)(const InferContext& context, const TensorType& output) = nullptr;
};

}  // namespace liveshape::ir
