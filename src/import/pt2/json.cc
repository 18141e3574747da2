#include "import/pt2/json.h"

#include <cstring>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <unordered_set>

namespace liveshape::pt2 {
namespace {

// Builds our tree from nlohmann's events. The open containers are a stack of our own, so depth is a number
// that we check and not a call stack that overflows.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view document)
      : document_(document), memory_(std::make_unique<std::pmr::monotonic_buffer_resource>()) {}

  bool null() { return Add(Json{}); }
  bool boolean(bool value) { return Add(Json{value}); }
  bool number_integer(int64_t value) { return Add(Json{value}); }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return Add(Json{static_cast<int64_t>(value)});
    return Add(Json{value});
  }
  bool number_float(double value, const std::string&) { return Add(Json{value}); }
  bool string(const std::string& value) { return Add(Json{Keep(value)}); }
  bool binary(const nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(true); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(false); }
  bool end_array() { return Close(); }
  bool key(const std::string& name) {
    open_.back().key = Keep(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: ...": what follows the bracket.
    std::string_view what = error.what();
    if (size_t bracket = what.find("] "); bracket != what.npos) what.remove_prefix(bracket + 2);
    status_ = DataLoss("{}: not valid JSON, at byte {}: {}", document_, position, what);
    return false;
  }

  Result<JsonDocument> Take(bool complete) && {
    if (!status_.ok()) return std::move(status_);
    if (!complete || values_.size() != 1) return DataLoss("{}: not valid JSON", document_);
    return JsonDocument{.root = values_[0].value, .memory = std::move(memory_)};
  }

 private:
  struct Level {
    size_t first;  // of its elements in values_
    bool is_object;
    std::string_view key;  // of the member being read
  };

  bool Open(bool is_object) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      status_ = DataLoss("{}: JSON is nested deeper than {} levels", document_, kMaxJsonDepth);
      return false;
    }
    open_.push_back({values_.size(), is_object, {}});
    return true;
  }

  // Moves the elements from the stack into one block, and puts the container in their place.
  bool Close() {
    const Level level = open_.back();
    open_.pop_back();
    const size_t count = values_.size() - level.first;
    Json container;
    if (level.is_object) {
      auto* members = Allocate<JsonMember>(count);
      for (size_t i = 0; i < count; ++i) members[i] = values_[level.first + i];
      if (!KeysAreUnique({members, count})) return false;
      container.value = JsonObject{members, count};
    } else {
      auto* elements = Allocate<Json>(count);
      for (size_t i = 0; i < count; ++i) elements[i] = values_[level.first + i].value;
      container.value = JsonArray{elements, count};
    }
    values_.resize(level.first);
    return Add(container);
  }

  bool Add(const Json& value) {
    values_.push_back({open_.empty() ? std::string_view() : open_.back().key, value});
    return true;
  }

  // Two readers of a repeated key may see two different programs.
  bool KeysAreUnique(const JsonObject& object) {
    if (object.size() <= 8) {
      for (size_t i = 0; i < object.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (object[i].key == object[j].key) return Repeated(object[i].key);
      return true;
    }
    std::unordered_set<std::string_view> keys;
    for (const JsonMember& member : object)
      if (!keys.insert(member.key).second) return Repeated(member.key);
    return true;
  }

  bool Repeated(std::string_view key) {
    status_ = DataLoss("{}: key `{}` appears twice in one JSON object", document_, key);
    return false;
  }

  // Names, targets and stack traces come again and again.
  std::string_view Keep(const std::string& text) {
    if (auto known = strings_.find(text); known != strings_.end()) return *known;
    char* copy = static_cast<char*>(memory_->allocate(text.size() + 1, 1));
    std::memcpy(copy, text.data(), text.size());
    return *strings_.emplace(copy, text.size()).first;
  }

  template <typename T>
  T* Allocate(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    T* block = static_cast<T*>(memory_->allocate(count * sizeof(T) + 1, alignof(T)));
    std::uninitialized_default_construct_n(block, count);
    return block;
  }

  std::string_view document_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_;
  std::unordered_set<std::string_view> strings_;
  std::vector<Level> open_;
  std::vector<JsonMember>
      values_;  // elements of all open containers, innermost last; at the end the root
  Status status_;
};

}  // namespace

