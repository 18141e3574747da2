#include "backends/webgpu/text.h"

#include <cctype>
#include <set>
#include <vector>

namespace liveshape::webgpu {
namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsName(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Names, numbers, comments and single other characters, in order; joined they are the text.
std::vector<std::string_view> Tokens(std::string_view text) {
  std::vector<std::string_view> tokens;
  while (!text.empty()) {
    size_t length = 1;
    if (text.starts_with("//"))
      length = std::min(text.find('\n'), text.size());
    else if (IsName(text[0]))
      while (length < text.size() && IsName(text[length])) ++length;
    tokens.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return tokens;
}

bool IsSpace(std::string_view token) { return token == " " || token == "\n"; }

std::set<std::string_view> DeclaredNames(const std::vector<std::string_view>& tokens) {
  std::set<std::string_view> names;
  int depth = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    if (token == "{") ++depth;
    if (token == "}") --depth;
    if (depth > 0 || (token != "fn" && token != "const" && token != "var" && token != "struct"))
      continue;
    size_t name = i + 1;
    if (token == "var") {  // var<workgroup> name
      while (tokens[name] != ">") ++name;
      ++name;
    }
    while (IsSpace(tokens[name])) ++name;
    names.insert(tokens[name]);
  }
  return names;
}

}  // namespace

std::string AsFunction(std::string text, const std::string& suffix) {
  const size_t entry = text.find(kSmallEntry), body = text.find(") {", entry);
  text.replace(entry, body - entry, "fn main(wid: vec3<u32>, nwg: vec3<u32>, lane: u32");
  const std::vector<std::string_view> tokens = Tokens(text);
  std::set<std::string_view> names = DeclaredNames(tokens);
  names.insert("group_index");
  std::string renamed;
  for (size_t i = 0; i < tokens.size(); ++i) {
    renamed += tokens[i];
    const bool member = i > 0 && tokens[i - 1] == ".";
    const bool param = member && i > 1 && tokens[i - 2] == "p";
    if (IsNameStart(tokens[i][0]) && (param || (!member && names.contains(tokens[i]))))
      renamed += suffix;
  }
  return renamed;
}

}  // namespace liveshape::webgpu
