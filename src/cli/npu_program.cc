#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "backends/npu/machine/reader.h"
#include "backends/npu/producer/source.h"
#include "cli/load.h"
#include "cli/simulate.h"

namespace liveshape::cli {
namespace {

npu::Target TargetOf(const npu::Machine& machine, int64_t tile) {
  return {.scratchpad_bytes = machine.scratchpad_bytes,
          .array_rows = static_cast<int>(machine.array.rows),
          .array_cols = static_cast<int>(machine.array.columns),
          .arrays = static_cast<int>(machine.array.count),
          .lanes = static_cast<int>(machine.vector.lanes),
          .forced_tile = tile};
}

Result<std::unique_ptr<npu::Producer>> MakeProducer(const npu::Model& model) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return NotFound("no folder for temporary files: {}", error.message());
  const std::string path = folder / fmt::format("liveshape_producer_{}.so", getpid());
  LS_RETURN_IF_ERROR(npu::CompileProducer(npu::ProducerSource(model), path));
  auto producer = npu::Producer::Open(path, npu::Digest(model));
  std::remove(path.c_str());  // it stays mapped
  return producer;
}

}  // namespace

Result<NpuProgram> NpuProgram::Load(const SimulateOptions& options) {
  if (options.tile < 0) return InvalidArgument("--tile {}: should be 1 or more", options.tile);
  NpuProgram program;
  program.attributes_ = options.attributes;
  LS_ASSIGN_OR_RETURN(program.machine_, npu::ReadMachineFile(options.machine));
  LS_ASSIGN_OR_RETURN(program.artifact_, LoadDescription(options.model));
  const ir::Graph& graph = program.artifact_->graph();
  LS_ASSIGN_OR_RETURN(program.plan_, plan::MakePlan(graph, npu::PlanRules()));
  LS_ASSIGN_OR_RETURN(program.model_,
                      npu::Lower(graph, program.plan_, TargetOf(program.machine_, options.tile)));
  for (const npu::Kernel& kernel : program.model_.kernels) {
    std::vector<ls_trace_buffer>& buffers = program.buffers_.emplace_back();
    for (uint32_t v = 0; v < kernel.variants; ++v)
      for (const npu::Buffer& buffer : kernel.buffers)
        buffers.push_back({buffer.name.c_str(), buffer.bytes[v], buffer.versions, 0});
  }
  if (options.producer == "so") {
    LS_ASSIGN_OR_RETURN(program.producer_, MakeProducer(program.model_));
  }
  return program;
}

Point NpuProgram::BoundPoint() const {
  std::vector<int64_t> values;
  for (const SymbolDescription& symbol : artifact_->symbols()) values.push_back(symbol.max);
  return LiveShape(*artifact_, values);
}

// Values that are only known when a program runs count as their minimum, but for those that a kernel's size needs.
Result<std::vector<int64_t>> NpuProgram::Values(const Point& point) const {
  LS_ASSIGN_OR_RETURN(std::vector<int64_t> values, SymbolValues(*artifact_, point, "--sweep"));
  const sym::Table& table = artifact_->graph().table();
  for (uint32_t i = 0; i < table.symbols().size() && i < values.size(); ++i) {
    const sym::SymbolInfo& info = table.symbols()[i];
    const bool given = std::ranges::any_of(point, [&](const auto& entry) {
      return artifact_->FindSymbol(entry.first) == static_cast<int>(i);
    });
    if (given || info.stage == 0) continue;
    values[i] = info.lo;
    if (info.lo == info.hi) continue;
    for (const npu::Kernel& kernel : model_.kernels)
      for (const sym::Expr e : kernel.shape_args)
        if (std::ranges::count(table.FreeSymbols(e), i) > 0)
          return InvalidArgument(
              "the cycles of `{}` depend on `{}` ({} to {}), a value known at run: add --sweep "
              "{}=N",
              kernel.name, SymbolName(artifact_->symbols()[i]), info.lo, info.hi,
              SymbolName(artifact_->symbols()[i]));
  }
  return values;
}

