#include "ops/aten.h"

#include <algorithm>
#include <bit>

#include "ops/ops.h"
#include "ops/pointwise/table.h"

namespace liveshape::ops {
namespace {

// 0 bool, 1 integer, 2 float: torch's promotion categories.
int Category(DType t) { return t == DType::kBool ? 0 : IsInteger(t) ? 1 : 2; }

// torch.promote_types for the dtypes we have.
DType PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  if (Category(a) != Category(b)) return Category(a) > Category(b) ? a : b;
  if (IsFloat(a)) {
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // f32 with a half, or the two halves with each other
  }
  auto rank = [](DType t) {
    switch (t) {
      case DType::kU8: return 0;
      case DType::kI8: return 1;
      case DType::kI16: return 2;
      case DType::kI32: return 3;
      default: return 4;
    }
  };
  if ((a == DType::kU8 && b == DType::kI8) || (a == DType::kI8 && b == DType::kU8))
    return DType::kI16;
  return rank(a) > rank(b) ? a : b;
}

// torch's combine_categories: an operand of lower priority only lifts the category.
std::optional<DType> Combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || IsFloat(*higher)) return higher;
  if (*higher == DType::kBool || IsFloat(*lower)) return PromoteTypes(*higher, *lower);
  return higher;
}

void Accumulate(std::optional<DType>& into, DType t) { into = into ? PromoteTypes(*into, t) : t; }

// The bits of a kConst: a number as torch writes it into `dtype`. Integers wrap (-1 is 255 of u8), and of bool
// anything but 0 is true.
int64_t ConstantBits(DType dtype, int64_t value) {
  switch (dtype) {
    case DType::kI64: return value;
    case DType::kI32: return static_cast<int32_t>(value);
    case DType::kI16: return static_cast<int16_t>(value);
    case DType::kI8: return static_cast<int8_t>(value);
    case DType::kU8: return static_cast<uint8_t>(value);
    case DType::kBool: return value != 0;
    default: return std::bit_cast<int64_t>(static_cast<double>(value));
  }
}

int64_t ConstantBits(DType dtype, double value) {
  if (IsFloat(dtype)) return std::bit_cast<int64_t>(value);
  if (dtype == DType::kBool) return value != 0;
  return ConstantBits(dtype, static_cast<int64_t>(value));
}

}  // namespace

AtenCall::AtenCall(ir::Graph& graph, std::string target, std::string name, std::string source,
                   std::map<std::string, AtenValue, std::less<>> args)
    : graph_(graph),
      target_(std::move(target)),
      name_(std::move(name)),
      source_(std::move(source)),
      args_(std::move(args)) {}

void AtenCall::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

std::vector<std::string> AtenCall::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : args_)
    if (!std::holds_alternative<std::monostate>(value) && !asked_.contains(name))
      names.push_back(name);
  return names;
}

bool AtenCall::Given(std::string_view arg) const {
  auto it = args_.find(arg);
  return it != args_.end() && !std::holds_alternative<std::monostate>(it->second);
}

const AtenValue* AtenCall::Ask(std::string_view arg) {
  asked_[std::string(arg)] = true;
  auto it = args_.find(arg);
  if (it == args_.end() || std::holds_alternative<std::monostate>(it->second)) return nullptr;
  return &it->second;
}

void AtenCall::Ignore(std::initializer_list<std::string_view> args) {
  for (std::string_view arg : args) Ask(arg);
}

ValueId AtenCall::Tensor(std::string_view arg) {
  const AtenValue* v = Ask(arg);
  if (v && std::holds_alternative<ValueId>(*v)) return std::get<ValueId>(*v);
  Fail(InvalidArgument("argument `{}` should be a tensor", arg));
  return ir::kNoValue;
}

ValueId AtenCall::OptionalTensor(std::string_view arg) {
  return Given(arg) ? Tensor(arg) : (Ask(arg), ir::kNoValue);
}

std::vector<ValueId> AtenCall::Tensors(std::string_view arg) {
  const AtenValue* v = Ask(arg);
  if (v && std::holds_alternative<std::vector<ValueId>>(*v))
    return std::get<std::vector<ValueId>>(*v);
  Fail(InvalidArgument("argument `{}` should be a list of tensors", arg));
  return {};
}

