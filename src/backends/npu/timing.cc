#include "backends/npu/timing.h"

#include <algorithm>
#include <map>

namespace liveshape::npu {

Target TargetOf(const Machine& machine, int64_t forced_tile) {
  return {.scratchpad_bytes = machine.scratchpad_bytes,
          .array_rows = static_cast<int>(machine.array.rows),
          .array_cols = static_cast<int>(machine.array.columns),
          .arrays = static_cast<int>(machine.array.count),
          .lanes = static_cast<int>(machine.vector.lanes),
          .forced_tile = forced_tile};
}

Timing::Timing(const Machine& machine, const ir::Graph& graph, const Model& model,
               const Producer* producer)
    : machine_(machine), graph_(graph), model_(model), producer_(producer) {
  for (const Kernel& kernel : model_.kernels) {
    std::vector<ls_trace_buffer>& buffers = buffers_.emplace_back();
    for (uint32_t v = 0; v < kernel.variants; ++v)
      for (const Buffer& buffer : kernel.buffers)
        buffers.push_back({buffer.name.c_str(), buffer.bytes[v], buffer.versions, 0});
  }
}

Result<std::vector<KernelAttributes>> Timing::Attributes(
    std::span<const int64_t> symbol_values) const {
  std::map<plan::StorageId, size_t> place;  // of a storage in `sizes`
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const Kernel& kernel : model_.kernels)
    for (const Tensor& tensor : kernel.tensors) {
      LS_ASSIGN_OR_RETURN(const int64_t bytes,
                          graph_.table().Evaluate(tensor.bytes, symbol_values));
      const auto [at, is_new] = place.emplace(tensor.storage, sizes.size());
      if (is_new) sizes.emplace_back(tensor.name, 0);
      sizes[at->second].second = std::max(sizes[at->second].second, bytes);
    }
  LS_ASSIGN_OR_RETURN(const std::vector<TensorAddress> addresses, AssignAddresses(sizes, 0));
  std::vector<KernelAttributes> all;
  for (const Kernel& kernel : model_.kernels) {
    KernelAttributes& attributes = all.emplace_back();
    attributes.kernel = kernel.name;
    LS_ASSIGN_OR_RETURN(attributes.shape_args, ShapeArgs(kernel, symbol_values));
    for (const Tensor& tensor : kernel.tensors)
      attributes.address_info.push_back(addresses[place.at(tensor.storage)]);
  }
  return all;
}

Result<ModelReport> Timing::Simulate(std::span<const KernelAttributes> attributes,
                                     PerfettoTrace* trace,
                                     const std::function<void(size_t)>& on_kernel) const {
  LS_CHECK(attributes.size() == model_.kernels.size());
  Simulator simulator(machine_);
  if (trace) simulator.set_observer([trace](const Slice& slice) { trace->Add(slice); });
  ModelReport report;
  for (size_t i = 0; i < model_.kernels.size(); ++i) {
    const Kernel& kernel = model_.kernels[i];
    const std::vector<int64_t>& shape_args = attributes[i].shape_args;
    const KernelView view = {kernel.name, kernel.codes, buffers_[i],
                             static_cast<uint32_t>(kernel.buffers.size()),
                             attributes[i].address_info};
    const int64_t begin = simulator.cycles();
    LS_RETURN_IF_ERROR(simulator.BeginKernel(view));
    const int ended = producer_ ? producer_->kernel(i).walk(shape_args.data(),
                                                            static_cast<int32_t>(shape_args.size()),
                                                            simulator.sink())
                                : Walk(kernel, shape_args, *simulator.sink());
    LS_ASSIGN_OR_RETURN(KernelReport one, simulator.EndKernel(ended));
    if (trace) trace->AddKernel(kernel.name, begin, simulator.cycles());
    report.total += one.account;
    report.kernels.push_back(std::move(one));
    if (on_kernel) on_kernel(i + 1);
  }
  return report;
}

}  // namespace liveshape::npu
