#include "backends/npu/machine/yaml.h"

#include <yaml.h>

#include <algorithm>

namespace liveshape::npu {

struct YamlNode::Data {
  explicit Data(std::string_view name) : where(name) {}
  ~Data() { yaml_document_delete(&document); }
  Data(const Data&) = delete;
  Data& operator=(const Data&) = delete;

  std::string where;
  yaml_document_t document = {};
};

namespace {

const yaml_node_t& As(const void* node) { return *static_cast<const yaml_node_t*>(node); }

Status ErrorAt(const std::string& where, const yaml_mark_t& mark, const std::string& message) {
  return InvalidArgument("{}:{}:{}: {}", where, mark.line + 1, mark.column + 1, message);
}

// libyaml looks at every open bracket with each token: a file of nothing but brackets would take it seconds. Brackets in
// text count too, which no file with fewer open ones than this will notice.
constexpr int kMostOpen = 64;

Status CheckNesting(std::string_view text, const std::string& where) {
  yaml_mark_t at = {};
  int open = 0;
  for (const char c : text) {
    open += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
    if (open > kMostOpen)
      return ErrorAt(where, at, fmt::format("more than {} brackets are open", kMostOpen));
    open = std::max(open, 0);
    at.column = c == '\n' ? 0 : at.column + 1;
    at.line += c == '\n';
  }
  return {};
}

}  // namespace

bool YamlNode::is_map() const { return As(node_).type == YAML_MAPPING_NODE; }
bool YamlNode::is_list() const { return As(node_).type == YAML_SEQUENCE_NODE; }
bool YamlNode::is_scalar() const { return As(node_).type == YAML_SCALAR_NODE; }

std::string_view YamlNode::scalar() const {
  const auto& scalar = As(node_).data.scalar;
  return {reinterpret_cast<const char*>(scalar.value), scalar.length};
}

YamlNode YamlNode::At(int index) const {
  // libyaml counts from 1, and takes what it only reads as not const.
  return {data_, yaml_document_get_node(const_cast<yaml_document_t*>(&data_->document), index)};
}

std::vector<std::pair<YamlNode, YamlNode>> YamlNode::entries() const {
  std::vector<std::pair<YamlNode, YamlNode>> entries;
  const auto& pairs = As(node_).data.mapping.pairs;
  for (const yaml_node_pair_t* pair = pairs.start; pair < pairs.top; ++pair)
    entries.emplace_back(At(pair->key), At(pair->value));
  return entries;
}

std::vector<YamlNode> YamlNode::items() const {
  std::vector<YamlNode> items;
  const auto& list = As(node_).data.sequence.items;
  for (const yaml_node_item_t* item = list.start; item < list.top; ++item)
    items.push_back(At(*item));
  return items;
}

YamlNode YamlNode::operator[](std::string_view key) const {
  for (const auto& [name, value] : entries())
    if (name.is_scalar() && name.scalar() == key) return value;
  LS_CHECK(false);  // the caller has seen to it
  return *this;
}

Status YamlNode::ErrorWith(const std::string& message) const {
  return ErrorAt(data_->where, As(node_).start_mark, message);
}

Result<YamlDocument> YamlDocument::Parse(std::string_view text, std::string_view where) {
  LS_RETURN_IF_ERROR(CheckNesting(text, std::string(where)));
  struct Parser {
    yaml_parser_t state = {};
    ~Parser() { yaml_parser_delete(&state); }
  } parser;
  if (yaml_parser_initialize(&parser.state) == 0) return ResourceExhausted("{}: no memory", where);
  yaml_parser_set_input_string(&parser.state, reinterpret_cast<const unsigned char*>(text.data()),
                               text.size());
  auto data = std::make_shared<YamlNode::Data>(where);
  yaml_document_t second = {};
  const bool read = yaml_parser_load(&parser.state, &data->document) != 0;
  const bool one = read && yaml_document_get_root_node(&data->document) != nullptr;
  const bool whole = one && yaml_parser_load(&parser.state, &second) != 0;
  const yaml_node_t* more = whole ? yaml_document_get_root_node(&second) : nullptr;
  const yaml_mark_t begins = more != nullptr ? more->start_mark : yaml_mark_t{};
  yaml_document_delete(&second);
  if (!read || (one && !whole)) {
    // What it could not decode has a place in bytes, but no line.
    const bool decoded = parser.state.error != YAML_READER_ERROR;
    return ErrorAt(
        data->where, decoded ? parser.state.problem_mark : parser.state.mark,
        fmt::format("not YAML: {}", parser.state.problem ? parser.state.problem : "no memory"));
  }
  if (!one) return ErrorAt(data->where, {}, "there is no document");
  if (more != nullptr)
    return ErrorAt(data->where, begins, "a second document: there should be one");
  YamlDocument document;
  document.data_ = std::move(data);
  return document;
}

YamlNode YamlDocument::root() const {
  return {data_.get(), yaml_document_get_root_node(const_cast<yaml_document_t*>(&data_->document))};
}

}  // namespace liveshape::npu
