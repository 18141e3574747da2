#include "sym/parse_python.h"

#include <algorithm>
#include <vector>

#include "sym/calls.h"
#include "sym/simplify.h"

namespace liveshape::sym {
namespace {

// Binary operators by how tightly they bind; one loop reads all levels.
enum Level : int {
  kNone = -1,
  kOr,
  kAnd,
  kRelation,
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kSum,
  kProduct
};

Level BinaryLevel(const Token& token) {
  struct Entry {
    std::string_view op;
    Level level;
  };
  static constexpr Entry kTable[] = {
      {"or", kOr},       {"and", kAnd},    {"==", kRelation}, {"!=", kRelation}, {"<", kRelation},
      {"<=", kRelation}, {">", kRelation}, {">=", kRelation}, {"|", kBitOr},     {"^", kBitXor},
      {"&", kBitAnd},    {"<<", kShift},   {">>", kShift},    {"+", kSum},       {"-", kSum},
      {"*", kProduct},   {"/", kProduct},  {"//", kProduct},  {"%", kProduct},
  };
  for (const Entry& e : kTable) {
    if (token.Is(e.op)) return e.level;
  }
  return kNone;
}

class Parser {
 public:
  Parser(Table& table, std::string_view text, bool postfix, const LeafReader& read_leaf)
      : table_(table), lexer_(text), postfix_(postfix), read_leaf_(read_leaf) {}

  Result<Expr> Parse() {
    LS_ASSIGN_OR_RETURN(Expr e, Conditional());
    if (lexer_.peek().type != Token::Type::kEnd)
      return ParseError(lexer_.peek(), "expected an operator or the end");
    return e;
  }

 private:
  struct Deeper {
    explicit Deeper(int& depth) : depth(depth) { ++depth; }
    ~Deeper() { --depth; }
    int& depth;
  };

  Status CheckDepth() const {
    if (depth_ <= kMaxParseDepth) return {};
    return ParseError(lexer_.peek(), fmt::format("nested deeper than {}", kMaxParseDepth));
  }

  static Status RequireTruth(const Token& at, Expr e) {
    if (!e.is_float_valued()) return {};
    return ParseError(at, "a float as a condition", Code::kUnsupported);
  }

  // value if condition else other
  Result<Expr> Conditional() {
    const Deeper deeper(depth_);
    LS_RETURN_IF_ERROR(CheckDepth());
    LS_ASSIGN_OR_RETURN(Expr value, Binary(kOr));
    const Token at = lexer_.peek();
    if (!lexer_.Accept("if")) return value;
    LS_ASSIGN_OR_RETURN(Expr condition, Binary(kOr));
    LS_RETURN_IF_ERROR(RequireTruth(at, condition));
    LS_RETURN_IF_ERROR(lexer_.Expect("else"));
    LS_ASSIGN_OR_RETURN(Expr other, Conditional());
    return Select(Truth(condition), value, other);
  }

  // Operators of `level` and tighter. Operands of a chain of + or * are gathered, so that a long
  // sum is normalised once and a product of sums is expanded, or not, as a whole.
  Result<Expr> Binary(Level level) {
    LS_ASSIGN_OR_RETURN(Expr left, Unary(level));
    for (;;) {
      const Level next = BinaryLevel(lexer_.peek());
      if (next < level || next == kNone) return left;
      if (next == kRelation) {
        LS_ASSIGN_OR_RETURN(left, Chain(left));
      } else if (next == kOr || next == kAnd) {
        LS_ASSIGN_OR_RETURN(left, Gather(next, next == kOr ? Kind::kOr : Kind::kAnd, left));
      } else if (next == kSum) {
        LS_ASSIGN_OR_RETURN(left, Gather(next, Kind::kAdd, left));
      } else if (lexer_.peek().Is("*")) {
        LS_ASSIGN_OR_RETURN(left, Gather(next, Kind::kMul, left));
      } else {
        const Token op = lexer_.Take();
        LS_ASSIGN_OR_RETURN(Expr right, Binary(static_cast<Level>(next + 1)));
        LS_ASSIGN_OR_RETURN(left, MakeOperator(table_, op, left, right));
      }
    }
  }

  Result<Expr> Gather(Level level, Kind kind, Expr first) {
    std::vector<Expr> operands = {first};
    for (;;) {
      const Token op = lexer_.peek();
      if (BinaryLevel(op) != level || (kind == Kind::kMul && !op.Is("*"))) break;
      lexer_.Take();
      LS_ASSIGN_OR_RETURN(Expr next, Binary(static_cast<Level>(level + 1)));
      if (kind == Kind::kAnd || kind == Kind::kOr) {
        LS_RETURN_IF_ERROR(RequireTruth(op, first));
        LS_RETURN_IF_ERROR(RequireTruth(op, next));
      }
      operands.push_back(op.Is("-") ? -next : next);
    }
    return table_.Make(kind, operands);
  }

  // a < b <= c means a < b and b <= c.
  Result<Expr> Chain(Expr left) {
    std::vector<Expr> links;
    while (BinaryLevel(lexer_.peek()) == kRelation) {
      const Token op = lexer_.Take();
      LS_ASSIGN_OR_RETURN(Expr right, Binary(kBitOr));
      LS_ASSIGN_OR_RETURN(Expr link, MakeOperator(table_, op, left, right));
      links.push_back(link);
      left = right;
    }
    return links.size() == 1 ? links[0] : table_.Make(Kind::kAnd, links);
  }

