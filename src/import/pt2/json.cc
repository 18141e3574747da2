#include "import/pt2/json.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace liveshape::pt2 {
namespace {

// Builds our tree from nlohmann's events. The open containers are a stack of our own, so depth is a number
// that we check and not a call stack that overflows.
class TreeBuilder {
 public:
  explicit TreeBuilder(std::string_view document) : document_(document) {}

  bool null() { return Add(Json{}); }
  bool boolean(bool value) { return Add(Json{value}); }
  bool number_integer(int64_t value) { return Add(Json{value}); }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return Add(Json{static_cast<int64_t>(value)});
    return Add(Json{value});
  }
  bool number_float(double value, const std::string&) { return Add(Json{value}); }
  bool string(std::string& value) { return Add(Json{std::move(value)}); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(Json{JsonObject{}}); }
  bool end_object() { return Close(); }
  bool start_array(size_t) { return Open(Json{JsonArray{}}); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    open_.back().key = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 9: ...": the text after the bracket.
    std::string_view what = error.what();
    if (size_t bracket = what.find("] "); bracket != what.npos) what.remove_prefix(bracket + 2);
    status_ = DataLoss("{}: not valid JSON, at byte {}: {}", document_, position, what);
    return false;
  }

  Result<Json> Take(bool complete) && {
    if (!status_.ok()) return std::move(status_);
    if (!complete) return DataLoss("{}: not valid JSON", document_);
    return std::move(root_);
  }

 private:
  struct Level {
    Json container;
    std::string key;  // of the member being read
  };

  bool Open(Json container) {
    if (open_.size() >= static_cast<size_t>(kMaxJsonDepth)) {
      status_ = DataLoss("{}: JSON is nested deeper than {} levels", document_, kMaxJsonDepth);
      return false;
    }
    open_.push_back({std::move(container), {}});
    return true;
  }

  bool Close() {
    Level level = std::move(open_.back());
    open_.pop_back();
    if (auto* object = std::get_if<JsonObject>(&level.container.value)) {
      if (!KeysAreUnique(*object)) return false;
      object->shrink_to_fit();
    } else {
      std::get<JsonArray>(level.container.value).shrink_to_fit();
    }
    return Add(std::move(level.container));
  }

  bool Add(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
    } else if (auto* array = std::get_if<JsonArray>(&open_.back().container.value)) {
      array->push_back(std::move(value));
    } else {
      std::get<JsonObject>(open_.back().container.value)
          .push_back({std::move(open_.back().key), std::move(value)});
    }
    return true;
  }

  // Two readers of a repeated key may see two different programs.
  bool KeysAreUnique(const JsonObject& object) {
    std::unordered_set<std::string_view> keys;
    if (object.size() <= 8) {
      for (size_t i = 0; i < object.size(); ++i)
        for (size_t j = 0; j < i; ++j)
          if (object[i].key == object[j].key) return Repeated(object[i].key);
      return true;
    }
    for (const auto& [key, value] : object)
      if (!keys.insert(key).second) return Repeated(key);
    return true;
  }

  bool Repeated(std::string_view key) {
    status_ = DataLoss("{}: key `{}` appears twice in one JSON object", document_, key);
    return false;
  }

  std::string_view document_;
  std::vector<Level> open_;
  Json root_;
  Status status_;
};

}  // namespace

const char* Json::kind() const {
  static constexpr const char* kNames[] = {
      "null",     "a boolean", "an integer", "an integer beyond int64",
      "a number", "a string",  "an array",   "an object"};
  return kNames[value.index()];
}

Result<Json> ParseJson(std::string_view text, std::string_view document) {
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
  return At(object->front());
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
  if (auto* value = std::get_if<std::string>(&value_->value)) {
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
  if (auto* value = std::get_if<std::string>(&value_->value)) return *value;
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
