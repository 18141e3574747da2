#include "import/pt2/json_writer.h"

#include <cmath>
#include <iterator>

namespace liveshape::pt2 {
namespace {

// Length of the valid UTF-8 sequence at the start of `text`; 0 if there is none. Names from the zip may be any bytes.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xC2 && byte(0) <= 0xDF) return tail(1) ? 2 : 0;
  if (byte(0) >= 0xE0 && byte(0) <= 0xEF) {
    const bool overlong = byte(0) == 0xE0 && byte(1) < 0xA0,
               surrogate = byte(0) == 0xED && byte(1) > 0x9F;
    return tail(1) && tail(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (byte(0) >= 0xF0 && byte(0) <= 0xF4) {
    const bool overlong = byte(0) == 0xF0 && byte(1) < 0x90,
               beyond = byte(0) == 0xF4 && byte(1) > 0x8F;
    return tail(1) && tail(2) && tail(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

JsonWriter& JsonWriter::Open(char bracket) {
  Comma();
  out_ += bracket;
  first_ = true;
  return *this;
}

void JsonWriter::Close(char bracket) {
  out_ += bracket;
  first_ = false;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Value(key);
  out_ += ':';
  first_ = true;
  return *this;
}

void JsonWriter::Value(std::string_view text) {
  Comma();
  out_ += '"';
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      out_ += "\\ufffd";
    } else if (length > 1) {
      out_ += text.substr(0, length);
    } else if (text[0] == '"' || text[0] == '\\') {
      (out_ += '\\') += text[0];
    } else if (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7F) {
      fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned>(text[0]));
    } else {
      out_ += text[0];
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out_ += '"';
}

void JsonWriter::Value(double value) {
  if (std::isfinite(value)) return Raw(fmt::format("{}", value));
  Value(std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
}

void JsonWriter::Comma() {
  if (!first_) out_ += ',';
  first_ = false;
}

void JsonWriter::Raw(std::string_view text) {
  Comma();
  out_ += text;
}

}  // namespace liveshape::pt2
