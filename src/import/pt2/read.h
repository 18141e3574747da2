// Internal to the reader: JSON -> the structs of program.h, one function per schema type.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "import/pt2/json.h"
#include "import/pt2/program.h"

namespace liveshape::pt2 {

Result<TensorMeta> ReadTensorMeta(const JsonAt& at);
Result<SymInt> ReadSymInt(const JsonAt& at);
Result<SymFloat> ReadSymFloat(const JsonAt& at);
Result<SymBool> ReadSymBool(const JsonAt& at);
Result<Arg> ReadArg(const JsonAt& at);
Result<Graph> ReadGraph(const JsonAt& at);

// The two metadata strings of a node that people read.
SourceLine ParseStackTrace(std::string_view trace);
void ParseModuleStack(std::string_view stack, Node& node);

// Definitions before uses, once each, with a table entry; not into subgraphs, which are checked as they are read.
Status CheckGraph(const Graph& graph);

// The pytree specs of the root call (JSON strings) and what is needed to read them.
struct CallSpecs {
  std::string in_spec, out_spec;
  std::vector<std::string> forward_arg_names;
  // Serialized type name of a namedtuple -> its fields.
  std::map<std::string, std::vector<std::string>, std::less<>> namedtuple_fields;
};

// Fill `path` of user inputs and outputs. A spec that does not fit the signature (as of a partition that
// ExecuTorch cut out) leaves the placeholder names.
Status NameInputs(const CallSpecs& call, const std::vector<std::string>& placeholder_names,
                  std::vector<InputSpec>& specs);
Status NameOutputs(const CallSpecs& call, std::vector<OutputSpec>& specs);

}  // namespace liveshape::pt2
