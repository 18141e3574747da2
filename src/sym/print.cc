// Infix text that ParseInfix reads back to the same pointer.
#include <algorithm>

#include "sym/node.h"
#include "sym/polynomial.h"

namespace liveshape::sym {
namespace {

// Python's precedence, loosest first.
enum Level {
  kOr,
  kAnd,
  kNot,
  kRelation,
  kBitOr,
  kBitAnd,
  kShift,
  kSum,
  kProduct,
  kUnary,
  kPower,
  kAtom
};

constexpr int kMaxDepth = 1000;
constexpr size_t kMaxLength = 1 << 20;  // shared parts make the text exponential in the worst case
constexpr size_t kMaxMessageLength = 240;

std::string FloatText(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

class Printer {
 public:
  explicit Printer(size_t limit) : limit_(limit) {}

  std::string Print(Expr e) {
    Write(e, kOr);
    if (cut_) out_ += "...";
    return std::move(out_);
  }

 private:
  void Write(Expr e, Level at_least) {
    if (out_.size() > limit_ || depth_ > kMaxDepth) {
      cut_ = true;
      return;
    }
    ++depth_;
    const bool parenthesize = LevelOf(e) < at_least;
    if (parenthesize) out_ += '(';
    WriteBare(e);
    if (parenthesize) out_ += ')';
    --depth_;
  }

  static Level LevelOf(Expr e) {
    switch (e.kind()) {
      case Kind::kInt: return e.value() < 0 ? kUnary : kAtom;
      case Kind::kFloat: return std::signbit(e.float_value()) ? kUnary : kAtom;
      case Kind::kAdd:
      case Kind::kFloatAdd: return kSum;
      case Kind::kMul:
      case Kind::kFloatMul:
      case Kind::kFloatDiv:
      case Kind::kIntTrueDiv:
      case Kind::kFloorDiv:
      case Kind::kMod: return kProduct;
      case Kind::kPow:
      case Kind::kFloatPow: return kPower;
      case Kind::kEq:
      case Kind::kNe:
      case Kind::kLt:
      case Kind::kLe: return kRelation;
      case Kind::kAnd: return kAnd;
      case Kind::kOr: return kOr;
      case Kind::kNot: return kNot;
      case Kind::kBitAnd: return kBitAnd;
      case Kind::kBitOr: return kBitOr;
      case Kind::kShiftLeft:
      case Kind::kShiftRight: return kShift;
      default: return kAtom;  // names and calls
    }
  }

  void WriteBare(Expr e) {
    switch (e.kind()) {
      case Kind::kInt: out_ += fmt::format("{}", e.value()); return;
      case Kind::kFloat: out_ += FloatText(e.float_value()); return;
      case Kind::kSymbol: out_ += Name(e); return;
      case Kind::kAdd: return WriteSum(e);
      case Kind::kMul: return WriteProduct(e);
      case Kind::kPow:
      case Kind::kFloatPow: return Binary(e, "**", kAtom, kAtom);
      case Kind::kFloorDiv: return Binary(e, "//", kPower, kPower);
      case Kind::kMod: return Binary(e, " % ", kPower, kPower);
      case Kind::kIntTrueDiv:
      case Kind::kFloatDiv: return Binary(e, " / ", kPower, kPower);
      case Kind::kFloatAdd: return Binary(e, " + ", kSum, kProduct);
      case Kind::kFloatMul:
        // (a / b)*c: a quotient on the left would read as one, but keeps its parentheses for the
        // reader.
        return Binary(e, "*", e.args()[0].kind() == Kind::kFloatMul ? kProduct : kUnary, kUnary);
      case Kind::kEq: return Binary(e, " == ", kBitOr, kBitOr);
      case Kind::kNe: return Binary(e, " != ", kBitOr, kBitOr);
      case Kind::kLt: return Binary(e, " < ", kBitOr, kBitOr);
      case Kind::kLe: return Binary(e, " <= ", kBitOr, kBitOr);
      case Kind::kBitAnd: return Binary(e, " & ", kAtom, kAtom);
      case Kind::kBitOr: return Binary(e, " | ", kAtom, kAtom);
      case Kind::kShiftLeft: return Binary(e, " << ", kAtom, kAtom);
      case Kind::kShiftRight: return Binary(e, " >> ", kAtom, kAtom);
      case Kind::kAnd: return Join(e, " and ", kNot);
      case Kind::kOr: return Join(e, " or ", kAnd);
      case Kind::kNot: out_ += "not "; return Write(e.args()[0], kAtom);
      case Kind::kMin:
      case Kind::kFloatMin: return Call("Min", e);
      case Kind::kMax:
      case Kind::kFloatMax: return Call("Max", e);
      case Kind::kSelect: return Call("Where", e);
      case Kind::kCeilDiv: return Call("CeilDiv", e);
      case Kind::kToFloat: return Call("ToFloat", e);
      case Kind::kFloatSqrt: return Call("sqrt", e);
      case Kind::kTruncToInt: return Call("TruncToInt", e);
      case Kind::kFloorToInt: return Call("FloorToInt", e);
      case Kind::kCeilToInt: return Call("CeilToInt", e);
      case Kind::kRoundToInt: return Call("RoundToInt", e);
    }
  }

  // The Dim's name where it means this symbol and nothing else.
  static std::string_view Name(Expr e) {
    const SymbolInfo& info = e.table().symbols()[e.symbol()];
    if (info.display.empty() || e.table().FindSymbol(info.display) != std::optional(e))
      return info.name;
    return info.display;
  }

  void Binary(Expr e, const char* op, Level left, Level right) {
    Write(e.args()[0], left);
    out_ += op;
    Write(e.args()[1], right);
  }

  void Join(Expr e, const char* separator, Level each) {
    const char* before = "";
    for (Expr arg : e.args()) {
      out_ += before;
      before = separator;
      Write(arg, each);
    }
  }

  void Call(const char* function, Expr e) {
    out_ += function;
    out_ += '(';
    Join(e, ", ", kOr);
    out_ += ')';
  }

  static bool IsNegative(Expr term) {
    return SplitTerm(term).coefficient < 0 && SplitTerm(term).coefficient > INT64_MIN;
  }

  void WriteSum(Expr e) {
    // A positive term leads where there is one: 64 - s0.
    const auto args = e.args();
    auto lead = std::ranges::find_if_not(args, IsNegative);
    if (lead == args.end()) lead = args.begin();
    Write(*lead, kProduct);
    for (auto it = args.begin(); it != args.end(); ++it) {
      if (it == lead) continue;
      out_ += IsNegative(*it) ? " - " : " + ";
      if (!IsNegative(*it))
        Write(*it, kProduct);
      else
        WriteTerm(-SplitTerm(*it).coefficient, SplitTerm(*it).monomial);
    }
  }

  void WriteTerm(int64_t coefficient, Expr monomial) {
    if (!monomial) {
      out_ += fmt::format("{}", coefficient);
      return;
    }
    // Before a sum in parentheses a minus would be read as that sum's.
    const Factor first = FactorsOf(monomial)[0];
    const bool sum_leads = first.base.kind() == Kind::kAdd && first.power == 1;
    if (coefficient == -1 && !sum_leads)
      out_ += '-';
    else if (coefficient != 1)
      out_ += fmt::format("{}*", coefficient);
    if (FactorsOf(monomial).size() > 1)
      Join(monomial, "*", kUnary);
    else
      Write(monomial, kUnary);
  }

  void WriteProduct(Expr e) {
    const Term term = SplitTerm(e);
    if (term.monomial != e)
      WriteTerm(term.coefficient, term.monomial);
    else
      Join(e, "*", kUnary);
  }

  const size_t limit_;
  std::string out_;
  int depth_ = 0;
  bool cut_ = false;
};

}  // namespace

std::string ToString(Expr e) { return e ? Printer(kMaxLength).Print(e) : "none"; }
std::string Abbreviated(Expr e) { return e ? Printer(kMaxMessageLength).Print(e) : "none"; }

}  // namespace liveshape::sym
