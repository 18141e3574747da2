// Linear layers that read the same tensor (the projections of Q, K and V, gate and up) become one, on the
// rows of their weights joined, and slices of its result, which are views: the input is packed once, and one
// long product splits better over threads than three short ones. Bits stay: a column of a product does not
// depend on its neighbours. Measured on a loaded Zen machine (p10 of 15 to 300 runs): a Qwen3 of width 1024 with
// 2 threads 205 -> 183 ms at S=128 and the same at S=1; the demo model 0.034 -> 0.033 ms at S=1, 0.429 -> 0.413
// at S=100. Slices cost no copy: attention, rope, norms and pointwise programs take strided rows.
//
// A weight that something else reads too (a tied embedding) stays where it is: joining would store it twice.
// So does a layer whose result leaves the graph, since an output is dense and its slice would be copied.
#include <map>

#include "ops/ops.h"
#include "passes/match.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

class LinearMerger {
 public:
  LinearMerger(ir::Graph& graph, const PassOptions& options)
      : graph_(graph), options_(options), m_(graph), rewrite_(graph) {}

  Status Run() {
    std::map<std::pair<ValueId, DType>, std::vector<uint32_t>> by_input;  // in order of the graph
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
      if (CanJoin(graph_.nodes[n]))
        by_input[{graph_.nodes[n].inputs[0], m_.TypeOf(graph_.nodes[n].inputs[1])}].push_back(n);
    for (const auto& [input, layers] : by_input)
      if (layers.size() > 1) LS_RETURN_IF_ERROR(Merge(input.first, layers));
    rewrite_.Finish();
    return EliminateDeadCode(graph_, options_);
  }

 private:
  const ir::Constant* OwnConstant(ValueId v) const {
    if (graph_.value(v).origin != ir::Origin::kConstant) return nullptr;
    const ir::Constant& c = graph_.constants[graph_.value(v).index];
    const bool plain = c.layout == ir::ConstantLayout::kPlain &&
                       c.encoding == ir::Encoding::kPlain && c.external.empty();
    return plain && m_.Users(v).size() == 1 && !m_.IsKept(v) ? &c : nullptr;
  }

  static bool HasBias(const Node& node) {
    return node.inputs.size() > 2 && node.inputs[2] != ir::kNoValue;
  }

  bool CanJoin(const Node& node) const {
    return node.op == &ops::kLinear && OwnConstant(node.inputs[1]) &&
           (!HasBias(node) || OwnConstant(node.inputs[2])) && !m_.IsKept(node.outputs[0]);
  }

  // One constant of all rows; `sources` may have kNoValue where zeros stand for `rows` elements.
  ValueId Join(const std::vector<ValueId>& sources, const std::vector<int64_t>& rows, DType dtype,
               std::vector<int64_t> dims) {
    ir::Constant joined;
    joined.dtype = dtype;
    joined.dims = std::move(dims);
    auto bytes = std::make_shared<std::vector<std::byte>>();
    bytes->reserve(*ir::DenseBytes(dtype, joined.dims));
    for (size_t i = 0; i < sources.size(); ++i) {
      if (sources[i] == ir::kNoValue) {
        bytes->resize(bytes->size() + static_cast<size_t>(rows[i]) * SizeOf(dtype));
        continue;
      }
      const ir::Constant& c = *OwnConstant(sources[i]);
      bytes->insert(bytes->end(), c.data.begin(), c.data.end());
      if (options_.forget) options_.forget(c.data);
      joined.name += (joined.name.empty() ? "" : "+") + c.name;
    }
    joined.data = *bytes;
    joined.owner = std::move(bytes);
    return graph_.AddConstant(std::move(joined));
  }

  Status Merge(ValueId x, const std::vector<uint32_t>& layers) {
    std::vector<ValueId> weights, biases;
    std::vector<int64_t> rows;
    int64_t total = 0;
    bool has_bias = false;
    for (uint32_t n : layers) {
      const Node& node = graph_.nodes[n];
      weights.push_back(node.inputs[1]);
      biases.push_back(HasBias(node) ? node.inputs[2] : ir::kNoValue);
      rows.push_back(OwnConstant(node.inputs[1])->dims[0]);
      has_bias = has_bias || HasBias(node);
      total += rows.back();
    }
    const DType dtype = m_.TypeOf(weights[0]);
    const int64_t cols = OwnConstant(weights[0])->dims[1];
    std::vector<ValueId> inputs = {x, Join(weights, rows, dtype, {total, cols})};
    if (has_bias) inputs.push_back(Join(biases, rows, dtype, {total}));
    rewrite_.Before(layers[0]);
    LS_ASSIGN_OR_RETURN(ValueId merged, rewrite_.Emit(ops::kLinear, std::move(inputs), {}));
    const int64_t dim = static_cast<int64_t>(graph_.type(merged).dims.size()) - 1;
    int64_t start = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      LS_ASSIGN_OR_RETURN(ValueId part,
                          rewrite_.Emit(ops::kSlice, {merged},
                                        {{"dim", dim},
                                         {"start", Dims{graph_.table().Int(start)}},
                                         {"length", Dims{graph_.table().Int(rows[i])}},
                                         {"step", int64_t{1}}}));
      rewrite_.Replace(graph_.nodes[layers[i]].outputs[0], part);
      start += rows[i];
    }
    return {};
  }

  ir::Graph& graph_;
  const PassOptions& options_;
  Matcher m_;
  Rewriter rewrite_;
};

}  // namespace

Status MergeLinears(ir::Graph& graph, const PassOptions& options) {
  return LinearMerger(graph, options).Run();
}

}  // namespace liveshape::passes
