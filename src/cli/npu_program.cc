#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "backends/npu/machine/reader.h"
#include "backends/npu/producer/source.h"
#include "base/memory.h"
#include "cli/load.h"
#include "cli/simulate.h"

namespace liveshape::cli {
namespace {

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
  LS_ASSIGN_OR_RETURN(npu::Model model, npu::Lower(graph, program.plan_,
                                                   npu::TargetOf(program.machine_, options.tile)));
  program.model_ = std::make_unique<npu::Model>(std::move(model));
  if (options.producer == "so") {
    LS_ASSIGN_OR_RETURN(program.producer_, MakeProducer(*program.model_));
  }
  program.timing_ = std::make_unique<npu::Timing>(program.machine_, graph, *program.model_,
                                                  program.producer_.get());
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
    for (const npu::Kernel& kernel : model_->kernels)
      for (const sym::Expr e : kernel.shape_args)
        if (std::ranges::count(table.FreeSymbols(e), i) > 0)
          return InvalidArgument(
              "the cycles of `{}` depend on `{}` ({} to {}), a value known at run: add --sweep "
              "{}=N",
              kernel.name, SymbolName(artifact_->symbols()[i]), info.lo, info.hi,
              SymbolName(artifact_->symbols()[i]));
  }
  // The checks of a bind: ranges, guards, capacities.
  std::vector<int64_t> block(plan_.program.block_size());
  plan_.program.SetSymbols(values, block);
  for (sym::Stage stage = 0; stage < plan_.program.stage_count(); ++stage)
    LS_RETURN_IF_ERROR(plan_.program.Run(stage, block));
  return values;
}

// What is simulated is what the file says.
Result<npu::KernelAttributes> NpuProgram::ThroughFile(const npu::KernelAttributes& attributes,
                                                      const Point& point) const {
  std::string shape = ToString(point);
  std::ranges::replace(shape, ' ', '_');
  const std::filesystem::path folder = std::filesystem::path(attributes_) / shape;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return InvalidArgument("cannot make the folder `{}`: {}", folder.string(), error.message());
  const std::string path = folder / (attributes.kernel + ".yaml"), yaml = npu::ToYaml(attributes);
  AtomicFile file;
  LS_RETURN_IF_ERROR(file.Create(path));
  LS_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(yaml))));
  LS_RETURN_IF_ERROR(file.Commit());
  return npu::ReadAttributesFile(path);
}

Result<NpuRun> NpuProgram::Simulate(const Point& point, npu::PerfettoTrace* trace,
                                    const std::function<void(size_t)>& on_kernel) const {
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Values(point));
  LS_ASSIGN_OR_RETURN(std::vector<npu::KernelAttributes> attributes, timing_->Attributes(values));
  if (!attributes_.empty())
    for (npu::KernelAttributes& each : attributes) {
      LS_ASSIGN_OR_RETURN(each, ThroughFile(each, point));
    }
  LS_ASSIGN_OR_RETURN(npu::ModelReport report, timing_->Simulate(attributes, trace, on_kernel));
  return NpuRun{LiveShape(*artifact_, values), std::move(report.total), std::move(report.kernels)};
}

}  // namespace liveshape::cli
