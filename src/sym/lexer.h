// Tokens of the three spellings. Private to sym/.
#pragma once

#include <string_view>

#include "base/status.h"
#include "sym/expr.h"

namespace liveshape::sym {

constexpr size_t kMaxTextLength = 1 << 18;
constexpr int kMaxParseDepth = 400;

struct Token {
  enum class Type : uint8_t { kEnd, kInt, kFloat, kName, kString, kOp, kBad };
  Type type = Type::kEnd;
  std::string_view text;  // of a string: what is between the quotes
  size_t column = 0;      // from 1

  bool Is(std::string_view op_or_name) const {
    return (type == Type::kOp || type == Type::kName) && text == op_or_name;
  }
};

// One token of lookahead.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { Advance(); }
  const Token& peek() const { return token_; }
  Token Take() {
    const Token taken = token_;
    Advance();
    return taken;
  }
  bool Accept(std::string_view op_or_name) {
    if (!token_.Is(op_or_name)) return false;
    Advance();
    return true;
  }
  Status Expect(std::string_view op);

 private:
  void Advance();
  Token::Type ScanNumber();

  std::string_view text_;
  size_t position_ = 0;
  Token token_;
};

// A word of the grammar, which no symbol can be called.
bool IsReserved(std::string_view name);
// A name that every spelling reads back as that symbol: a letter or _, then digits too, and not reserved.
bool IsSymbolName(std::string_view name);

// `column 7: found `)`, expected ...`
Status ParseError(const Token& at, std::string_view what, Code code = Code::kInvalidArgument);

// The digits as an integer, negated where asked: so that the least int64 can be written.
Result<Expr> IntegerFrom(Table& table, const Token& digits, bool negative);
Result<Expr> FloatFrom(Table& table, const Token& number);

}  // namespace liveshape::sym
