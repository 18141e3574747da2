// Names for nested inputs and outputs, from torch's pytree specs.
//
// A spec is `[1, node]` with node = {type, context, children_spec}; a leaf has type null. What the context of a
// container type means is that type's own affair, but wherever children have names, the context is (JSON text of)
// a list of as many strings, bare (dict, OrderedDict), first in a list (dataclass), or under "dict_context"
// (defaultdict); a namedtuple's is a name under which the program lists the fields. So containers that are registered by other libraries are named too, and the rest count 0, 1, ...
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "import/pt2/read.h"

namespace liveshape::pt2 {
namespace {

// Paths repeat the keys above them for every leaf: without a limit a small file makes gigabytes of names.
constexpr size_t kMaxPathBytes = 16 << 20;

// The words that `value` is a list of, if it has `count` of them; integers count as words (`{0: x}`).
bool TakeKeys(const Json& value, size_t count, std::vector<std::string>& keys) {
  const auto* array = std::get_if<JsonArray>(&value.value);
  if (!array || array->size() != count) return false;
  std::vector<std::string> found;
  for (const Json& element : *array) {
    if (auto* text = std::get_if<std::string_view>(&element.value))
      found.emplace_back(*text);
    else if (auto* number = std::get_if<int64_t>(&element.value))
      found.push_back(fmt::format("{}", *number));
    else
      return false;
  }
  keys = std::move(found);
  return true;
}

std::vector<std::string> ChildKeys(const JsonAt& node, size_t count, const CallSpecs& call) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(fmt::format("{}", i));
  auto found = node.Find("context");
  if (!found.ok() || !*found) return keys;
  Json context = (**found).value();
  JsonDocument parsed_context;  // owns what `context` then points into
  if (auto* text = std::get_if<std::string_view>(&context.value)) {
    auto fields = call.namedtuple_fields.find(*text);
    if (fields != call.namedtuple_fields.end() && fields->second.size() == count)
      return fields->second;
    auto parsed = ParseJson(*text, "context");
    if (!parsed.ok()) return keys;  // some types have plain text there
    parsed_context = *std::move(parsed);
    context = parsed_context.root;
  }
  if (auto* object = std::get_if<JsonObject>(&context.value))
    for (const auto& [key, value] : *object)
      if (key == "dict_context" && TakeKeys(value, count, keys)) return keys;
  if (TakeKeys(context, count, keys)) return keys;
  if (auto* array = std::get_if<JsonArray>(&context.value); array && !array->empty())
    TakeKeys((*array)[0], count, keys);
  return keys;
}

struct Leaves {
  std::vector<std::string> paths;
  size_t bytes = 0;  // of all paths built on the way, also those of inner nodes
};

Status CollectLeaves(const JsonAt& node, const std::string& path, const CallSpecs& call,
                     Leaves& leaves) {
  leaves.bytes += path.size();
  if (leaves.bytes > kMaxPathBytes)
    return node.Error(Code::kDataLoss, "the names of nested values take over {} bytes",
                      kMaxPathBytes);
  LS_ASSIGN_OR_RETURN(auto type, node.Find("type"));
  if (!type) {
    leaves.paths.push_back(path);
    return {};
  }
  LS_ASSIGN_OR_RETURN(JsonAt children, node.Get("children_spec"));
  LS_ASSIGN_OR_RETURN(const JsonArray* array, children.Array());
  const std::vector<std::string> keys = ChildKeys(node, array->size(), call);
  for (size_t i = 0; i < array->size(); ++i)
    LS_RETURN_IF_ERROR(CollectLeaves(children.At(*array, i),
                                     path.empty() ? keys[i] : path + "." + keys[i], call, leaves));
  return {};
}

// `[1, node]` -> node.
Result<JsonAt> SpecRoot(const JsonAt& document) {
  LS_ASSIGN_OR_RETURN(const JsonArray* array, document.Array());
  if (array->size() != 2)
    return document.Error(Code::kDataLoss, "expected [protocol, spec], found {} elements",
                          array->size());
  LS_ASSIGN_OR_RETURN(int64_t protocol, document.At(*array, 0).Int());
  if (protocol != 1)
    return document.Error(Code::kUnsupported, "pytree protocol {} is not known (1 is)", protocol);
  return document.At(*array, 1);
}

// A dict key with a dot can collide with a nested path; names must still tell values apart.
void MakeUnique(std::vector<std::string*>& paths) {
  std::unordered_map<std::string, int>
      count;  // numbers go on where they stopped: many equal names stay linear
  for (std::string* path : paths) {
    const std::string wanted = *path;
    for (int n = ++count[wanted]; n > 1; n = ++count[wanted]) {
      *path = fmt::format("{}_{}", wanted, n);
      if (++count[*path] == 1) break;
    }
  }
}

// The positional argument's name where the file does not state it: placeholder `d_q_x` for leaf `q.x` of it is `d`.
std::string NameFromPlaceholder(const std::string& leaf, const std::string& placeholder,
                                size_t position) {
  if (placeholder.empty()) return fmt::format("arg{}", position);
  if (leaf.empty()) return placeholder;
  std::string suffix = "_" + leaf;
  std::ranges::replace(suffix, '.', '_');
  if (placeholder.size() > suffix.size() && placeholder.ends_with(suffix))
    return placeholder.substr(0, placeholder.size() - suffix.size());
  return fmt::format("arg{}", position);
}

// The paths of all leaves of the call (args, kwargs).
Result<std::vector<std::string>> InputPaths(const JsonAt& root, const CallSpecs& call,
                                            const std::vector<std::string>& placeholders) {
  Leaves leaves;
  LS_ASSIGN_OR_RETURN(JsonAt children, root.Get("children_spec"));
  LS_ASSIGN_OR_RETURN(const JsonArray* args_kwargs, children.Array());
  if (args_kwargs->size() != 2) return std::vector<std::string>();  // not a call's spec
  const JsonAt args = children.At(*args_kwargs, 0), kwargs = children.At(*args_kwargs, 1);
  LS_ASSIGN_OR_RETURN(auto args_type, args.Find("type"));
  if (!args_type) return std::vector<std::string>();
  LS_ASSIGN_OR_RETURN(JsonAt positional, args.Get("children_spec"));
  LS_ASSIGN_OR_RETURN(const JsonArray* array, positional.Array());
  for (size_t i = 0; i < array->size(); ++i) {
    const size_t first = leaves.paths.size();
    if (i < call.forward_arg_names.size()) {
      LS_RETURN_IF_ERROR(
          CollectLeaves(positional.At(*array, i), call.forward_arg_names[i], call, leaves));
      continue;
    }
    LS_RETURN_IF_ERROR(CollectLeaves(positional.At(*array, i), "", call, leaves));
    if (leaves.paths.size() == first) continue;  // an empty container
    const std::string name = NameFromPlaceholder(
        leaves.paths[first], first < placeholders.size() ? placeholders[first] : "", i);
    for (size_t j = first; j < leaves.paths.size(); ++j) {
      leaves.bytes += name.size();
      if (leaves.bytes > kMaxPathBytes)
        return root.Error(Code::kDataLoss, "the names of inputs take over {} bytes", kMaxPathBytes);
      leaves.paths[j] = leaves.paths[j].empty() ? name : name + "." + leaves.paths[j];
    }
  }
  LS_RETURN_IF_ERROR(CollectLeaves(kwargs, "", call, leaves));
  return std::move(leaves.paths);
}

}  // namespace

