// What `liveshape simulate` tells: JSON, a table, a page.
#include <algorithm>
#include <set>

#include "backends/npu/report/html.h"
#include "backends/npu/report/roofline.h"
#include "base/memory.h"
#include "cli/simulate.h"

namespace liveshape::cli {
namespace {

void WriteStalls(JsonWriter& json, const char* key,
                 std::span<const int64_t, static_cast<size_t>(npu::Stall::kCount)> idle) {
  json.Key(key).Object([&] {
    for (size_t i = 0; i < idle.size(); ++i)
      json.Field(npu::ToString(static_cast<npu::Stall>(i)), idle[i]);
  });
}

void WriteRun(JsonWriter& json, const npu::Machine& machine, const NpuRun& run) {
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
    const npu::Roofline roofline = npu::RooflineOf(machine, a);
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
    if (run.outputs.empty()) return;
    json.Key("outputs").Array([&] {
      for (const OutputValues& output : run.outputs)
        json.Object([&] {
          json.Field("name", output.name).Field("sum", output.sum);
          json.Field("cpu_sum", output.cpu_sum);
          json.Field("largest_difference", output.largest_difference);
        });
    });
  });
}

std::string Explain(const NpuRun& run) {
  std::string text = ToString(run.shape) + "\n";
  for (const npu::KernelReport& kernel : run.kernels)
    text += fmt::format("{}: {} cycles, {} tiles, {} bytes of scratchpad\n{}", kernel.name,
                        kernel.account.cycles, kernel.account.tiles, kernel.scratchpad_bytes,
                        kernel.explained);
  return text;
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

}  // namespace

std::string ToJson(const SimulatedSweep& sweep) {
  JsonWriter json;
  json.Object([&] {
    json.Field("model", sweep.options.model).Field("machine", sweep.machine.name);
    json.Field("producer", sweep.options.producer).Field("shapes", sweep.shapes);
    json.Field("frequency_mhz", sweep.machine.frequency_mhz);
    json.Key("runs").Array([&] {
      for (const NpuRun& run : sweep.runs) WriteRun(json, sweep.machine, run);
    });
  });
  return json.text() + "\n";
}

std::string ToText(const SimulatedSweep& sweep) {
  const npu::Machine& machine = sweep.machine;
  Table table({"live shape", "cycles", "µs", "tiles", "records", "arrays", "lanes", "DRAM", "MB",
               "limit", "of roofline", "main stall"});
  std::string explained, values;
  for (const NpuRun& run : sweep.runs) {
    const npu::Account& a = run.total;
    const npu::Utilisation use = npu::UtilisationOf(machine, a);
    const npu::Roofline roofline = npu::RooflineOf(machine, a);
    const auto percent = [](double x) { return fmt::format("{:.1f} %", 100 * x); };
    if (sweep.options.explain) explained += Explain(run);
    table.Add({ToString(run.shape), fmt::format("{}", a.cycles),
               fmt::format("{:.1f}", static_cast<double>(a.cycles) /
                                         static_cast<double>(machine.frequency_mhz)),
               fmt::format("{}", a.tiles), fmt::format("{}", a.records), percent(use.arrays),
               percent(use.lanes), percent(use.dram),
               fmt::format("{:.2f}", static_cast<double>(a.loaded_bytes + a.stored_bytes) / 1e6),
               npu::ToString(roofline.limit), percent(roofline.Share(a)), MainStall(a)});
    for (const OutputValues& output : run.outputs)
      values += fmt::format("{}: {} sums to {:.9g}, on the CPU {:.9g}; largest difference {:.3g}\n",
                            ToString(run.shape), output.name, output.sum, output.cpu_sum,
                            output.largest_difference);
  }
  return fmt::format("{}{}{}on {} at {} MHz, {} core{}{}\n", explained, table.ToString(), values,
                     machine.name, machine.frequency_mhz, machine.cores,
                     machine.cores == 1 ? "" : "s",
                     sweep.shapes == std::string_view("bound") ? "; no --sweep: at the bound" : "");
}

Status WriteHtml(const SimulatedSweep& sweep) {
  npu::HtmlTitle title = {sweep.options.model, "", ""};
  if (sweep.shapes == std::string_view("bound")) title.note = "Every size at its bound.";
  std::vector<npu::HtmlRun> runs;
  for (const NpuRun& run : sweep.runs)
    runs.push_back({ToString(run.shape), 0, run.total, run.kernels});
  PlaceOnAxis(sweep.runs, title.axis, runs);
  const std::string html = npu::HtmlReport(sweep.machine, title, runs);
  AtomicFile file;
  LS_RETURN_IF_ERROR(file.Create(sweep.options.html));
  LS_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(html))));
  return file.Commit();
}

}  // namespace liveshape::cli
