// The importer's working state; see import.h for what it does. import.cc handles the program's edges
// (weights, inputs, outputs), nodes.cc what lies between.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "import/functional.h"
#include "import/import.h"
#include "import/random_weights.h"
#include "import/symbols.h"
#include "ops/aten.h"

namespace liveshape::import {

using sym::Expr;

Result<DType> ToDType(pt2::ScalarType type);

// "torch.ops.aten.add.Tensor" -> "aten.add.Tensor"
std::string ShortTarget(std::string_view target);
// Ops whose first output may share the storage of their first argument.
bool MayAlias(std::string_view target);
bool IsItem(std::string_view target);  // a tensor's one element, as a number
// Higher-order ops that only wrap a subgraph: the graph's argument index; operands follow it.
struct WrapperOp {
  const char* target;
  size_t graph_arg;
};
const WrapperOp* FindWrapper(std::string_view target);

class Importer {
 public:
  Importer(const pt2::Pt2Archive& archive, std::shared_ptr<const void> owner,
           const ImportOptions& options)
      : archive_(archive),
        owner_(std::move(owner)),
        options_(options),
        graph_(std::make_unique<ir::Graph>()),
        store_(*graph_) {
    if (options.random_weights) random_.emplace(archive, *options.random_weights);
  }
  Result<ImportResult> Run();

 private:
  // The names of one graph; a subgraph has its own.
  struct Env {
    const pt2::Graph& graph;
    std::map<std::string, TensorId, std::less<>> tensors;
    std::map<std::string, Expr, std::less<>> scalars;  // SymInt, SymBool, SymFloat
  };

  sym::Table& table() { return graph_->table(); }

  // import.cc
  static void FindWritten(const pt2::Graph& graph, std::map<std::string, std::string> roots,
                          std::set<std::string>& written);
  Result<std::span<const std::byte>> DenseBytes(const pt2::Weight& weight,
                                                std::shared_ptr<const void>& owner);
  Status AddWeights(Env& env);
  Status AddUserInputs(Env& env);
  Status AddOutputs(Env& env);
  void MarkUnusedInputs();

  // nodes.cc
  Status CheckTargets(const pt2::Graph& graph);
  void CollectUnknown(const pt2::Graph& graph, std::vector<std::string>& unknown);
  Status ImportNodes(Env& env);
  Status ImportNode(Env& env, const pt2::Node& node);
  Status ImportAten(Env& env, const pt2::Node& node, const std::string& target);
  Status ImportScalarNode(Env& env, const pt2::Node& node, const std::string& target,
                          bool* handled);
  Status ImportWrapper(Env& env, const pt2::Node& node, const WrapperOp& wrapper);
  Status ImportItem(Env& env, const pt2::Node& node);
  Status BindOutputs(Env& env, const pt2::Node& node, const std::vector<ir::ValueId>& values);
  Status CheckType(const Env& env, const std::string& name, ir::ValueId value);
  void MarkBornSymbols();
  void NameSizes(const ir::Dims& ours, ir::Dims& exported);
  Result<ir::ValueId> ReadTensor(Env& env, std::string_view name);
  Result<ops::AtenValue> ToAten(Env& env, const pt2::Arg& arg);
  template <typename T>
  Result<Expr> ToExpr(const pt2::SymValue<T>& value);
  Result<Expr> Scalar(Env& env, std::string_view name);
  Result<ir::TensorType> TypeOf(const pt2::TensorMeta& meta);
  Result<ops::AtenCall> MakeCall(Env& env, const pt2::Node& node, const std::string& target);

  const pt2::Pt2Archive& archive_;
  std::shared_ptr<const void> owner_;
  ImportOptions options_;
  std::optional<RandomWeights> random_;
  std::unique_ptr<ir::Graph> graph_;
  TensorStore store_;
  std::unique_ptr<ShapeSampler> sampler_;
  std::vector<ir::Guard> claims_;        // about data; the sampler does not draw data
  std::map<uint32_t, sym::Expr> named_;  // what torch calls by a symbol of its own, by our rule
  std::map<uint32_t, uint32_t> state_bases_;  // base -> state
  std::map<std::string, TensorId> weight_by_target_;
  std::map<std::string, uint32_t> input_by_path_;
  std::vector<uint32_t> flat_inputs_;  // by position in the call: the graph's input, or kNoInput
  std::vector<std::string> warnings_;
  std::vector<std::string> specialised_;
};

}  // namespace liveshape::import