Status NameInputs(const CallSpecs& call, const std::vector<std::string>& placeholder_names,
                  std::vector<InputSpec>& specs) {
  std::vector<std::string*> paths;
  std::vector<std::string> placeholders;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (specs[i].kind != InputKind::kUserInput && specs[i].kind != InputKind::kConstantInput)
      continue;
    specs[i].path =
        placeholder_names[i].empty() ? fmt::format("arg{}", paths.size()) : placeholder_names[i];
    placeholders.push_back(placeholder_names[i]);
    paths.push_back(&specs[i].path);
  }
  if (!call.in_spec.empty()) {
    LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(call.in_spec, "in_spec"));
    JsonAt at("in_spec", document.root);
    LS_ASSIGN_OR_RETURN(JsonAt root, SpecRoot(at));
    LS_ASSIGN_OR_RETURN(std::vector<std::string> found, InputPaths(root, call, placeholders));
    if (found.size() == paths.size())
      for (size_t i = 0; i < paths.size(); ++i)
        if (!found[i].empty()) *paths[i] = std::move(found[i]);
  }
  MakeUnique(paths);
  return {};
}

Status NameOutputs(const CallSpecs& call, std::vector<OutputSpec>& specs) {
  std::vector<std::string*> paths;
  for (OutputSpec& spec : specs) {
    if (spec.kind != OutputKind::kUserOutput) continue;
    spec.path = fmt::format("out.{}", paths.size());
    paths.push_back(&spec.path);
  }
  if (!call.out_spec.empty()) {
    LS_ASSIGN_OR_RETURN(JsonDocument document, ParseJson(call.out_spec, "out_spec"));
    JsonAt at("out_spec", document.root);
    LS_ASSIGN_OR_RETURN(JsonAt root, SpecRoot(at));
    Leaves leaves;
    LS_RETURN_IF_ERROR(CollectLeaves(root, "", call, leaves));
    if (leaves.paths.size() == paths.size())
      for (size_t i = 0; i < paths.size(); ++i) {
        // A path that starts with a number would read as a position (`--input 0=x.npy`).
        const std::string& leaf = leaves.paths[i];
        *paths[i] = leaf.empty()                         ? "out"
                    : (leaf[0] >= '0' && leaf[0] <= '9') ? "out." + leaf
                                                         : leaf;
      }
  }
  MakeUnique(paths);
  return {};
}

}  // namespace liveshape::pt2
