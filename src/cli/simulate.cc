// liveshape simulate: cycles on an NPU at every live shape of a sweep, from one lowering.
#include "cli/simulate.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>

#include "backends/npu/report/html.h"
#include "backends/npu/report/roofline.h"
#include "base/memory.h"
#include "cli/load.h"

namespace liveshape::cli {
namespace {

// On a terminal, from the first second on: [#####.....] 115/229 kernels, S=512
class Progress {
 public:
  Progress(std::string what, size_t kernels) : what_(std::move(what)), kernels_(kernels) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void operator()(size_t done) {
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || now - last_ < std::chrono::milliseconds(shown_ ? 100 : 1000)) return;
    last_ = now;
    shown_ = true;
    constexpr size_t kWidth = 30;
    const size_t full = kernels_ == 0 ? 0 : done * kWidth / kernels_;
    fmt::print(stderr, "\r[{}{}] {}/{} kernels, {}", std::string(full, '#'),
               std::string(kWidth - full, '.'), done, kernels_, what_);
    std::fflush(stderr);
  }

 private:
  std::string what_;
  size_t kernels_;
  bool terminal_ = isatty(STDERR_FILENO) != 0, shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// Outputs of the same tile programs, on random inputs, beside what the CPU gives on them.
struct Values {
  std::string name;
  std::vector<int64_t> dims;
  double sum = 0, cpu_sum = 0, largest_difference = 0;
};

Result<std::vector<Values>> RunValues(const SimulateOptions& options, const npu::Machine& machine,
                                      const Point& point) {
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
  std::vector<Values> all;
  for (size_t i = 0; i < outputs[0].size(); ++i) {
    const HostTensor &ours = outputs[0][i], &cpu = outputs[1][i];
    Values& values = all.emplace_back();
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

void WriteStalls(JsonWriter& json, const char* key,
                 std::span<const int64_t, static_cast<size_t>(npu::Stall::kCount)> idle) {
  json.Key(key).Object([&] {
    for (size_t i = 0; i < idle.size(); ++i)
      json.Field(npu::ToString(static_cast<npu::Stall>(i)), idle[i]);
  });
}

void WriteRun(JsonWriter& json, const npu::Machine& machine, const NpuRun& run,
              const std::vector<Values>& values) {
  const npu::Account& a = run.total;
  json.Object([&] {
    WriteShape(json.Key("shape"), run.shape);
    json.Field("cycles", a.cycles).Field("tiles", a.tiles).Field("records", a.records);
    json.Field("items", a.items);
    json.Field("microseconds",
               static_cast<double>(a.cycles) / static_cast<double>(machine.frequency_mhz));
    const npu::Utilisation use = npu::UtilisationOf(machine, a);
    json.Key("utilisation").Object([&] {
      json.Field("arrays", use.arrays).Field("lanes", use.lanes).Field("dma", use.dma);
      json.Field("dram", use.dram).Field("noc", use.noc);
    });
    json.Key("idle_cycles").Object([&] {
      WriteStalls(json, "arrays", a.array_idle);
      WriteStalls(json, "lanes", a.vector_idle);
    });
    json.Field("buffer_wait_cycles", a.load_waits).Field("backpressure_cycles", a.backpressure);
    json.Key("bytes").Object([&] {
      json.Field("loaded", a.loaded_bytes).Field("stored", a.stored_bytes);
      json.Field("bursts", a.burst_bytes);
    });
    json.Key("dram").Object([&] {
      json.Field("activates", a.activates).Field("refreshes", a.refreshes);
      json.Field("turnarounds", a.turnarounds);
    });
    const npu::Roofline roofline = npu::Place(machine, a);
    json.Key("roofline").Object([&] {
      json.Field("limit", npu::ToString(roofline.limit)).Field("share", roofline.Share(a));
      json.Field("intensity", roofline.intensity).Field("array_cycles", roofline.array_cycles);
      json.Field("lane_cycles", roofline.lane_cycles);
      json.Field("memory_cycles", roofline.memory_cycles);
    });
    json.Key("kernels").Array([&] {
      for (const npu::KernelReport& kernel : run.kernels)
        json.Object([&] {
          json.Field("name", kernel.name).Field("cycles", kernel.account.cycles);
          json.Field("tiles", kernel.account.tiles).Field("records", kernel.account.records);
          json.Field("samples", kernel.samples).Field("scratchpad_bytes", kernel.scratchpad_bytes);
          json.Field("arrays_busy", kernel.account.array_busy);
          json.Field("lanes_busy", kernel.account.vector_busy);
          json.Key("idle_cycles").Object([&] {
            WriteStalls(json, "arrays", kernel.account.array_idle);
            WriteStalls(json, "lanes", kernel.account.vector_idle);
          });
        });
    });
    if (values.empty()) return;
    json.Key("outputs").Array([&] {
      for (const Values& output : values)
        json.Object([&] {
          json.Field("name", output.name).Field("sum", output.sum);
          json.Field("cpu_sum", output.cpu_sum);
          json.Field("largest_difference", output.largest_difference);
        });
    });
  });
}

void Explain(const NpuRun& run) {
  fmt::print("{}\n", ToString(run.shape));
  for (const npu::KernelReport& kernel : run.kernels)
    fmt::print("{}: {} cycles, {} tiles, {} bytes of scratchpad\n{}", kernel.name,
               kernel.account.cycles, kernel.account.tiles, kernel.scratchpad_bytes,
               kernel.explained);
}

// The reason that cost most cycles of the units that do the work; having none left is no stall.
std::string MainStall(const npu::Account& a) {
  const auto& idle = a.array_busy >= a.vector_busy ? a.array_idle : a.vector_idle;
  static_assert(static_cast<size_t>(npu::Stall::kEnd) + 1 ==
                static_cast<size_t>(npu::Stall::kCount));
  const auto most = std::max_element(idle.begin(), idle.end() - 1);
  return fmt::format(
      "{} {:.0f} %", npu::ToString(static_cast<npu::Stall>(most - idle.begin())),
      a.cycles == 0 ? 0.0 : 100.0 * static_cast<double>(*most) / static_cast<double>(a.cycles));
}

// The size that the runs differ in; their number where they differ in several.
void PlaceOnAxis(std::span<const NpuRun> runs, std::string& axis, std::span<npu::HtmlRun> on_axis) {
  std::set<size_t> varying;
  for (const NpuRun& run : runs)
    for (size_t i = 0; i < run.shape.size(); ++i)
      if (run.shape[i].second != runs[0].shape[i].second) varying.insert(i);
  axis = varying.size() == 1 ? runs[0].shape[*varying.begin()].first : "run";
  for (size_t r = 0; r < runs.size(); ++r)
    on_axis[r].size = static_cast<double>(
        varying.size() == 1 ? runs[r].shape[*varying.begin()].second : static_cast<int64_t>(r + 1));
}

Status WriteHtml(const SimulateOptions& options, const npu::Machine& machine, std::string note,
                 std::span<NpuRun> runs) {
  npu::HtmlTitle title = {options.model, "", std::move(note)};
  std::vector<npu::HtmlRun> pages(runs.size());
  PlaceOnAxis(runs, title.axis, pages);
  for (size_t r = 0; r < runs.size(); ++r) {
    pages[r].shape = ToString(runs[r].shape);
    pages[r].total = runs[r].total;
    pages[r].kernels = std::move(runs[r].kernels);
  }
  const std::string html = npu::HtmlReport(machine, title, pages);
  AtomicFile file;
  LS_RETURN_IF_ERROR(file.Create(options.html));
  LS_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(html))));
  return file.Commit();
}

Status Simulate(const SimulateOptions& options) {
  LS_ASSIGN_OR_RETURN(const NpuProgram program, NpuProgram::Load(options));
  const npu::Machine& machine = program.machine();
  std::vector<Point> points;
  const bool at_bound = options.sweeps.empty();
  if (at_bound) {
    points.push_back(program.BoundPoint());
  } else {
    LS_ASSIGN_OR_RETURN(points, ParseSweeps(options.sweeps));
  }
  std::unique_ptr<npu::PerfettoTrace> trace;
  if (!options.perfetto.empty()) {
    LS_ASSIGN_OR_RETURN(trace, npu::PerfettoTrace::Create(options.perfetto, machine));
  }
  JsonWriter runs;
  std::vector<NpuRun> kept;  // for the page
  Table table({"live shape", "cycles", "µs", "tiles", "records", "arrays", "lanes", "DRAM", "MB",
               "limit", "of roofline", "main stall"});
  std::string values_text;
  int64_t origin = 0;
  Status failed;
  runs.Array([&] {
    for (const Point& point : points) {
      if (!failed.ok()) return;
      if (trace) trace->set_origin(origin);
      Progress progress(ToString(point), program.kernels());
      Result<NpuRun> run = program.Simulate(point, trace.get(), std::ref(progress));
      Result<std::vector<Values>> values = std::vector<Values>();
      if (run.ok() && options.values) values = RunValues(options, machine, point);
      failed = !run.ok() ? std::move(run).status() : std::move(values).status();
      if (!failed.ok()) {
        failed = std::move(failed).Prefixed(ToString(point));
        return;
      }
      origin += run->total.cycles;
      WriteRun(runs, machine, *run, *values);
      if (options.explain && !options.json) Explain(*run);
      const npu::Account& a = run->total;
      const npu::Utilisation use = npu::UtilisationOf(machine, a);
      const npu::Roofline roofline = npu::Place(machine, a);
      const auto percent = [](double x) { return fmt::format("{:.1f} %", 100 * x); };
      table.Add({ToString(run->shape), fmt::format("{}", a.cycles),
                 fmt::format("{:.1f}", static_cast<double>(a.cycles) /
                                           static_cast<double>(machine.frequency_mhz)),
                 fmt::format("{}", a.tiles), fmt::format("{}", a.records), percent(use.arrays),
                 percent(use.lanes), percent(use.dram),
                 fmt::format("{:.2f}", static_cast<double>(a.loaded_bytes + a.stored_bytes) / 1e6),
                 npu::ToString(roofline.limit), percent(roofline.Share(a)), MainStall(a)});
      for (const Values& output : *values)
        values_text +=
            fmt::format("{}: {} sums to {:.9g}, on the CPU {:.9g}; largest difference {:.3g}\n",
                        ToString(run->shape), output.name, output.sum, output.cpu_sum,
                        output.largest_difference);
      if (!options.html.empty()) kept.push_back(*std::move(run));
    }
  });
  LS_RETURN_IF_ERROR(failed);
  if (trace) LS_RETURN_IF_ERROR(trace->Close());
  if (!options.html.empty())
    LS_RETURN_IF_ERROR(WriteHtml(
        options, machine, at_bound && !points[0].empty() ? "Every size at its bound." : "", kept));
  const char* shape = !at_bound ? "sweep" : points[0].empty() ? "static" : "bound";
  if (options.json) {
    JsonWriter json;
    json.Object([&] {
      json.Field("model", options.model).Field("machine", machine.name);
      json.Field("producer", options.producer).Field("shapes", shape);
      json.Field("frequency_mhz", machine.frequency_mhz);
      json.Key("runs").Raw(runs.text());
    });
    fmt::print("{}\n", json.text());
    return {};
  }
  fmt::print("{}{}on {} at {} MHz, {} core{}{}\n", table.ToString(), values_text, machine.name,
             machine.frequency_mhz, machine.cores, machine.cores == 1 ? "" : "s",
             at_bound && !points[0].empty() ? "; no --sweep: at the bound" : "");
  return {};
}

}  // namespace

int RunSimulate(const SimulateOptions& options) {
  const Status status = Simulate(options);
  return status.ok() ? kGood : Fail("simulate", status, options.json);
}

}  // namespace liveshape::cli
