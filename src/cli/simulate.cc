// liveshape simulate: cycles on an NPU at every live shape of a sweep, from one lowering.
#include "cli/simulate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>

#include "cli/load.h"

namespace liveshape::cli {
namespace {

// Of a whole sweep, on a terminal, from the first second on: [#####.....] 115/229 kernels, S=512
class Progress {
 public:
  explicit Progress(size_t kernels) : kernels_(kernels) {}
  ~Progress() {
    if (shown_) Say("\r\033[K");
  }
  void Begin(std::string shape, size_t done) {
    shape_ = std::move(shape);
    before_ = done;
  }
  void operator()(size_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(shown_ ? 100 : 1000)) return;
    last_ = now;
    shown_ = true;
    constexpr size_t kWidth = 30;
    const size_t full = (before_ + done) * kWidth / kernels_;
    Say("\r[{}{}] {}/{} kernels, {}\033[K", std::string(full, '#'), std::string(kWidth - full, '.'),
        before_ + done, kernels_, shape_);
    std::fflush(stderr);
  }

 private:
  std::string shape_;
  size_t kernels_, before_ = 0;
  bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Outputs of the same tile programs, on random inputs.
Result<std::vector<OutputValues>> RunValues(const SimulateOptions& options,
                                            const npu::Machine& machine, const Point& point) {
  LS_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options.model, options.constants));
  const Artifact& artifact = *model.artifact;
  LS_ASSIGN_OR_RETURN(const std::vector<int64_t> symbols, SymbolValues(artifact, point, "--sweep"));
  LS_ASSIGN_OR_RETURN(auto ranges, ParseIntRanges(options.ints));
  LS_ASSIGN_OR_RETURN(const std::vector<HostTensor> inputs,
                      RandomInputs(artifact, symbols, ranges));
  std::vector<HostTensor> outputs[2];
  BackendPtr backends[] = {MakeNpuBackend({.scratchpad_bytes = machine.scratchpad_bytes,
                                           .array_rows = static_cast<int>(machine.array.rows),
                                           .array_cols = static_cast<int>(machine.array.columns),
                                           .arrays = static_cast<int>(machine.array.count),
                                           .lanes = static_cast<int>(machine.vector.lanes),
                                           .tile = options.tile}),
                           MakeCpuBackend({})};
  for (size_t b = 0; b < 2; ++b) {
    LS_ASSIGN_OR_RETURN(auto session, Session::Create(model.artifact, std::move(backends[b]), {}));
    LS_RETURN_IF_ERROR(session->Run(Refs(inputs)));
    for (size_t i = 0; i < session->output_count(); ++i)
      outputs[b].push_back(HostTensor::CopyOf(session->output(i)));
  }
  std::vector<OutputValues> all;
  for (size_t i = 0; i < outputs[0].size(); ++i) {
    const HostTensor &ours = outputs[0][i], &cpu = outputs[1][i];
    OutputValues& values = all.emplace_back();
    values.name = artifact.outputs()[i].name;
    values.dims = ours.dims();
    size_t elements = 1;
    for (const int64_t dim : ours.dims()) elements *= static_cast<size_t>(dim);
    for (size_t e = 0; e < elements; ++e) {
      const double x = ElementAsDouble(ours.dtype(), ours.ref().data, e);
      const double y = ElementAsDouble(cpu.dtype(), cpu.ref().data, e);
      values.sum += x;
      values.cpu_sum += y;
      if (x != y && !(std::isnan(x) && std::isnan(y)))
        values.largest_difference = std::fmax(values.largest_difference, std::fabs(x - y));
    }
  }
  return all;
}

Status Simulate(const SimulateOptions& options) {
  LS_ASSIGN_OR_RETURN(const NpuProgram program, NpuProgram::Load(options));
  SimulatedSweep sweep = {.options = options, .machine = program.machine()};
  std::vector<Point> points;
  if (options.sweeps.empty()) {
    points.push_back(program.BoundPoint());
    sweep.shapes = points[0].empty() ? "static" : "bound";
  } else {
    LS_ASSIGN_OR_RETURN(points, ParseSweeps(options.sweeps));
  }
  std::unique_ptr<npu::PerfettoTrace> trace;
  if (!options.perfetto.empty()) {
    LS_ASSIGN_OR_RETURN(trace, npu::PerfettoTrace::Create(options.perfetto, sweep.machine));
  }
  {
    Progress progress(points.size() * program.kernels());
    int64_t origin = 0;
    for (const Point& point : points) {
      if (trace) trace->set_origin(origin);
      progress.Begin(ToString(point), sweep.runs.size() * program.kernels());
      auto run = program.Simulate(point, trace.get(), std::ref(progress));
      if (!run.ok())
        return std::move(run).status().Prefixed(
            (options.sweeps.empty() ? "no --sweep, so at the bound: " : "") + ToString(point));
      origin += run->total.cycles;
      if (options.values) {
        auto values = RunValues(options, sweep.machine, point);
        if (!values.ok()) return std::move(values).status().Prefixed(ToString(point));
        run->outputs = *std::move(values);
      }
      sweep.runs.push_back(*std::move(run));
    }
  }
  if (trace) LS_RETURN_IF_ERROR(trace->Close());
  if (!options.html.empty()) LS_RETURN_IF_ERROR(WriteHtml(sweep));
  fmt::print("{}", options.json ? ToJson(sweep) : ToText(sweep));
  return {};
}

}  // namespace

int RunSimulate(const SimulateOptions& options) {
  const Status status = Simulate(options);
  return status.ok() ? kGood : Fail("simulate", status, options.json);
}

}  // namespace liveshape::cli
