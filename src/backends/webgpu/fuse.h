// What kernels ask when they look for neighbours to run together with, and whether that is safe.
//
//   const plan::Step* norm = WriterOf(l, l.in(0).storage);         // who made my input,
//   if (norm && OnlyReaderOf(l, l.in(0).storage) == &l.step) ...   // and is it made for me alone?
#pragma once

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// Steps after its last read for which a slot stays as it was (plan::Rules::linger): as far as a fusion may reach.
inline constexpr uint32_t kFusionReach = 8;

// The one step that writes a slot of the arena; null: several, or no slot.
const plan::Step* WriterOf(const Lowering& l, plan::StorageId storage);
// The one step that reads a slot; null: none, several, or it leaves the graph.
const plan::Step* OnlyReaderOf(const Lowering& l, plan::StorageId storage);

inline const ir::Node* NodeOf(const Lowering& l, const plan::Step* step) {
  return step == nullptr || step->node == ir::Graph::kNoNode ? nullptr : &l.graph.nodes[step->node];
}
inline bool IsOp(const Lowering& l, const plan::Step* step, const ir::OpDef& op) {
  const ir::Node* node = NodeOf(l, step);
  return node && node->op == &op;
}

// Run at the place of the last step, the fusion reads what its steps would have read, and nobody misses what lies
// between them.
bool IsSafe(const Lowering& l, const Fusion& fusion);

}  // namespace liveshape::webgpu
