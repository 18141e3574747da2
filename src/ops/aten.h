// How ATen targets become canonical ops. Each op's folder lists the targets it serves:
//
//   std::vector<ValueId> Softmax(AtenCall& c) {
//     ValueId x = c.Tensor("self");
//     return {c.Emit(kSoftmax, {x}, {{"dim", c.Axis("dim", c.Rank(x))}, {"all_masked", "nan"}})};
//   }
//   const AtenForm kForms[] = {{"aten.softmax.int", Softmax}, {"aten._softmax.default", Softmax}};
//
// The first error sticks: later calls do nothing, so a form needs no checks of its own and the importer
// reports the node once. Arguments are asked for by the name in ATen's schema; an argument that the
// exporter gave and nobody asked for is an error, so no option is ever ignored in silence.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace liveshape::ops {

using ir::Dims;
using ir::PwOp;
using ir::ValueId;
using sym::Expr;

// std::monostate is None. A tensor list has kNoValue for None.
using AtenValue =
    std::variant<std::monostate, ValueId, std::vector<ValueId>, Expr, std::vector<Expr>, double,
                 bool, std::string, DType, std::vector<double>>;

// Torch calls what is born from data u0, u1, ...; a symbol of any other name enters with an input.
inline bool IsUnbacked(std::string_view symbol) { return symbol.starts_with('u'); }
// Whether nothing in `graph` gives this unbacked symbol its value yet.
bool AwaitsData(const ir::Graph& graph, uint32_t symbol);

class AtenCall {
 public:
  AtenCall(ir::Graph& graph, std::string target, std::string name, std::string source,
           std::map<std::string, AtenValue, std::less<>> args);

  const std::string& target() const { return target_; }
  sym::Table& table() { return graph_.table(); }
  ir::Graph& graph() { return graph_; }
  const Status& status() const { return status_; }
  void Fail(Status status);
  bool ok() const { return status_.ok(); }
  // Names that were given (not None) and never asked for.
  std::vector<std::string> Unread() const;

  // Arguments. The versions with a default serve omitted and None arguments.
  bool Given(std::string_view arg) const;  // present and not None; does not count as asking
  ValueId Tensor(std::string_view arg);
  ValueId OptionalTensor(std::string_view arg);  // kNoValue if None
  std::vector<ValueId> Tensors(std::string_view arg);
  Expr Size(std::string_view arg);
  Expr SizeOr(std::string_view arg, Expr otherwise);
  std::vector<Expr> Sizes(std::string_view arg);
  int64_t Int(std::string_view arg);
  int64_t IntOr(std::string_view arg, int64_t otherwise);
  std::vector<int64_t> IntsOr(std::string_view arg, std::vector<int64_t> otherwise);
  double NumberOr(std::string_view arg, double otherwise);
  std::vector<double> NumbersOr(std::string_view arg, std::vector<double> otherwise);
  bool BoolOr(std::string_view arg, bool otherwise);
  std::string StringOr(std::string_view arg, std::string otherwise);
  DType TypeOr(std::string_view arg, DType otherwise);
  void Ignore(std::initializer_list<std::string_view> args);  // legal and without effect here
  // A dim argument, wrapped to [0, rank); a rank of 0 counts as 1, as torch does.
  int64_t Axis(std::string_view arg, int64_t rank);
  int64_t AxisOr(std::string_view arg, int64_t rank, int64_t otherwise);
  int64_t WrapAxis(int64_t axis, int64_t rank);

  // How many times a form repeats itself, as an argument or a size of the program says: an error beyond what any
  // program has, so that the work of an import is in proportion to the file. False after an error.
  bool Repeats(int64_t count, std::string_view what);

  // Facts.
  // The dims that the exporter stored for output i, where it stored any: only to resolve what the
  // arguments leave open (a -1 whose quotient cannot be proven exact).
  void SetExportedDims(std::vector<Dims> dims) { exported_ = std::move(dims); }
  const Dims* ExportedDims(size_t i) const {
    return i < exported_.size() ? &exported_[i] : nullptr;
  }
  const ir::TensorType& Type(ValueId v) const;
  const Dims& DimsOf(ValueId v) const { return Type(v).dims; }
  Expr DimOf(ValueId v, int64_t dim);  // an error where there is none, and 0 after an error
  int64_t Rank(ValueId v) const { return static_cast<int64_t>(DimsOf(v).size()); }
  DType TypeOf(ValueId v) const { return Type(v).dtype; }