const char* Json::kind() const {
  static constexpr const char* kNames[] = {
      "null",     "a boolean", "an integer", "an integer beyond int64",
      "a number", "a string",  "an array",   "an object"};
  return kNames[value.index()];
}

Result<JsonDocument> ParseJson(std::string_view text, std::string_view document) {
  if (text.size() > kMaxJsonBytes)
    return DataLoss("{}: {} bytes of JSON are above the limit of {}", document, text.size(),
                    kMaxJsonBytes);
  TreeBuilder builder(document);
  const bool complete = nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &builder);
  return std::move(builder).Take(complete);
}

Result<JsonAt> JsonAt::Get(std::string_view key) const& {
  LS_ASSIGN_OR_RETURN(const JsonObject* object, Object());
  for (const auto& member : *object)
    if (member.key == key) return At(member);
  return Error(Code::kDataLoss, "key `{}` is missing", key);
}

Result<std::optional<JsonAt>> JsonAt::Find(std::string_view key) const& {
  LS_ASSIGN_OR_RETURN(const JsonObject* object, Object());
  for (const auto& member : *object)
    if (member.key == key && !At(member).is_null()) return std::optional<JsonAt>(At(member));
  return std::optional<JsonAt>();
}

Result<JsonAt> JsonAt::Only() const& {
  LS_ASSIGN_OR_RETURN(const JsonObject* object, Object());
  if (object->size() != 1)
    return Error(Code::kDataLoss, "expected an object with one key (a union), found {} keys",
                 object->size());
  return At((*object)[0]);
}

Result<const JsonArray*> JsonAt::Array() const {
  if (auto* array = std::get_if<JsonArray>(&value_->value)) return array;
  return Expected("an array");
}

Result<const JsonObject*> JsonAt::Object() const {
  if (auto* object = std::get_if<JsonObject>(&value_->value)) return object;
  return Expected("an object");
}

Result<int64_t> JsonAt::Int() const {
  if (auto* value = std::get_if<int64_t>(&value_->value)) return *value;
  if (auto* value = std::get_if<uint64_t>(&value_->value))
    return Error(Code::kDataLoss, "integer {} does not fit in 64 bits with sign", *value);
  return Expected("an integer");
}

Result<double> JsonAt::Double() const {
  if (auto* value = std::get_if<double>(&value_->value)) return *value;
  if (auto* value = std::get_if<int64_t>(&value_->value)) return static_cast<double>(*value);
  if (auto* value = std::get_if<uint64_t>(&value_->value)) return static_cast<double>(*value);
  if (auto* value = std::get_if<std::string_view>(&value_->value)) {
    if (*value == "Infinity") return std::numeric_limits<double>::infinity();
    if (*value == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (*value == "NaN") return std::numeric_limits<double>::quiet_NaN();
    return Error(Code::kDataLoss,
                 "expected a number, \"Infinity\", \"-Infinity\" or \"NaN\", found \"{}\"",
                 value->substr(0, 40));
  }
  return Expected("a number");
}

Result<bool> JsonAt::Bool() const {
  if (auto* value = std::get_if<bool>(&value_->value)) return *value;
  return Expected("a boolean");
}

Result<std::string> JsonAt::String() const {
  if (auto* value = std::get_if<std::string_view>(&value_->value)) return std::string(*value);
  return Expected("a string");
}

std::string JsonAt::Path() const {
  if (!parent_) return std::string(key_);
  std::string path = parent_->Path();
  if (!parent_->parent_) path += ": ";
  if (key_.empty()) return path + fmt::format("[{}]", index_);
  if (parent_->parent_) path += '.';
  return path.append(key_);
}

Status JsonAt::Expected(const char* what) const {
  return Error(Code::kDataLoss, "expected {}, found {}", what, value_->kind());
}

}  // namespace liveshape::pt2