Expr AtenCall::Size(std::string_view arg) {
  const AtenValue* v = Ask(arg);
  if (v && std::holds_alternative<Expr>(*v)) return std::get<Expr>(*v);
  if (v && std::holds_alternative<bool>(*v)) return table().Int(std::get<bool>(*v));
  Fail(InvalidArgument("argument `{}` should be an integer", arg));
  return table().Int(0);
}

Expr AtenCall::SizeOr(std::string_view arg, Expr otherwise) {
  return Given(arg) ? Size(arg) : (Ask(arg), otherwise);
}

std::vector<Expr> AtenCall::Sizes(std::string_view arg) {
  const AtenValue* v = Ask(arg);
  if (v && std::holds_alternative<std::vector<Expr>>(*v)) return std::get<std::vector<Expr>>(*v);
  if (v && std::holds_alternative<Expr>(*v)) return {std::get<Expr>(*v)};
  Fail(InvalidArgument("argument `{}` should be a list of integers", arg));
  return {};
}

int64_t AtenCall::Int(std::string_view arg) {
  Expr e = Size(arg);
  if (e.is_int()) return e.value();
  Fail(Unsupported("argument `{}` is `{}`, but must be a constant here", arg, sym::ToString(e)));
  return 0;
}

int64_t AtenCall::IntOr(std::string_view arg, int64_t otherwise) {
  return Given(arg) ? Int(arg) : (Ask(arg), otherwise);
}

std::vector<int64_t> AtenCall::IntsOr(std::string_view arg, std::vector<int64_t> otherwise) {
  if (!Given(arg)) return Ask(arg), otherwise;
  std::vector<int64_t> ints;
  for (Expr e : Sizes(arg)) {
    if (!e.is_int()) Fail(Unsupported("argument `{}` must be constants here", arg));
    ints.push_back(e.is_int() ? e.value() : 0);
  }
  return ints;
}

double AtenCall::NumberOr(std::string_view arg, double otherwise) {
  const AtenValue* v = Ask(arg);
  if (!v) return otherwise;
  if (auto* d = std::get_if<double>(v)) return *d;
  if (auto* b = std::get_if<bool>(v)) return *b;
  if (auto* e = std::get_if<Expr>(v); e && e->is_int()) return static_cast<double>(e->value());
  Fail(Unsupported("argument `{}` must be a constant number here", arg));
  return otherwise;
}

std::vector<double> AtenCall::NumbersOr(std::string_view arg, std::vector<double> otherwise) {
  const AtenValue* v = Ask(arg);
  if (!v) return otherwise;
  if (auto* list = std::get_if<std::vector<double>>(v)) return *list;
  Fail(InvalidArgument("argument `{}` should be a list of numbers", arg));
  return otherwise;
}

bool AtenCall::BoolOr(std::string_view arg, bool otherwise) {
  const AtenValue* v = Ask(arg);
  if (!v) return otherwise;
  if (auto* b = std::get_if<bool>(v)) return *b;
  if (auto* e = std::get_if<Expr>(v); e && e->is_int()) return e->value() != 0;
  Fail(InvalidArgument("argument `{}` should be a bool", arg));
  return otherwise;
}

std::string AtenCall::StringOr(std::string_view arg, std::string otherwise) {
  const AtenValue* v = Ask(arg);
  if (!v) return otherwise;
  if (auto* s = std::get_if<std::string>(v)) return *s;
  Fail(InvalidArgument("argument `{}` should be a string", arg));
  return otherwise;
}

DType AtenCall::TypeOr(std::string_view arg, DType otherwise) {
  const AtenValue* v = Ask(arg);
  if (!v) return otherwise;
  if (auto* t = std::get_if<DType>(v)) return *t;
  Fail(InvalidArgument("argument `{}` should be a dtype", arg));
  return otherwise;
}

int64_t AtenCall::WrapAxis(int64_t axis, int64_t rank) {
  const int64_t span = std::max<int64_t>(rank, 1);
  if (axis < -span || axis >= span) {
    Fail(InvalidArgument("dim {} is out of range for rank {}", axis, rank));
    return 0;
  }
  return axis < 0 ? axis + span : axis;
}

int64_t AtenCall::Axis(std::string_view arg, int64_t rank) { return WrapAxis(Int(arg), rank); }