  // `not` binds looser than relations, so it reads one; signs bind tighter than *.
  Result<Expr> Unary(Level level) {
    const Deeper deeper(depth_);
    LS_RETURN_IF_ERROR(CheckDepth());
    const Token at = lexer_.peek();
    if (level <= kAnd + 1 && lexer_.Accept("not")) {
      LS_ASSIGN_OR_RETURN(Expr operand, Binary(kRelation));
      LS_RETURN_IF_ERROR(RequireTruth(at, operand));
      return Not(Truth(operand));
    }
    if (lexer_.Accept("+")) return Unary(kProduct);
    if (lexer_.Accept("~")) {
      LS_ASSIGN_OR_RETURN(Expr operand, Unary(kProduct));
      return MakeOperator(table_, at, operand, operand);
    }
    if (lexer_.Accept("-")) {
      const Token digits = lexer_.peek();
      if (digits.type == Token::Type::kInt) {  // -9223372036854775808 has no positive
        lexer_.Take();
        if (!lexer_.peek().Is("**")) return IntegerFrom(table_, digits, /*negative=*/true);
        LS_ASSIGN_OR_RETURN(Expr base, IntegerFrom(table_, digits, /*negative=*/false));
        LS_ASSIGN_OR_RETURN(Expr power, Power(base));
        return -power;
      }
      LS_ASSIGN_OR_RETURN(Expr operand, Unary(kProduct));
      return -operand;
    }
    LS_ASSIGN_OR_RETURN(Expr atom, Atom());
    return Power(atom);
  }

  Result<Expr> Power(Expr base) {
    const Token op = lexer_.peek();
    if (!lexer_.Accept("**")) return base;
    LS_ASSIGN_OR_RETURN(Expr exponent, Unary(kProduct));
    return MakeOperator(table_, op, base, exponent);
  }

  Result<Expr> Atom() {
    const Token token = lexer_.Take();
    switch (token.type) {
      case Token::Type::kInt: return IntegerFrom(table_, token, false);
      case Token::Type::kFloat: return FloatFrom(table_, token);
      case Token::Type::kName: return Name(token);
      case Token::Type::kString:
        return ParseError(token, "text, which no size depends on", Code::kUnsupported);
      case Token::Type::kOp:
        if (token.text == "(") {
          LS_ASSIGN_OR_RETURN(Expr e, Conditional());
          LS_RETURN_IF_ERROR(lexer_.Expect(")"));
          return e;
        }
        break;
      default: break;
    }
    return ParseError(token, "expected a number, a name or `(`");
  }

  Result<Expr> Name(const Token& name) {
    if (name.text == "True" || name.text == "true") return table_.Int(1);
    if (name.text == "False" || name.text == "false") return table_.Int(0);
    if (IsReserved(name.text))
      return ParseError(name, "expected a number, a name or `(`", Code::kUnsupported);
    std::string leaf(name.text);
    for (;;) {
      if (lexer_.peek().Is("(") && IsFunction(leaf)) return Arguments(name, leaf);
      if (lexer_.Accept(".")) {
        const Token part = lexer_.Take();
        if (part.type != Token::Type::kName) return ParseError(part, "expected a name after `.`");
        leaf += '.';
        leaf += part.text;
      } else if (postfix_ && lexer_.Accept("[")) {
        LS_RETURN_IF_ERROR(Subscript(leaf));
      } else if (lexer_.peek().Is("(")) {
        const Token open = lexer_.Take();
        if (!postfix_ || !lexer_.Accept(")")) {
          return ParseError(open, fmt::format("the function `{}` is not known", leaf),
                            Code::kUnsupported);
        }
        leaf += "()";
      } else {
        return read_leaf_(name, leaf);
      }
    }
  }

  Status Subscript(std::string& leaf) {
    const bool negative = lexer_.Accept("-");
    const Token index = lexer_.Take();
    if (index.type == Token::Type::kInt) {
      leaf += fmt::format("[{}{}]", negative ? "-" : "", index.text);
    } else if (index.type == Token::Type::kString && !negative) {
      leaf += fmt::format("['{}']", index.text);
    } else {
      return ParseError(index, "expected an integer or a string as index", Code::kUnsupported);
    }
    return lexer_.Expect("]");
  }

  Result<Expr> Arguments(const Token& at, const std::string& function) {
    lexer_.Take();  // (
    std::vector<Expr> args;
    while (!lexer_.Accept(")")) {
      if (!args.empty()) LS_RETURN_IF_ERROR(lexer_.Expect(","));
      LS_ASSIGN_OR_RETURN(Expr arg, Conditional());
      args.push_back(arg);
    }
    return MakeCall(table_, at, function, args);
  }

  Table& table_;
  Lexer lexer_;
  const bool postfix_;
  const LeafReader& read_leaf_;
  int depth_ = 0;
};

}  // namespace

Result<Expr> ParsePython(Table& table, std::string_view text, bool postfix,
                         const LeafReader& read_leaf) {
  if (text.size() > kMaxTextLength) {
    return InvalidArgument("an expression of {} characters; at most {} are read", text.size(),
                           kMaxTextLength);
  }
  return Parser(table, text, postfix, read_leaf).Parse();
}

}  // namespace liveshape::sym
