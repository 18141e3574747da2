// What the kernels of products share: which of the two products serves a dtype, and who is refused.
#pragma once

#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/plain.h"
#include "backends/cpu/kernel.h"

namespace liveshape::cpu {

inline Status RunProduct(const GemmCall& call, const KernelArgs& args) {
  if (HasFastGemm(call.c_dtype)) {
    Gemm(call, args.pool, args.scratch);
  } else {
    PlainGemm(call, args.pool);
  }
  return {};
}

inline Result<std::unique_ptr<Prepared>> PrepareProduct(const ir::Graph& graph,
                                                        const ir::Node& node) {
  const DType dtype = graph.type(node.outputs[0]).dtype;
  if (!HasFastGemm(dtype) && !HasPlainGemm(dtype))
    return Unsupported("{} of {} on the CPU", node.op->name, Name(dtype));
  return std::unique_ptr<Prepared>();
}

}  // namespace liveshape::cpu