int64_t AtenCall::AxisOr(std::string_view arg, int64_t rank, int64_t otherwise) {
  return WrapAxis(IntOr(arg, otherwise), rank);
}

bool AtenCall::Repeats(int64_t count, std::string_view what) {
  constexpr int64_t kMost = 1 << 14;
  if (count < 0 || count > kMost)
    Fail(InvalidArgument("{} {}: must be in [0, {}]", count, what, kMost));
  return ok();
}

const ir::TensorType& AtenCall::Type(ValueId v) const {
  static const ir::TensorType kScalar;  // what an erroneous call sees; its result is thrown away
  return v == ir::kNoValue ? kScalar : graph_.type(v);
}

Expr AtenCall::DimOf(ValueId v, int64_t dim) {
  const Dims& dims = DimsOf(v);
  if (dim < 0 || dim >= Rank(v))
    Fail(InvalidArgument("dim {} of a tensor of rank {}", dim, Rank(v)));
  return ok() ? dims[static_cast<size_t>(dim)] : table().Int(0);
}

ValueId AtenCall::Emit(const ir::OpDef& op, std::vector<ValueId> inputs, ir::Attrs attrs) {
  const std::vector<ValueId> outputs = EmitAll(op, std::move(inputs), std::move(attrs));
  return outputs.empty() ? ir::kNoValue : outputs.front();
}

std::vector<ValueId> AtenCall::EmitAll(const ir::OpDef& op, std::vector<ValueId> inputs,
                                       ir::Attrs attrs) {
  if (!ok()) return {};
  auto outputs = graph_.AddNode(op, std::move(inputs), std::move(attrs), name_, source_);
  if (outputs.ok()) return *std::move(outputs);
  Fail(std::move(outputs).status());
  return {};
}

ValueId AtenCall::Reshape(ValueId x, Dims sizes) {
  if (!ok() || DimsOf(x) == sizes) return x;
  return Emit(kReshape, {x}, {{"sizes", std::move(sizes)}});
}

ValueId AtenCall::Permute(ValueId x, std::vector<int64_t> perm) {
  if (std::is_sorted(perm.begin(), perm.end())) return x;
  return Emit(kPermute, {x}, {{"perm", std::move(perm)}});
}

ValueId AtenCall::Transpose(ValueId x, int64_t a, int64_t b) {
  std::vector<int64_t> perm(DimsOf(x).size());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  if (!perm.empty()) std::swap(perm[static_cast<size_t>(a)], perm[static_cast<size_t>(b)]);
  return Permute(x, std::move(perm));
}

ValueId AtenCall::Slice(ValueId x, int64_t dim, Expr start, Expr length, int64_t step) {
  if (!ok()) return ir::kNoValue;
  if (step == 1 && start.is_int(0) && length == DimOf(x, dim)) return x;
  return Emit(kSlice, {x},
              {{"dim", dim}, {"start", Dims{start}}, {"length", Dims{length}}, {"step", step}});
}

ValueId AtenCall::Expand(ValueId x, const Dims& sizes) {
  if (!ok() || DimsOf(x) == sizes) return x;
  return Emit(kExpand, {x}, {{"sizes", sizes}});
}

ValueId AtenCall::Unsqueeze(ValueId x, int64_t dim) {
  if (!ok()) return x;
  Dims sizes = DimsOf(x);
  sizes.insert(sizes.begin() + dim, table().Int(1));
  return Reshape(x, std::move(sizes));
}

ValueId AtenCall::Cast(ValueId x, DType dtype) {
  if (!ok() || TypeOf(x) == dtype) return x;
  ir::PointwiseProgram p;
  p.code.push_back({.op = PwOp::kLoad, .dtype = TypeOf(x), .imm = 0});
  p.code.push_back({.op = PwOp::kCast, .dtype = dtype, .a = 0});
  Dims dims = DimsOf(x);
  return Emit(kPointwise, {x}, {{"program", std::move(p)}, {"dims", std::move(dims)}});
}

ValueId AtenCall::Full(const Dims& dims, DType dtype, double value) {
  ir::PointwiseProgram p;
  p.code.push_back({.op = PwOp::kConst, .dtype = dtype, .imm = ConstantBits(dtype, value)});
  return Emit(kPointwise, {}, {{"program", std::move(p)}, {"dims", dims}});
}