  // Nodes.
  ValueId Emit(const ir::OpDef& op, std::vector<ValueId> inputs, ir::Attrs attrs = {});
  // All outputs of the node; empty after an error.
  std::vector<ValueId> EmitAll(const ir::OpDef& op, std::vector<ValueId> inputs, ir::Attrs attrs);
  ValueId Reshape(ValueId x, Dims sizes);  // x itself where nothing changes, as all of these
  ValueId Permute(ValueId x, std::vector<int64_t> perm);
  ValueId Transpose(ValueId x, int64_t a, int64_t b);
  ValueId Slice(ValueId x, int64_t dim, Expr start, Expr length, int64_t step = 1);
  ValueId Expand(ValueId x, const Dims& sizes);
  ValueId Unsqueeze(ValueId x, int64_t dim);
  ValueId Cast(ValueId x, DType dtype);
  ValueId Full(const Dims& dims, DType dtype, double value);
  ValueId FullInt(const Dims& dims, DType dtype, Expr value);

  // Pointwise on operands of any dims: broadcast, promoted as torch does, one instruction.
  struct Operand {
    ValueId tensor = ir::kNoValue;  // or a Python number:
    Expr integer = {};              // or a symbolic float
    double number = 0;
    bool boolean = false;
    DType dtype = DType::kF32;  // of the tensor; i64, f32 or bool of a number
    bool is_number() const { return tensor == ir::kNoValue; }
  };
  Operand Arg(std::string_view arg);  // a tensor or a Scalar
  Operand Of(ValueId tensor) const;
  Operand Number(double value) const;
  Operand Number(Expr value) const;
  DType Promote(const std::vector<Operand>& operands) const;
  ValueId Filled(const Dims& dims, DType dtype,
                 const Operand& value);  // expanded if it is a tensor
  // `compute`: dtype the operands are cast to; `result`: dtype of the instruction.
  ValueId Pointwise(PwOp op, const std::vector<Operand>& operands, DType compute, DType result);
  ValueId Unary(PwOp op, ValueId x);  // dtype kept; integers become f32 for float-only ops
  ValueId Binary(PwOp op, Operand a, Operand b);  // promoted; comparisons give bool

  // A size that only data knows: the element of the 0-d `count` becomes the value of the exporter's symbol
  // (`exported`), at most `limit` where one is known. An `exported` that is no new symbol is the exporter's
  // claim about the data, which the op that makes the tensor checks.
  Expr SizeFrom(ValueId count, Expr exported, Expr limit);
  void GiveSymbol(uint32_t symbol, ValueId value);  // the value is 0-d; kItem

  // Sizes for which torch would refuse though the shape rules of the nodes that are built would not: an error
  // here, or a guard. `text` says what is wrong where the condition fails.
  void Require(Expr condition, const std::string& text);

  // The dims both broadcast to; a pair of different expressions is required to be equal.
  Dims Broadcast(const Dims& a, const Dims& b);

 private:
  const AtenValue* Ask(std::string_view arg);
  uint32_t Materialise(const Operand& operand, DType compute, const Dims& dims,
                       ir::PointwiseProgram& p, std::vector<ValueId>& inputs);

  ir::Graph& graph_;
  std::string target_, name_, source_;
  std::map<std::string, AtenValue, std::less<>> args_;
  std::map<std::string, bool, std::less<>> asked_;
  std::vector<Dims> exported_;
  Status status_;
};

struct AtenForm {
  const char* target;                             // "aten.softmax.int"
  std::vector<ValueId> (*build)(AtenCall& call);  // one value an output of the target
  // The result may share the storage of the first argument (a view, a `to` that changes nothing): a write
  // to one is then seen through the other. Whether it does follows from the nodes that were built.
  bool aliases = false;
};

// `base` with `source` written where `view` (made of `base` by view nodes) lies; broadcast and cast as a
// copy_ does. Used by the scatter forms and by functionalisation.
ValueId WriteThroughView(AtenCall& c, ValueId base, ValueId view, ValueId source);

// Every op's forms, gathered by ops/table.cc.
const AtenForm* FindForm(std::string_view target);
std::vector<const AtenForm*> AllForms();

}  // namespace liveshape::ops
