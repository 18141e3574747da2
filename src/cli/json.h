// Writes JSON: commas, escapes and non-finite numbers are its business.
//
//   JsonWriter json;
//   json.Object([&] {
//     json.Field("shape", "S=4");
//     json.Key("dims").Array([&] { for (int64_t d : dims) json.Value(d); });
//   });
//   puts(json.text().c_str());                 // {"shape":"S=4","dims":[4,64]}
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace liveshape::cli {

class JsonWriter {
 public:
  template <typename Body>
  JsonWriter& Object(Body&& body) {
    Open('{');
    body();
    return Close('}');
  }
  template <typename Body>
  JsonWriter& Array(Body&& body) {
    Open('[');
    body();
    return Close(']');
  }

  JsonWriter& Key(std::string_view key);
  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(const std::string& text) { return Value(std::string_view(text)); }
  JsonWriter& Value(
      double number);  // "NaN", "Infinity", "-Infinity" as strings, as torch writes them
  JsonWriter& Value(bool truth) { return Raw(truth ? "true" : "false"); }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& Value(T number) {
    return Raw(std::to_string(number));
  }
  JsonWriter& Null() { return Raw("null"); }
  JsonWriter& Raw(std::string_view json);  // already JSON

  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }

  const std::string& text() const { return text_; }

 private:
  void Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string text_;
  bool first_ = true, after_key_ = false;
};

}  // namespace liveshape::cli
