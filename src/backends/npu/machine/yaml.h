// A YAML document as a tree whose nodes know their line and column. libyaml reads it; aliases stay references, so a
// hostile file is no larger in memory than on disk.
//
//   LS_ASSIGN_OR_RETURN(const YamlDocument document, YamlDocument::Parse("vector: {lanes: 128}", "a.yaml"));
//   const YamlNode vector = document.root()["vector"];
//   vector["lanes"].scalar();                                       // "128"
//   return vector["lanes"].Error("should be 1 to {}", 64);          // "a.yaml:1:17: should be 1 to 64"
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace liveshape::npu {

class YamlNode {
 public:
  bool is_map() const;
  bool is_list() const;
  bool is_scalar() const;
  std::string_view scalar() const;  // of a scalar

  std::vector<std::pair<YamlNode, YamlNode>> entries()
      const;                                        // of a map, in order, also what comes twice
  std::vector<YamlNode> items() const;              // of a list
  YamlNode operator[](std::string_view key) const;  // of a map that has it

  template <typename... Args>
  Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return ErrorWith(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  friend class YamlDocument;
  struct Data;
  YamlNode(const Data* data, const void* node) : data_(data), node_(node) {}
  Status ErrorWith(const std::string& message) const;
  YamlNode At(int index) const;

  const Data* data_;  // of the document, which outlives its nodes
  const void* node_;
};

class YamlDocument {
 public:
  // Refused, with line and column: what is not YAML, no document, more than one. `where` begins every message.
  static Result<YamlDocument> Parse(std::string_view text, std::string_view where);
  YamlNode root() const;

 private:
  std::shared_ptr<const YamlNode::Data> data_;
};

}  // namespace liveshape::npu
