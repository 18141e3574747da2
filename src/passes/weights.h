// Constants that are read by row alone, through inputs that take any layout and encoding
// (OpDef::packed_input), and their replacement by a packed form. What packing and quantising share.
//
//   WeightEditor weights(graph);
//   for (const Weight& weight : weights.found()) {
//     auto packed = std::make_shared<std::vector<std::byte>>(...);   // made from weight.source
//     weights.Replace(weight, ir::Encoding::kPlain, std::move(packed));
//   }
//   weights.Finish();
#pragma once

#include <memory>
#include <vector>

#include "ops/linear/panel.h"
#include "passes/passes.h"

namespace liveshape::passes {

struct Weight {
  uint32_t constant = 0;               // index into graph.constants
  ir::ValueId view = ir::kNoValue;     // x @ w arrives as linear(x, permute(w)): the permuted value
  std::vector<uint32_t> readers = {};  // node indices
  ops::PanelSource source = {};        // its rows as the readers see them
};

class WeightEditor {
 public:
  // Finds matrices of f32, f16 and bf16.
  explicit WeightEditor(ir::Graph& graph);

  const std::vector<Weight>& found() const { return found_; }

  // The constant becomes `packed`, in kPanel16, with the readers' rows and columns.
  void Replace(const Weight& weight, ir::Encoding encoding,
               std::shared_ptr<const std::vector<std::byte>> packed);
  // Readers of a view read the constant itself; the views are dead.
  void Finish();

 private:
  bool OnlyRowReaders(ir::ValueId value) const;

  ir::Graph& graph_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<bool> is_result_;
  std::vector<Weight> found_;
  std::vector<ir::ValueId> replacement_;
};

}  // namespace liveshape::passes
