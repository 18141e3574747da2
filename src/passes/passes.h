// Backend-neutral passes: each is a function graph -> graph (in place), in a file of its name. The order
// is in pipeline.cc, which reads as a table of contents.
//
//   PassOptions options;
//   options.evaluate = ...;                               // how constants are folded
//   LS_RETURN_IF_ERROR(RunPipeline(graph, options));
//
// Every pass leaves a graph that ir::Verify accepts, with nodes in topological order. A pass that does not
// recognise something leaves it alone: a missed pattern costs time, never correctness.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace liveshape::passes {

// One weight that was quantised, and what it took.
struct QuantisedWeight {
  std::string name;
  size_t bytes_before = 0, bytes_after = 0;
};

struct PassOptions {
  // Runs a graph without inputs, symbols and states and gives the bytes of each output; set by whoever
  // has a backend at hand. Without it nothing is folded.
  std::function<Result<std::vector<std::vector<std::byte>>>(std::unique_ptr<ir::Graph> constants)>
      evaluate;
  // Told of constant bytes that were copied and will not be read again (MappedFile::Forget).
  std::function<void(std::span<const std::byte>)> forget;
  std::function<void(std::string_view pass, double ms)> progress;
  // What weights of linear and embedding are encoded in; kPlain: they are not. Each is told.
  ir::Encoding quantise = ir::Encoding::kPlain;
  std::function<void(const QuantisedWeight&)> quantised;
  bool verify_each = false;  // ir::Verify after every pass: tests
};

struct Pass {
  const char* name;
  Status (*run)(ir::Graph& graph, const PassOptions& options);
};
std::span<const Pass> Pipeline();
Status RunPipeline(ir::Graph& graph, const PassOptions& options);

// Clean-up
Status EliminateDeadCode(ir::Graph& graph, const PassOptions& options);  // also unused constants
Status EliminateCommonSubexpressions(ir::Graph& graph, const PassOptions& options);
Status MatmulToLinear(ir::Graph& graph, const PassOptions& options);
Status Canonicalise(ir::Graph& graph, const PassOptions& options);
Status FoldConstants(ir::Graph& graph, const PassOptions& options);
Status ReshapeConstants(ir::Graph& graph, const PassOptions& options);

// Recognition of decomposed forms
Status RecogniseSilu(ir::Graph& graph, const PassOptions& options);
Status RecogniseRmsNorm(ir::Graph& graph, const PassOptions& options);
Status RecogniseRope(ir::Graph& graph, const PassOptions& options);
Status RecogniseAttention(ir::Graph& graph, const PassOptions& options);
Status RemoveRepeatKv(ir::Graph& graph, const PassOptions& options);
// Masks that only say "the first n keys" become a limit, by symbol, host value or row (G6, W5).
Status RecogniseMasks(ir::Graph& graph, const PassOptions& options);

// Factors and terms by channel after a convolution (batch norm) move into its weight and bias.
Status FoldIntoConvolutions(ir::Graph& graph, const PassOptions& options);

// Last
Status MergeLinears(ir::Graph& graph, const PassOptions& options);  // those that share their input
Status FusePointwise(ir::Graph& graph, const PassOptions& options);
Status QuantiseWeights(ir::Graph& graph, const PassOptions& options);  // only if asked for
Status PackWeights(ir::Graph& graph, const PassOptions& options);      // kPanel16 for products
Status OrderByStage(ir::Graph& graph, const PassOptions& options);

}  // namespace liveshape::passes
