// JSON as typed, checked reads: every access says where in the document it failed.
//
//   LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(text, "models/model.json"));
//   const JsonAt root("models/model.json", document.root);
//   LS_ASSIGN_OR_RETURN(JsonAt version, root.Get("schema_version"));
//   LS_ASSIGN_OR_RETURN(JsonAt major, version.Get("major"));
//   LS_ASSIGN_OR_RETURN(int64_t value, major.Int());
//   // "models/model.json: schema_version.major: expected an integer, found a string"
//
// json.cc is the one file that includes nlohmann/json.hpp (2.7 s to compile); it is used as an event parser,
// which neither recurses nor throws, and our own tree keeps integers exact and nesting bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace liveshape::pt2 {

struct Json;
struct JsonMember;

// Elements in the document's memory.
template <typename T>
struct JsonList {
  const T* first = nullptr;
  size_t count = 0;
  size_t size() const { return count; }
  bool empty() const { return count == 0; }
  const T* begin() const { return first; }
  const T* end() const { return first + count; }
  const T& operator[](size_t i) const { return first[i]; }
};
using JsonArray = JsonList<Json>;
using JsonObject = JsonList<JsonMember>;  // in file order; keys are unique

struct Json {
  // uint64_t only for integers beyond int64.
  std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view, JsonArray,
               JsonObject>
      value;
  const char* kind() const;  // "an object", "null"
};

struct JsonMember {
  std::string_view key;
  Json value;
};

// The tree lies in a few large blocks with equal strings stored once, and goes in one piece. As a tree of small
// allocations, opening a 24-layer Qwen3 (4.4 MB of JSON) peaked at 34 MB instead of 25 and left holes in the heap.
struct JsonDocument {
  Json root;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory;
};

inline constexpr int kMaxJsonDepth = 400;  // torch nests 8 levels a subgraph; readers recurse
inline constexpr size_t kMaxJsonBytes = size_t{256} << 20;  // a 24-layer decoder has 4 MB

// `document` names the text in messages. Refuses what is beyond the limits, and repeated keys.
Result<JsonDocument> ParseJson(std::string_view text, std::string_view document);

// A value and the way to it. Holds a pointer to its parent, which must outlive it (a local variable above).
class JsonAt {
 public:
  JsonAt(std::string_view document, const Json& value) : value_(&value), key_(document) {}

  // A member of an object; an error if it is absent or this is no object.
  Result<JsonAt> Get(std::string_view key) const&;
  Result<JsonAt> Get(std::string_view key) && = delete;
  // The same, but nullopt if it is absent or null.
  Result<std::optional<JsonAt>> Find(std::string_view key) const&;
  Result<std::optional<JsonAt>> Find(std::string_view key) && = delete;
  // The only member of an object: how the schema writes a union.
  Result<JsonAt> Only() const&;
  Result<JsonAt> Only() && = delete;

  Result<const JsonArray*> Array() const;
  Result<const JsonObject*> Object() const;
  JsonAt At(const JsonArray& array, size_t index) const& {
    return JsonAt(array[index], this, {}, index);
  }
  JsonAt At(const JsonMember& member) const& { return JsonAt(member.value, this, member.key, 0); }

  Result<int64_t> Int() const;
  Result<double> Double() const;  // also an integer, and the strings "Infinity", "-Infinity", "NaN"
  Result<bool> Bool() const;
  Result<std::string> String() const;
  bool is_null() const { return std::holds_alternative<std::monostate>(value_->value); }
  const Json& value() const { return *value_; }
  std::string_view key() const { return key_; }

  std::string Path() const;  // "models/model.json: graph_module.graph.nodes[3].target"

  template <typename... Args>
  Status Error(Code code, fmt::format_string<Args...> format, Args&&... args) const {
    return Status(code, Path() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  JsonAt(const Json& value, const JsonAt* parent, std::string_view key, size_t index)
      : value_(&value), parent_(parent), key_(key), index_(index) {}
  Status Expected(const char* what) const;

  const Json* value_;
  const JsonAt* parent_ = nullptr;  // null at the root, whose key is the document's name
  std::string_view key_;            // empty for an element of an array
  size_t index_ = 0;
};

// Reads member `key` with `read(const JsonAt&)`.
template <typename Read>
auto ReadMember(const JsonAt& at, std::string_view key, Read read) -> decltype(read(at)) {
  LS_ASSIGN_OR_RETURN(JsonAt member, at.Get(key));
  return read(member);
}

// Reads every element of an array with `read(const JsonAt&)`.
template <typename Read>
auto ReadList(const JsonAt& at, Read read)
    -> Result<std::vector<std::decay_t<decltype(*read(at))>>> {
  LS_ASSIGN_OR_RETURN(const JsonArray* array, at.Array());
  std::vector<std::decay_t<decltype(*read(at))>> list;
  list.reserve(array->size());
  for (size_t i = 0; i < array->size(); ++i) {
    LS_ASSIGN_OR_RETURN(auto element, read(at.At(*array, i)));
    list.push_back(std::move(element));
  }
  return list;
}

// The plain reads as functions, for ReadMember and ReadList.
inline Result<int64_t> ReadInt(const JsonAt& at) { return at.Int(); }
inline Result<double> ReadDouble(const JsonAt& at) { return at.Double(); }
inline Result<bool> ReadBool(const JsonAt& at) { return at.Bool(); }
inline Result<std::string> ReadString(const JsonAt& at) { return at.String(); }

}  // namespace liveshape::pt2
