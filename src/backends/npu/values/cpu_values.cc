// A CPU kernel as the value function of a box: its views are the scratchpad's.
#include <algorithm>

#include "backends/cpu/kernel.h"
#include "backends/npu/lower/boxes.h"

namespace liveshape::npu {
namespace {

class CpuTile {
 public:
  CpuTile(const Lowering& l, const Boxes& boxes, const cpu::CpuKernel& kernel,
          std::unique_ptr<cpu::Prepared> prepared)
      : kernel_(kernel), prepared_(std::move(prepared)), pool_(1), outputs_(boxes.outputs) {
    for (const BoxOperand& operand : boxes.operands) {
      dims_of_.push_back(operand.dims);
      views_.push_back(
          {.dtype = operand.view.dtype, .rank = static_cast<int>(operand.dims.size())});
      numbers_.emplace_back(2 * operand.dims.size());
    }
    // Absent optional inputs keep their place.
    size_t next = outputs_;
    for (size_t i = 0; i < l.step.inputs.size(); ++i)
      input_at_.push_back(l.has(i) ? static_cast<int>(next++) : -1);
    inputs_.resize(input_at_.size());
    if (kernel.scratch)
      if (sym::Expr bytes = kernel.scratch(l.graph, *l.node, 1))
        scratch_.resize(static_cast<size_t>(l.graph.table().Bounds(bytes).hi) / 64 + 1);
  }

  Status Run(const ValueCall& call) {
    for (size_t i = 0; i < views_.size(); ++i) {
      int64_t* const dims = numbers_[i].data();
      const size_t rank = dims_of_[i].size();
      for (size_t d = 0; d < rank; ++d)
        dims[d] = dims_of_[i][d] == kNoDim ? 1 : call.record.argument[dims_of_[i][d]];
      int64_t stride = 1;
      for (size_t d = rank; d-- > 0; stride *= dims[d]) dims[rank + d] = stride;
      views_[i].data = i < call.record.operands ? call.operand[i] : nothing_.bytes;
      views_[i].dims = dims;
      views_[i].strides = dims + rank;
    }
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (input_at_[i] >= 0) inputs_[i] = views_[static_cast<size_t>(input_at_[i])];
    return kernel_.run({.inputs = inputs_,
                        .outputs = std::span(views_).first(outputs_),
                        .params = call.params,
                        .scratch = reinterpret_cast<std::byte*>(scratch_.data()),
                        .pool = pool_,
                        .prepared = prepared_.get(),
                        .in_place = false});
  }

 private:
  struct alignas(64) Line { std::byte bytes[64]; };
  const cpu::CpuKernel& kernel_;
  std::unique_ptr<cpu::Prepared> prepared_;
  ThreadPool pool_;
  size_t outputs_;
  std::vector<std::vector<int>> dims_of_;
  std::vector<std::vector<int64_t>> numbers_;  // by operand: dims, then strides
  std::vector<cpu::View> views_, inputs_;
  std::vector<int> input_at_;
  std::vector<Line> scratch_;
  Line nothing_ = {};  // of an input without elements
};

}  // namespace

Result<ValueFunction> CpuValues(const Lowering& l, const Boxes& boxes) {
  const auto kernels = cpu::AllKernels();
  const auto found =
      std::find_if(kernels.begin(), kernels.end(),
                   [&](const cpu::CpuKernel* kernel) { return kernel->op == l.node->op; });
  LS_CHECK(found != kernels.end());
  std::unique_ptr<cpu::Prepared> prepared;
  if ((*found)->prepare) {
    LS_ASSIGN_OR_RETURN(prepared, (*found)->prepare(l.graph, *l.node));
  }
  auto tile = std::make_shared<CpuTile>(l, boxes, **found, std::move(prepared));
  return ValueFunction([tile](const ValueCall& call) { return tile->Run(call); });
}

}  // namespace liveshape::npu
