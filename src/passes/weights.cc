#include "passes/weights.h"

#include "ir/op.h"
#include "ops/ops.h"

namespace liveshape::passes {
namespace {

bool IsPlainMatrix(const ir::Constant& c) {
  return !c.packed() && c.external.empty() && c.dims.size() == 2 &&
         (c.dtype == DType::kF32 || c.dtype == DType::kF16 || c.dtype == DType::kBF16);
}

}  // namespace

WeightEditor::WeightEditor(ir::Graph& graph)
    : graph_(graph),
      users_(graph.Users()),
      is_result_(graph.values.size(), false),
      replacement_(graph.values.size(), ir::kNoValue) {
  for (const ir::Output& output : graph.outputs)
    if (output.value != ir::kNoValue) is_result_[output.value] = true;
  for (const ir::State& state : graph.states)
    if (state.result != ir::kNoValue) is_result_[state.result] = true;
  for (uint32_t i = 0; i < graph.constants.size(); ++i) {
    const ir::Constant& c = graph.constants[i];
    if (!IsPlainMatrix(c) || is_result_[c.value]) continue;
    Weight weight{.constant = i, .readers = users_[c.value]};
    weight.source = {.data = c.data.data(),
                     .dtype = c.dtype,
                     .rows = c.dims[0],
                     .cols = c.dims[1],
                     .row_stride = c.dims[1]};
    if (!OnlyRowReaders(c.value)) {
      if (weight.readers.size() != 1 || graph.nodes[weight.readers[0]].op != &ops::kPermute)
        continue;
      weight.view = graph.nodes[weight.readers[0]].outputs[0];
      if (is_result_[weight.view] || !OnlyRowReaders(weight.view)) continue;
      weight.readers = users_[weight.view];
      if (graph.nodes[users_[c.value][0]].Ints("perm")[0] == 1) {
        std::swap(weight.source.rows, weight.source.cols);
        std::swap(weight.source.row_stride, weight.source.col_stride);
      }
    }
    found_.push_back(std::move(weight));
  }
}

bool WeightEditor::OnlyRowReaders(ir::ValueId value) const {
  for (uint32_t n : users_[value]) {
    const ir::Node& node = graph_.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == value && node.op->packed_input != static_cast<int>(i)) return false;
  }
  return !users_[value].empty();
}

void WeightEditor::Replace(const Weight& weight, ir::Encoding encoding,
                           std::shared_ptr<const std::vector<std::byte>> packed) {
  ir::Constant& c = graph_.constants[weight.constant];
  c.dims = {weight.source.rows, weight.source.cols};
  c.encoding = encoding;
  c.layout = ir::ConstantLayout::kPanel16;
  c.data = *packed;
  c.owner = std::move(packed);
  if (weight.view == ir::kNoValue) return;
  graph_.values[c.value].type.dims = graph_.type(weight.view).dims;
  replacement_[weight.view] = c.value;
}

void WeightEditor::Finish() { graph_.ReplaceUses(replacement_); }

}  // namespace liveshape::passes
