// Which steps the tiles of a product serve before they are stored: pointwise chains and norms of its result. What lies
// between them is never stored, unless somebody else reads it too.
//
//   const std::vector<Fusion> fusions = *FindFusions(graph, plan, locations, absorbed, target);
//   fusions[0].product;                    // linear, at its own place in the plan
//   fusions[0].stages;                     // + residual, layer_norm; the kernel runs at the place of the last
//
// Found by the form of the graph alone, never by sizes, so that a static program fuses what the dynamic one does (N9). What
// depends on sizes, whether a row fits a tile, is a condition of the live ones: where it does not hold, `before_rows` are
// fused and the others are kernels of their own.
#pragma once

#include "backends/npu/lower/absorb.h"
#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

// Steps after its last read for which a slot stays as it was (plan::Rules::linger): as far as a product may be put off.
inline constexpr uint32_t kFusionReach = 8;
inline constexpr int kNotATile = -1;

struct FusedStage {
  const plan::Step* step;
  const ir::Node* node;
  Stage stage;
  std::vector<int> part;  // by input: which part of the tile it is, or kNotATile
  bool kept = false;      // its result is read by others too
};

struct Fusion {
  const plan::Step* product;
  std::vector<FusedStage> stages;
  // The first stage may read the result in slices of its last dim, as a gate and what it gates do after one product made
  // both. Where each begins: a tile has as many parts. {0}: all of it.
  std::vector<Expr> columns;
  bool product_kept = false;

  const plan::Operand& result() const { return stages.back().step->outputs[0]; }
  std::vector<const plan::Step*> steps() const;
  // Stages up to the first one that needs whole rows.
  size_t before_rows() const;
};

Result<std::vector<Fusion>> FindFusions(const ir::Graph& graph, const plan::Plan& plan,
                                        const plan::Locations& locations, const Absorbed& absorbed,
                                        const Target& target);

}  // namespace liveshape::npu