ValueId AtenCall::FullInt(const Dims& dims, DType dtype, Expr value) {
  if (IsFloat(dtype) && value.is_int())
    return Full(dims, dtype, static_cast<double>(value.value()));
  ir::PointwiseProgram p;
  std::vector<ValueId> inputs;
  Materialise(Number(value), dtype, dims, p, inputs);
  return Emit(kPointwise, {}, {{"program", std::move(p)}, {"dims", dims}});
}

ValueId AtenCall::Filled(const Dims& dims, DType dtype, const Operand& value) {
  if (!value.is_number()) return Expand(Cast(value.tensor, dtype), dims);
  return value.integer ? FullInt(dims, dtype, value.integer) : Full(dims, dtype, value.number);
}

AtenCall::Operand AtenCall::Arg(std::string_view arg) {
  const AtenValue* v = Ask(arg);
  if (v) {
    if (auto* t = std::get_if<ValueId>(v)) return Of(*t);
    if (auto* d = std::get_if<double>(v)) return Number(*d);
    if (auto* e = std::get_if<Expr>(v)) return Number(*e);
    if (auto* b = std::get_if<bool>(v)) {
      Operand o = Number(table().Int(*b));
      o.dtype = DType::kBool;
      return o;
    }
  }
  Fail(InvalidArgument("argument `{}` should be a tensor or a number", arg));
  return Number(0.0);
}

AtenCall::Operand AtenCall::Of(ValueId tensor) const {
  return {.tensor = tensor, .dtype = TypeOf(tensor)};
}
AtenCall::Operand AtenCall::Number(double value) const {
  return {.number = value, .dtype = DType::kF32};
}
AtenCall::Operand AtenCall::Number(Expr value) const {
  return {.integer = value, .dtype = value.is_float_valued() ? DType::kF32 : DType::kI64};
}

DType AtenCall::Promote(const std::vector<Operand>& operands) const {
  std::optional<DType> with_dims, zero_dim, numbers;
  for (const Operand& o : operands)
    Accumulate(o.is_number() ? numbers : DimsOf(o.tensor).empty() ? zero_dim : with_dims, o.dtype);
  return Combine(Combine(with_dims, zero_dim), numbers).value_or(DType::kF32);
}

// Appends the instructions that yield `operand` as `compute`; returns the index of the last one.
uint32_t AtenCall::Materialise(const Operand& operand, DType compute, const Dims& dims,
                               ir::PointwiseProgram& p, std::vector<ValueId>& inputs) {
  auto push = [&](ir::PwInstr instr) {
    p.code.push_back(instr);
    return static_cast<uint32_t>(p.code.size() - 1);
  };
  auto cast = [&](uint32_t from) {
    return p.code[from].dtype == compute ? from
                                         : push({.op = PwOp::kCast, .dtype = compute, .a = from});
  };
  if (!operand.is_number()) {
    inputs.push_back(Expand(operand.tensor, dims));
    return cast(push({.op = PwOp::kLoad,
                      .dtype = operand.dtype,
                      .imm = static_cast<int64_t>(inputs.size()) - 1}));
  }
  if (!operand.integer || operand.integer.is_int()) {
    const int64_t bits = operand.integer ? ConstantBits(compute, operand.integer.value())
                                         : ConstantBits(compute, operand.number);
    return push({.op = PwOp::kConst, .dtype = compute, .imm = bits});
  }
  p.scalars.push_back(operand.integer);
  // A float is rounded once, from double to what the tensor has.
  const DType dtype = !operand.integer.is_float_valued() ? DType::kI64
                      : IsFloat(compute)                 ? compute
                                                         : DType::kF64;
  return cast(push(
      {.op = PwOp::kScalar, .dtype = dtype, .imm = static_cast<int64_t>(p.scalars.size()) - 1}));
}

