#include "sym/evaluate.h"

#include <algorithm>

namespace liveshape::sym {
namespace {

// Beyond these a tree walk could be exponential (shared parts) or deep; then every node is
// evaluated once, in order.
constexpr uint32_t kMaxTreeSize = 4096;
constexpr uint32_t kMaxDepth = 256;

// `get` gives an argument's value. Only the chosen side of a select, and only the deciding part of
// and/or, is asked for, so a fault elsewhere does not matter.
template <typename Get>
Value EvaluateNode(const Node& node, std::span<const int64_t> symbol_values, Get&& get) {
  switch (node.kind) {
    case Kind::kInt:
    case Kind::kFloat: return {node.bits};
    case Kind::kSymbol:
      LS_CHECK(static_cast<size_t>(node.bits) < symbol_values.size());
      return {symbol_values[node.bits]};
    case Kind::kSelect: {
      const Value condition = get(node.args[0]);
      if (condition.fault != Fault::kNone) return condition;
      return get(node.args[condition.bits != 0 ? 1 : 2]);
    }
    case Kind::kAnd:
    case Kind::kOr:
      for (Expr arg : node.args) {
        const Value v = get(arg);
        if (v.fault != Fault::kNone) return v;
        if ((v.bits != 0) == (node.kind == Kind::kOr)) return {node.kind == Kind::kOr ? 1 : 0};
      }
      return {node.kind == Kind::kAnd ? 1 : 0};
    default: break;
  }
  Value result = get(node.args[0]);
  if (result.fault != Fault::kNone) return result;
  const bool floats = node.args[0].is_float_valued();
  size_t i = 1;
  do {
    const Value next = i < node.args.size() ? get(node.args[i]) : Value{};
    if (next.fault != Fault::kNone) return next;
    result = Apply(node.kind, floats, result, next);
    if (result.fault != Fault::kNone) {
      result.culprit = &node;
      return result;
    }
  } while (++i < node.args.size());
  return result;
}

Value EvaluateTree(const Node& node, std::span<const int64_t> symbol_values) {
  return EvaluateNode(node, symbol_values,
                      [&](Expr arg) { return EvaluateTree(*arg.node(), symbol_values); });
}

}  // namespace

Value Apply(Kind kind, bool float_operands, Value a, Value b) {
  Value r;
  double f = 0;
  const auto as_float = [&](Fault fault) {
    r = Value::Of(f);
    r.fault = fault;
    return r;
  };
  const auto relation = [&](bool ints, bool floats) {
    return Value{float_operands ? floats : ints};
  };
  switch (kind) {
    case Kind::kAdd: r.fault = AddInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kMul: r.fault = MulInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kPow: r.fault = PowInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kFloorDiv: r.fault = FloorDivInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kCeilDiv: r.fault = CeilDivInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kMod: r.fault = ModInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kMin: return {std::min(a.bits, b.bits)};
    case Kind::kMax: return {std::max(a.bits, b.bits)};
    case Kind::kEq: return relation(a.bits == b.bits, a.as_float() == b.as_float());
    case Kind::kNe: return relation(a.bits != b.bits, a.as_float() != b.as_float());
    case Kind::kLt: return relation(a.bits < b.bits, a.as_float() < b.as_float());
    case Kind::kLe: return relation(a.bits <= b.bits, a.as_float() <= b.as_float());
    case Kind::kAnd: return {a.bits != 0 && b.bits != 0};
    case Kind::kOr: return {a.bits != 0 || b.bits != 0};
    case Kind::kNot: return {a.bits == 0};
    case Kind::kBitAnd: return {a.bits & b.bits};
    case Kind::kBitOr: return {a.bits | b.bits};
    case Kind::kShiftLeft: r.fault = ShiftLeftInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kShiftRight: r.fault = ShiftRightInt(a.bits, b.bits, &r.bits); return r;
    case Kind::kToFloat: return Value::Of(static_cast<double>(a.bits));
    case Kind::kFloatAdd: return Value::Of(a.as_float() + b.as_float());
    case Kind::kFloatMul: return Value::Of(a.as_float() * b.as_float());
    case Kind::kFloatDiv: return as_float(DivFloat(a.as_float(), b.as_float(), &f));
    case Kind::kFloatPow: return as_float(PowFloat(a.as_float(), b.as_float(), &f));
    case Kind::kFloatSqrt: return as_float(SqrtFloat(a.as_float(), &f));
    case Kind::kIntTrueDiv: return as_float(TrueDivInt(a.bits, b.bits, &f));
    case Kind::kFloatMin: return Value::Of(std::min(a.as_float(), b.as_float()));
    case Kind::kFloatMax: return Value::Of(std::max(a.as_float(), b.as_float()));
    case Kind::kTruncToInt: r.fault = FloatToInt(std::trunc(a.as_float()), &r.bits); return r;
    case Kind::kFloorToInt: r.fault = FloatToInt(std::floor(a.as_float()), &r.bits); return r;
    case Kind::kCeilToInt: r.fault = FloatToInt(std::ceil(a.as_float()), &r.bits); return r;
    case Kind::kRoundToInt: r.fault = FloatToInt(std::nearbyint(a.as_float()), &r.bits); return r;
    case Kind::kInt:
    case Kind::kSymbol:
    case Kind::kFloat:
    case Kind::kSelect: break;
  }
  Panic(__FILE__, __LINE__, "sym: this kind has no operands to apply to");
}

Value EvaluateAt(const Node& node, std::span<const int64_t> symbol_values) {
  if (node.tree_size <= kMaxTreeSize && node.depth <= kMaxDepth)
    return EvaluateTree(node, symbol_values);
  std::unordered_map<const Node*, Value> values;
  for (const Node* each : TopologicalOrder(node.expr())) {
    values[each] =
        EvaluateNode(*each, symbol_values, [&](Expr arg) { return values.at(arg.node()); });
  }
  return values.at(&node);
}

Status FaultStatus(const Table& table, const Value& value, Expr whole,
                   std::span<const int64_t> symbol_values) {
  const Expr culprit = value.culprit ? value.culprit->expr() : whole;
  std::string message = fmt::format("`{}` {}", Abbreviated(culprit), FaultText(value.fault));
  if (culprit != whole) message += fmt::format(", in `{}`", Abbreviated(whole));
  const char* separator = " at ";
  for (uint32_t symbol : table.FreeSymbols(whole)) {
    message +=
        fmt::format("{}{}={}", separator, table.symbols()[symbol].name, symbol_values[symbol]);
    separator = ", ";
  }
  return Status(Code::kOutOfRange, std::move(message));
}

Result<int64_t> Table::Evaluate(Expr e, std::span<const int64_t> symbol_values) const {
  LS_CHECK(!e.is_float_valued());
  const Value v = EvaluateAt(*e.node(), symbol_values);
  if (v.fault != Fault::kNone) return FaultStatus(*this, v, e, symbol_values);
  return v.bits;
}

Result<double> Table::EvaluateFloat(Expr e, std::span<const int64_t> symbol_values) const {
  const Value v = EvaluateAt(*e.node(), symbol_values);
  if (v.fault != Fault::kNone) return FaultStatus(*this, v, e, symbol_values);
  return e.is_float_valued() ? v.as_float() : static_cast<double>(v.bits);
}

}  // namespace liveshape::sym
