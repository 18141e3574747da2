// Sizes as expressions over named integers: interned, immutable, in one canonical form.
//
//   sym::Table table;
//   Expr s = table.Symbol({.name = "s0", .lo = 1, .hi = 4096});
//   Expr rows = 2 * s + 1;
//   rows == s + s + 1;                        // true: equal polynomials are the same pointer
//   table.Bounds(rows);                       // [3, 8193]
//   table.Evaluate(rows, {{7}});              // 15; an Evaluate that overflows or divides by 0 fails
//   ToString(FloorDiv(rows, table.Int(3)));   // "(2*s0 + 1)//3"
//
// All expressions of an artifact live in one Table and die with it; there is no global table. A
// table is built by one thread, then frozen; a frozen table may be read by many.
//
// Integers are int64 with Python's floor semantics (-7//2 = -4, -7 mod 2 = 1). Sub-expressions of
// type float are evaluated in double, as torch does. Truth values are the integers 0 and 1.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace liveshape::sym {

// clang-format off
enum class Kind : uint8_t {
  kInt,      // value()
  kSymbol,   // symbol(): index into Table::symbols()
  kAdd,      // n-ary, sorted; the canonical sum of monomials
  kMul,      // n-ary, sorted; an integer coefficient, if any, comes first
  kPow,      // args[0] ** args[1]; a constant exponent is a power in a monomial, else an atom
  kFloorDiv, kCeilDiv, kMod,
  kMin, kMax,            // n-ary, sorted, flattened
  kSelect,               // args[0] != 0 ? args[1] : args[2]; only the chosen side is evaluated
  kEq, kNe, kLt, kLe,    // > and >= are built with sides exchanged
  kAnd, kOr, kNot,
  kBitAnd, kBitOr, kShiftLeft, kShiftRight,
  // Float-valued:
  kFloat, kToFloat, kFloatAdd, kFloatMul, kFloatDiv, kFloatPow, kFloatSqrt, kIntTrueDiv,
  kFloatMin, kFloatMax,
  // Float to integer:
  kTruncToInt, kFloorToInt, kCeilToInt, kRoundToInt,  // round half to even, as Python's round()
};
// clang-format on

class Table;
struct Node;  // private to sym/

// A handle: one pointer, copied freely, compared by identity. A default Expr is "none".
class Expr {
 public:
  Expr() = default;
  explicit operator bool() const { return node_ != nullptr; }
  friend bool operator==(Expr a, Expr b) { return a.node_ == b.node_; }
  friend bool operator!=(Expr a, Expr b) { return a.node_ != b.node_; }

  Kind kind() const;
  bool is_int() const { return node_ && kind() == Kind::kInt; }
  bool is_int(int64_t value) const { return is_int() && this->value() == value; }
  bool is_symbol() const { return node_ && kind() == Kind::kSymbol; }
  bool is_float_valued() const;
  int64_t value() const;       // of kInt
  double float_value() const;  // of kFloat
  uint32_t symbol() const;     // of kSymbol
  std::span<const Expr> args() const;
  uint32_t id() const;  // creation order in its table: a stable key for maps and sorting
  Table& table() const;
  const Node* node() const { return node_; }

 private:
  friend class Table;
  friend struct Node;
  explicit Expr(const Node* node) : node_(node) {}
  const Node* node_ = nullptr;
};

// Arithmetic between expressions of one table. All simplify into canonical form.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator+(Expr a, int64_t b);
Expr operator-(Expr a, int64_t b);
Expr operator-(int64_t a, Expr b);
Expr operator*(Expr a, int64_t b);
inline Expr operator+(int64_t a, Expr b) { return b + a; }
inline Expr operator*(int64_t a, Expr b) { return b * a; }
Expr FloorDiv(Expr a, Expr b);
Expr CeilDiv(Expr a, Expr b);
Expr Mod(Expr a, Expr b);  // sign of the divisor, as Python
Expr Min(Expr a, Expr b);
Expr Max(Expr a, Expr b);
Expr Pow(Expr base, int64_t exponent);
Expr Select(Expr condition, Expr if_true, Expr if_false);
Expr Eq(Expr a, Expr b);
Expr Ne(Expr a, Expr b);
Expr Lt(Expr a, Expr b);
Expr Le(Expr a, Expr b);
inline Expr Gt(Expr a, Expr b) { return Lt(b, a); }
inline Expr Ge(Expr a, Expr b) { return Le(b, a); }
Expr And(Expr a, Expr b);
Expr Or(Expr a, Expr b);
Expr Not(Expr a);
Expr Product(Table& table, std::span<const Expr> factors);  // 1 when empty

