#include <chrono>

#include "passes/passes.h"

namespace liveshape::passes {

std::span<const Pass> Pipeline() {
  static constexpr Pass kPipeline[] = {
      {"eliminate dead code", EliminateDeadCode},
      {"matmul to linear", MatmulToLinear},
      {"canonicalise", Canonicalise},
      {"eliminate common subexpressions", EliminateCommonSubexpressions},
      {"recognise SiLU", RecogniseSilu},
      {"recognise RMSNorm", RecogniseRmsNorm},
      {"recognise RoPE", RecogniseRope},
      {"recognise attention", RecogniseAttention},
      {"remove repeat_kv", RemoveRepeatKv},
      {"recognise masks", RecogniseMasks},
      {"eliminate dead code", EliminateDeadCode},
      // After the masks: a folded arange is data, and data says nothing about the live length.
      {"fold constants", FoldConstants},
      {"canonicalise", Canonicalise},
      {"eliminate common subexpressions", EliminateCommonSubexpressions},
      {"reshape constants", ReshapeConstants},
      {"fold into convolutions", FoldIntoConvolutions},
      {"merge linears", MergeLinears},
      {"fuse pointwise", FusePointwise},
      {"eliminate dead code", EliminateDeadCode},
      {"quantise weights", QuantiseWeights},
      {"pack weights", PackWeights},
      {"order by stage", OrderByStage},
  };
  return kPipeline;
}

Status RunPipeline(ir::Graph& graph, const PassOptions& options) {
  for (const Pass& pass : Pipeline()) {
    const auto start = std::chrono::steady_clock::now();
    Status status = pass.run(graph, options);
    if (status.ok() && options.verify_each) status = ir::Verify(graph);
    if (!status.ok()) return std::move(status).Prefixed(fmt::format("pass `{}`", pass.name));
    if (options.progress)
      options.progress(pass.name, std::chrono::duration<double, std::milli>(
                                      std::chrono::steady_clock::now() - start)
                                      .count());
  }
  return {};
}

}  // namespace liveshape::passes