Result<std::vector<npu::KernelAttributes>> NpuProgram::Attributes(std::span<const int64_t> values,
                                                                  const Point& point) const {
  const sym::Table& table = artifact_->graph().table();
  std::map<plan::StorageId, size_t> place;  // of a storage in `sizes`
  std::vector<std::pair<std::string, int64_t>> sizes;
  for (const npu::Kernel& kernel : model_.kernels)
    for (const npu::Tensor& tensor : kernel.tensors) {
      LS_ASSIGN_OR_RETURN(const int64_t bytes, table.Evaluate(tensor.bytes, values));
      const auto [at, is_new] = place.emplace(tensor.storage, sizes.size());
      if (is_new) sizes.emplace_back(tensor.name, 0);
      sizes[at->second].second = std::max(sizes[at->second].second, bytes);
    }
  LS_ASSIGN_OR_RETURN(const std::vector<npu::TensorAddress> addresses,
                      npu::AssignAddresses(sizes, 0));
  std::vector<npu::KernelAttributes> all;
  for (const npu::Kernel& kernel : model_.kernels) {
    npu::KernelAttributes attributes;
    attributes.kernel = kernel.name;
    LS_ASSIGN_OR_RETURN(attributes.shape_args, npu::ShapeArgs(kernel, values));
    for (const npu::Tensor& tensor : kernel.tensors)
      attributes.address_info.push_back(addresses[place.at(tensor.storage)]);
    if (!attributes_.empty()) {
      LS_ASSIGN_OR_RETURN(attributes, ThroughFile(attributes, point));
    }
    all.push_back(std::move(attributes));
  }
  return all;
}

// What is simulated is what the file says.
Result<npu::KernelAttributes> NpuProgram::ThroughFile(const npu::KernelAttributes& attributes,
                                                      const Point& point) const {
  std::string shape = ToString(point);
  std::ranges::replace(shape, ' ', '_');
  const std::filesystem::path folder = std::filesystem::path(attributes_) / shape;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = folder / (attributes.kernel + ".yaml");
  {
    std::ofstream file(path + ".partial");
    file << npu::ToYaml(attributes);
    if (error || !file.good()) return InvalidArgument("cannot write `{}`", path);
  }
  std::filesystem::rename(path + ".partial", path, error);
  if (error) return InvalidArgument("cannot write `{}`: {}", path, error.message());
  return npu::ReadAttributesFile(path);
}

Result<NpuRun> NpuProgram::Simulate(const Point& point, npu::PerfettoTrace* trace,
                                    const std::function<void(size_t)>& on_kernel) const {
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Values(point));
  LS_ASSIGN_OR_RETURN(const std::vector<npu::KernelAttributes> attributes,
                      Attributes(values, point));
  npu::Simulator simulator(machine_);
  if (trace) simulator.set_observer([trace](const npu::Slice& slice) { trace->Add(slice); });
  NpuRun run = {.shape = LiveShape(*artifact_, values), .total = {}, .kernels = {}};
  for (size_t i = 0; i < model_.kernels.size(); ++i) {
    const npu::Kernel& kernel = model_.kernels[i];
    const std::vector<int64_t>& shape_args = attributes[i].shape_args;
    const npu::KernelView view = {kernel.name, kernel.codes, buffers_[i],
                                  static_cast<uint32_t>(kernel.buffers.size()),
                                  attributes[i].address_info};
    const int64_t begin = simulator.cycles();
    LS_RETURN_IF_ERROR(simulator.BeginKernel(view));
    const int ended = producer_ ? producer_->kernel(i).walk(shape_args.data(),
                                                            static_cast<int32_t>(shape_args.size()),
                                                            simulator.sink())
                                : npu::Walk(kernel, shape_args, *simulator.sink());
    LS_ASSIGN_OR_RETURN(npu::KernelReport report, simulator.EndKernel(ended));
    if (trace) trace->AddKernel(kernel.name, begin, simulator.cycles());
    run.total += report.account;
    run.kernels.push_back(std::move(report));
    on_kernel(i + 1);
  }
  return run;
}

}  // namespace liveshape::cli
