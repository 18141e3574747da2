// What `liveshape simulate` makes ready once a model, and asks at every live shape.
//
//   LS_ASSIGN_OR_RETURN(NpuProgram program, NpuProgram::Load(options));
//   LS_ASSIGN_OR_RETURN(NpuRun run, program.Simulate(point, trace, on_kernel));
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/npu/timing.h"
#include "cli/common.h"
#include "cli/options.h"

namespace liveshape::cli {

// An output of the tile programs beside what the CPU gives on the same inputs.
struct OutputValues {
  std::string name;
  std::vector<int64_t> dims;
  double sum = 0, cpu_sum = 0, largest_difference = 0;
};

struct NpuRun {
  Point shape;
  npu::Account total;
  std::vector<npu::KernelReport> kernels;
  std::vector<OutputValues> outputs = {};  // with --values
};

// What there is to tell at the end; simulate_report.cc tells it.
struct SimulatedSweep {
  const SimulateOptions& options;
  const npu::Machine& machine;
  const char* shapes = "sweep";  // or "static", or "bound"
  std::vector<NpuRun> runs = {};
};
std::string ToJson(const SimulatedSweep& sweep);
std::string ToText(const SimulatedSweep& sweep);
Status WriteHtml(const SimulatedSweep& sweep);  // to options.html

class NpuProgram {
 public:
  // Lowered, and with --producer so compiled, once for all shapes.
  static Result<NpuProgram> Load(const SimulateOptions& options);

  const npu::Machine& machine() const { return machine_; }
  const Artifact& artifact() const { return *artifact_; }
  size_t kernels() const { return model_->kernels.size(); }

  // Without symbols the static shape; every symbol at its bound otherwise.
  Point BoundPoint() const;

  Result<NpuRun> Simulate(const Point& point, npu::PerfettoTrace* trace,
                          const std::function<void(size_t)>& on_kernel) const;

 private:
  Result<std::vector<int64_t>> Values(const Point& point) const;
  Result<npu::KernelAttributes> ThroughFile(const npu::KernelAttributes& attributes,
                                            const Point& point) const;

  npu::Machine machine_;
  std::shared_ptr<const Artifact> artifact_;
  plan::Plan plan_;
  std::unique_ptr<npu::Model> model_;
  std::unique_ptr<npu::Producer> producer_;
  std::unique_ptr<npu::Timing> timing_;  // of these
  std::string attributes_;               // a folder, or empty
};

}  // namespace liveshape::cli
