#include "sym/lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

namespace liveshape::sym {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

constexpr std::string_view kTwoCharacterOps[] = {"**", "//", "==", "!=", "<=", ">=", "<<", ">>"};
constexpr std::string_view kOneCharacterOps = "+-*/%()[],.<>=&|^~:";

bool ReadDouble(std::string_view text, double* out) {
#if defined(__cpp_lib_to_chars)
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
#else  // libc++ for wasm32-wasi has no from_chars of a double
  const std::string copy(text);
  char* end = nullptr;
  *out = std::strtod(copy.c_str(), &end);
  return !copy.empty() && end == copy.c_str() + copy.size();
#endif
}

}  // namespace

bool IsReserved(std::string_view name) {
  static constexpr std::string_view kReserved[] = {"if",     "else",  "and",  "or",   "not",
                                                   "is",     "in",    "None", "True", "true",
                                                   "lambda", "False", "false"};
  return std::ranges::find(kReserved, name) != std::end(kReserved);
}

bool IsSymbolName(std::string_view name) {
  if (name.empty() || !IsNameStart(name[0]) || IsReserved(name)) return false;
  return std::ranges::all_of(name, [](char c) { return IsNameStart(c) || IsDigit(c); });
}

Token::Type Lexer::ScanNumber() {
  const auto digits = [&] {
    const size_t start = position_;
    while (position_ < text_.size() && IsDigit(text_[position_])) ++position_;
    return position_ > start;
  };
  bool is_float = false;
  digits();
  if (position_ < text_.size() && text_[position_] == '.') {
    is_float = true;
    ++position_;
    digits();
  }
  if (position_ < text_.size() && (text_[position_] == 'e' || text_[position_] == 'E')) {
    const size_t before = position_++;
    if (position_ < text_.size() && (text_[position_] == '+' || text_[position_] == '-'))
      ++position_;
    if (digits())
      is_float = true;
    else
      position_ = before;  // not an exponent
  }
  return is_float ? Token::Type::kFloat : Token::Type::kInt;
}

void Lexer::Advance() {
  while (position_ < text_.size() && IsSpace(text_[position_])) ++position_;
  const size_t start = position_;
  token_ = {Token::Type::kEnd, {}, start + 1};
  if (start >= text_.size()) return;
  const char c = text_[start];
  const bool leads_fraction = c == '.' && start + 1 < text_.size() && IsDigit(text_[start + 1]);
  if (IsDigit(c) || leads_fraction) {
    token_.type = ScanNumber();
  } else if (IsNameStart(c)) {
    while (position_ < text_.size() && (IsNameStart(text_[position_]) || IsDigit(text_[position_])))
      ++position_;
    token_.type = Token::Type::kName;
  } else if (c == '\'' || c == '"') {
    const size_t close = text_.find(c, start + 1);
    token_.type = close == std::string_view::npos ? Token::Type::kBad : Token::Type::kString;
    position_ = close == std::string_view::npos ? text_.size() : close + 1;
    if (token_.type == Token::Type::kString) {
      token_.text = text_.substr(start + 1, close - start - 1);
      return;
    }
  } else {
    for (std::string_view op : kTwoCharacterOps) {
      if (text_.substr(start, 2) == op) position_ += 2;
    }
    if (position_ == start) ++position_;
    const bool known = position_ - start == 2 || kOneCharacterOps.find(c) != std::string_view::npos;
    token_.type = known ? Token::Type::kOp : Token::Type::kBad;
  }
  token_.text = text_.substr(start, position_ - start);
}

Status Lexer::Expect(std::string_view op) {
  if (Accept(op)) return {};
  return ParseError(token_, fmt::format("expected `{}`", op));
}

Status ParseError(const Token& at, std::string_view what, Code code) {
  const std::string found =
      at.type == Token::Type::kEnd ? "the end" : fmt::format("`{}`", at.text.substr(0, 40));
  return Status(code, fmt::format("column {}: found {}, {}", at.column, found, what));
}

Result<Expr> IntegerFrom(Table& table, const Token& digits, bool negative) {
  uint64_t value = 0;
  const char* end = digits.text.data() + digits.text.size();
  const auto [stop, error] = std::from_chars(digits.text.data(), end, value);
  constexpr uint64_t kLimit = uint64_t{1} << 63;
  if (error != std::errc() || stop != end || value > kLimit || (value == kLimit && !negative)) {
    return ParseError(digits, "an integer that does not fit in 64 bits");
  }
  return table.Int(static_cast<int64_t>(negative ? 0 - value : value));
}

Result<Expr> FloatFrom(Table& table, const Token& number) {
  double value = 0;
  std::string_view text = number.text;
  const bool negative = !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (!ReadDouble(text, &value) || !std::isfinite(value))
    return ParseError(number, "not a finite number");
  return table.Float(negative ? -value : value);
}

}  // namespace liveshape::sym
