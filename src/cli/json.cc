#include "cli/json.h"

#include <fmt/format.h>

#include <cmath>

namespace liveshape::cli {
namespace {

// Length of the well-formed UTF-8 sequence at the front of `text`, 0 if there is none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead < 0x80   ? 1
                        : lead < 0xC2 ? 0
                        : lead < 0xE0 ? 2
                        : lead < 0xF0 ? 3
                        : lead < 0xF5 ? 4
                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool outside = (lead == 0xED && byte(1) >= 0xA0) || (lead == 0xF4 && byte(1) >= 0x90);
  return length > 1 && (overlong || outside) ? 0 : length;
}

}  // namespace

void JsonWriter::Separate() {
  if (!first_ && !after_key_) text_ += ',';
  first_ = after_key_ = false;
}

void JsonWriter::Open(char bracket) {
  Separate();
  text_ += bracket;
  first_ = true;
}

JsonWriter& JsonWriter::Close(char bracket) {
  text_ += bracket;
  first_ = after_key_ = false;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Value(key);
  text_ += ':';
  after_key_ = true;
  return *this;
}

// Names come from files of others: bytes that are not UTF-8 become U+FFFD, so that the line stays JSON.
JsonWriter& JsonWriter::Value(std::string_view text) {
  Separate();
  text_ += '"';
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char c = static_cast<unsigned char>(text.front());
    if (length == 0)
      text_ += "\\ufffd";
    else if (c == '"' || c == '\\')
      text_ += {'\\', static_cast<char>(c)};
    else if (c == '\n')
      text_ += "\\n";
    else if (c < 0x20 || c == 0x7F)
      text_ += fmt::format("\\u{:04x}", c);
    else
      text_ += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
  return *this;
}

JsonWriter& JsonWriter::Value(double number) {
  if (std::isnan(number)) return Value("NaN");
  if (std::isinf(number)) return Value(number > 0 ? "Infinity" : "-Infinity");
  return Raw(fmt::format("{}", number));
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  text_ += json;
  return *this;
}

}  // namespace liveshape::cli
