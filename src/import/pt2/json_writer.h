// Writes JSON into one string, with the commas where they belong.
//
//   JsonWriter json;
//   json.Open('{').Key("name").Value("x");
//   json.Key("sizes").Values(std::vector<int64_t>{2, 3});
//   json.Close('}');
//   std::string text = std::move(json).Take();            // {"name":"x","sizes":[2,3]}
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace liveshape::pt2 {

class JsonWriter {
 public:
  JsonWriter& Open(char bracket);
  void Close(char bracket);
  JsonWriter& Key(std::string_view key);

  void Value(std::string_view text);  // bytes that are not UTF-8 become U+FFFD
  void Value(const std::string& text) { Value(std::string_view(text)); }
  void Value(const char* text) { Value(std::string_view(text)); }
  void Value(bool value) { Raw(value ? "true" : "false"); }
  void Value(int64_t value) { Raw(fmt::format("{}", value)); }
  void Value(double value);  // non-finite: the strings that torch writes
  void Null() { Raw("null"); }

  template <typename List>
  void Values(const List& list) {
    Open('[');
    for (const auto& element : list) Value(element);
    Close(']');
  }

  std::string Take() && { return std::move(out_); }

 private:
  void Comma();
  void Raw(std::string_view text);

  std::string out_;
  bool first_ = true;  // nothing before the next value in this container
};

}  // namespace liveshape::pt2