ValueId AtenCall::Pointwise(PwOp op, const std::vector<Operand>& operands, DType compute,
                            DType result) {
  // torch multiplies and divides halves by a 0-d tensor as by a number: in f32, where it comes second.
  const bool half = compute == DType::kF16 || compute == DType::kBF16;
  if (half && KeepsNumberWide(op, 1) && !operands[1].is_number() && operands[1].dtype != compute &&
      ok() && Rank(operands[1].tensor) == 0)
    return Cast(Pointwise(op, operands, DType::kF32, DType::kF32), result);
  if (!ok()) return ir::kNoValue;
  Dims dims;
  for (const Operand& o : operands)
    if (!o.is_number()) dims = Broadcast(dims, DimsOf(o.tensor));
  ir::PointwiseProgram p;
  std::vector<ValueId> inputs;
  ir::PwInstr instr{.op = op, .dtype = result};
  uint32_t* slots[] = {&instr.a, &instr.b, &instr.c};
  for (size_t i = 0; i < operands.size(); ++i) {
    const DType want = op == PwOp::kWhere && i == 0 ? DType::kBool : compute;
    *slots[i] = Materialise(operands[i], want, dims, p, inputs);
  }
  p.code.push_back(instr);
  return Emit(kPointwise, std::move(inputs),
              {{"program", std::move(p)}, {"dims", std::move(dims)}});
}

ValueId AtenCall::Unary(PwOp op, ValueId x) {
  DType t = TypeOf(x);
  if (!Accepts(Facts(op), t)) t = DType::kF32;
  return Pointwise(op, {Of(x)}, t, t);
}

ValueId AtenCall::Binary(PwOp op, Operand a, Operand b) {
  const DType t = Promote({a, b});
  const bool compares = op >= PwOp::kEq && op <= PwOp::kGe;
  return Pointwise(op, {a, b}, t, compares ? DType::kBool : t);
}

bool AwaitsData(const ir::Graph& graph, uint32_t symbol) {
  return IsUnbacked(graph.table().symbols()[symbol].name) &&
         std::ranges::none_of(graph.host_values,
                              [&](const auto& h) { return h.symbol == symbol; }) &&
         std::ranges::none_of(graph.nodes, [&](const ir::Node& node) {
           return node.op->gives_symbol && node.Int("symbol") == symbol;
         });
}

void AtenCall::GiveSymbol(uint32_t symbol, ValueId value) {
  if (!ok()) return;
  table().SetStage(symbol, 2);  // at least; passes/order_by_stage.cc has the last word
  auto made =
      graph_.AddNode(kItem, {value}, {{"symbol", static_cast<int64_t>(symbol)}}, name_, source_);
  if (!made.ok()) Fail(std::move(made).status());
}

Expr AtenCall::SizeFrom(ValueId count, Expr exported, Expr limit) {
  if (!ok()) return {};
  if (!exported) {
    Fail(Unsupported("the export does not say what the size of the result is called"));
    return {};
  }
  if (!exported.is_symbol() || !AwaitsData(graph_, exported.symbol())) return exported;
  const uint32_t symbol = exported.symbol();
  const sym::SymbolInfo& info = table().symbols()[symbol];
  const int64_t lo = std::max<int64_t>(info.lo, 0);
  const int64_t hi = limit ? std::min(info.hi, table().Bounds(limit).hi) : info.hi;
  if (lo > hi) {
    Fail(InvalidArgument("`{}` is at least {}, but at most {} elements are there", info.name, lo,
                         hi));
    return {};
  }
  table().NarrowSymbol(symbol, lo, hi);
  GiveSymbol(symbol, count);
  return exported;
}

void AtenCall::Require(Expr condition, const std::string& text) {
  if (!ok()) return;
  const sym::Tri holds = table().IsTrue(condition);
  if (holds == sym::Tri::kNo) return Fail(InvalidArgument("{}", text));
  if (holds == sym::Tri::kYes) return;
  const std::string place = source_.empty() ? "" : ", " + source_;
  graph_.guards.push_back(
      {condition, fmt::format("node `{}` ({}{}): {}", name_, target_, place, text)});
}

Dims AtenCall::Broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Expr& d = dims[lead + i];
    const Expr e = shorter[i];
    if (d == e) continue;
    if (ir::Broadcasts(d) && ir::Broadcasts(e)) {
      d = sym::Min(d, e);
      continue;
    }
    const auto [narrow, wide] = ir::Broadcasts(d) ? std::pair(d, e) : std::pair(e, d);
    Require(ir::CanExpand(narrow, wide), fmt::format("sizes `{}` and `{}` do not broadcast",
                                                     sym::ToString(d), sym::ToString(e)));
    d = wide;
  }
  return dims;
}

}  // namespace liveshape::ops