// Infix, as ParseInfix reads it back: `2*s0 + 1`, `(s0 + 3)//4`, `s0 % 4`, `Min(s0, 64)`, `s0**2`.
std::string ToString(Expr e);

// A closed range; the sentinels mean "no bound known".
struct Interval {
  static constexpr int64_t kNegInf = std::numeric_limits<int64_t>::min();
  static constexpr int64_t kPosInf = std::numeric_limits<int64_t>::max();
  int64_t lo = kNegInf;
  int64_t hi = kPosInf;
  bool bounded_above() const { return hi != kPosInf; }
  bool bounded_below() const { return lo != kNegInf; }
  bool Contains(int64_t v) const { return lo <= v && v <= hi; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

enum class Tri : uint8_t { kNo, kYes, kUnknown };

// When a symbol's value becomes known; the shape program is cut at these points.
//   0: at bind, from the shapes of the inputs and integer inputs
//   1: host values: at run, before the first kernel (an element of an integer input, a counter state)
//   2...: born on the device, after the kernels of the stage before have run
using Stage = uint8_t;

struct SymbolInfo {
  std::string name;  // torch's: s0, u1
  int64_t lo = 0;
  int64_t hi = Interval::kPosInf;
  Stage stage = 0;
  std::string display = {};  // the Dim's name where known ("S"); else empty
};

class Table {
 public:
  Table();
  ~Table();
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;

  Expr Int(int64_t value);
  Expr Float(double value);
  Expr Symbol(SymbolInfo info);  // a new symbol, or the one of that name (range kept)
  std::optional<Expr> FindSymbol(std::string_view name_or_display) const;
  Expr SymbolAt(uint32_t index) const;
  const std::vector<SymbolInfo>& symbols() const;
  // Narrowing a range after expressions were built is allowed: nothing already simplified becomes
  // wrong. Widening is not, and is checked.
  void NarrowSymbol(uint32_t index, int64_t lo, int64_t hi);
  void SetDisplay(uint32_t index, std::string display);
  // When a symbol becomes known is found out while a graph is built; expressions made before follow.
  void SetStage(uint32_t index, Stage stage);

  // Any kind with its arguments, simplified; what the operators above call.
  Expr Make(Kind kind, std::span<const Expr> args);

  // Every value of `e` over the symbol ranges lies in the answer; tightened by monotonicity, so the
  // answer is attained for expressions monotone in each symbol (`64 - s0`, `s0//2 + s1`).
  Interval Bounds(Expr e) const;
  // "For all symbol values in range": kYes and kNo are proofs (kNo: for none), kUnknown is honest.
  Tri IsTrue(Expr condition) const;
  Tri Divides(Expr divisor, Expr e);                   // e mod divisor == 0
  std::optional<Expr> Quotient(Expr e, Expr divisor);  // exact, where Divides says kYes

  // symbol_values[i] is the value of symbol i. Fails on overflow, x//0 and a float out of int64.
  Result<int64_t> Evaluate(Expr e, std::span<const int64_t> symbol_values) const;
  Result<double> EvaluateFloat(Expr e, std::span<const int64_t> symbol_values) const;

  Expr Substitute(Expr e, const std::function<std::optional<Expr>(uint32_t symbol)>& replacement);
  std::vector<uint32_t> FreeSymbols(Expr e) const;  // ascending
  Stage StageOf(Expr e) const;  // the latest stage of its symbols; 0 for a constant

  // Copies an expression of another table into this one; symbols are matched by name.
  Expr Import(Expr foreign);

  void Freeze();  // later Make calls that would create a node panic

  struct Impl;  // private to sym/
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace liveshape::sym
