// Weights of linear layers and convolutions are stored as the CPU's matmul streams them, so that a load is
// an mmap. A tied embedding reads rows of the same constant: it is stored once.
#include "ir/op.h"
#include "ops/linear/panel.h"
#include "ops/ops.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

bool CanPack(const ir::Constant& c) {
  return c.layout == ir::ConstantLayout::kPlain && c.encoding == ir::Encoding::kPlain &&
         c.external.empty() && c.dims.size() == 2 &&
         (c.dtype == DType::kF32 || c.dtype == DType::kF16 || c.dtype == DType::kBF16);
}

bool IsProduct(const ir::Node& node) { return node.op == &ops::kLinear || node.op == &ops::kConv; }

// Every reader understands packed rows: the weight of a linear, a convolution or an embedding.
bool OnlyRowReaders(const ir::Graph& graph, const std::vector<uint32_t>& users, ir::ValueId value) {
  for (uint32_t n : users) {
    const ir::Node& node = graph.nodes[n];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      const bool reads_rows =
          (IsProduct(node) && i == 1) || (node.op == &ops::kEmbedding && i == 0);
      if (!reads_rows) return false;
    }
  }
  return !users.empty();
}

bool HasProduct(const ir::Graph& graph, const std::vector<uint32_t>& users) {
  for (uint32_t n : users)
    if (IsProduct(graph.nodes[n])) return true;
  return false;
}

void Pack(ir::Constant& c, bool transposed, const PassOptions& options) {
  const int64_t rows = c.dims[transposed ? 1 : 0], cols = c.dims[transposed ? 0 : 1];
  auto packed = std::make_shared<std::vector<std::byte>>(
      static_cast<size_t>(ops::Panel16Bytes(rows, cols, c.dtype)));
  ops::PackPanel16({.data = c.data.data(),
                    .dtype = c.dtype,
                    .rows = rows,
                    .cols = cols,
                    .row_stride = transposed ? 1 : cols,
                    .col_stride = transposed ? rows : 1},
                   packed->data());
  if (options.forget) options.forget(c.data);
  c.dims = {rows, cols};
  c.layout = ir::ConstantLayout::kPanel16;
  c.data = *packed;
  c.owner = packed;
}

}  // namespace

Status PackWeights(ir::Graph& graph, const PassOptions& options) {
  const auto users = graph.Users();
  std::vector<ir::ValueId> replacement(graph.values.size(), ir::kNoValue);
  std::vector<bool> is_output(graph.values.size(), false);
  for (const ir::Output& output : graph.outputs)
    if (output.value != ir::kNoValue) is_output[output.value] = true;
  for (const ir::State& state : graph.states)
    if (state.result != ir::kNoValue) is_output[state.result] = true;
  for (ir::Constant& c : graph.constants) {
    if (!CanPack(c) || is_output[c.value]) continue;
    const std::vector<uint32_t>& readers = users[c.value];
    if (OnlyRowReaders(graph, readers, c.value) && HasProduct(graph, readers)) {
      Pack(c, /*transposed=*/false, options);
      continue;
    }
    // x @ w arrives as linear(x, permute(w)).
    if (readers.size() != 1 || graph.nodes[readers[0]].op != &ops::kPermute) continue;
    const ir::ValueId view = graph.nodes[readers[0]].outputs[0];
    if (is_output[view] || !OnlyRowReaders(graph, users[view], view)) continue;
    Pack(c, /*transposed=*/true, options);
    graph.values[c.value].type.dims = graph.type(view).dims;
    replacement[view] = c.value;
  }
  graph.ReplaceUses(replacement);
  return EliminateDeadCode(graph, options);
}

}  // namespace liveshape::passes
