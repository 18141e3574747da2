// One node applied to values. Private to sym/.
#pragma once

#include <bit>
#include <span>

#include "sym/arith.h"
#include "sym/node.h"

namespace liveshape::sym {

// An integer or the bits of a double; or the fault and the node that had it.
struct Value {
  int64_t bits = 0;
  Fault fault = Fault::kNone;
  const Node* culprit = nullptr;

  static Value Of(double v) { return {std::bit_cast<int64_t>(v)}; }
  double as_float() const { return std::bit_cast<double>(bits); }
};

// `kind` with two operands of its type (`b` unused by unary kinds). N-ary kinds are chains of this,
// from the left. `float_operands` tells relations apart.
Value Apply(Kind kind, bool float_operands, Value a, Value b);

// The value at a point, without allocation for expressions of common size.
Value EvaluateAt(const Node& node, std::span<const int64_t> symbol_values);

Status FaultStatus(const Table& table, const Value& value, Expr whole,
                   std::span<const int64_t> symbol_values);

}  // namespace liveshape::sym
