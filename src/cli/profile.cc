#include "cli/profile.h"

#include <algorithm>
#include <cstdio>

#include "cli/common.h"

namespace liveshape::cli {

Result<Profiler> Profiler::Make(const Artifact& artifact, const Backend& backend, int threads) {
  Profiler profiler;
  ThreadPool pool(threads);
  profiler.peak_ = cpu::MeasurePeak(pool);
  const plan::Rules rules = backend.rules();
  LS_ASSIGN_OR_RETURN(profiler.plan_, plan::MakePlan(artifact.graph(), rules));
  profiler.cost_ = plan::MakeCostModel(artifact.graph(), profiler.plan_, rules);
  profiler.flops_.resize(profiler.plan_.steps.size());
  profiler.bytes_.resize(profiler.plan_.steps.size());
  return profiler;
}

Status Profiler::AddRun(std::span<const int64_t> symbol_values) {
  LS_ASSIGN_OR_RETURN(const plan::CostPoint at, cost_.At(plan_, symbol_values));
  for (size_t i = 0; i < at.steps.size(); ++i) {
    flops_[i] += static_cast<double>(at.steps[i].needed_flops);
    bytes_[i] += static_cast<double>(at.steps[i].bytes);
  }
  return {};
}

double Profiler::Row::RooflineShare(const cpu::MachinePeak& peak) const {
  return seconds() > 0 ? std::max(flops / peak.flops, bytes / peak.bytes) / seconds() : 0;
}

std::vector<Profiler::Row> Profiler::Rows(const std::vector<ProfileEntry>& profile) const {
  std::vector<Row> rows;
  for (size_t i = 0; i < profile.size() && i < flops_.size(); ++i)
    rows.push_back({profile[i], flops_[i], bytes_[i]});
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.entry.us > b.entry.us; });
  return rows;
}

void Profiler::Print(const std::vector<ProfileEntry>& profile) const {
  double total = 0;
  for (const ProfileEntry& entry : profile) total += entry.us;
  Table table({"op", "node", "source", "calls", "µs", "%", "GFLOP/s", "GB/s", "of roofline"});
  for (const Row& row : Rows(profile)) {
    const double seconds = std::max(row.seconds(), 1e-12);
    table.Add({row.entry.op, row.entry.node, row.entry.source, fmt::format("{}", row.entry.calls),
               fmt::format("{:.1f}", row.entry.us),
               fmt::format("{:.1f}", total > 0 ? 100 * row.entry.us / total : 0),
               row.flops > 0 ? fmt::format("{:.2f}", row.flops / seconds * 1e-9) : "",
               fmt::format("{:.2f}", row.bytes / seconds * 1e-9),
               fmt::format("{:.0f} %", 100 * row.RooflineShare(peak_))});
  }
  fmt::print("\n{}machine, {} thread{}: {:.1f} GFLOP/s of f32 multiply-adds, {:.1f} GB/s read\n",
             table.ToString(), peak_.threads, peak_.threads == 1 ? "" : "s", peak_.flops * 1e-9,
             peak_.bytes * 1e-9);
}

void Profiler::Write(JsonWriter& json, const std::vector<ProfileEntry>& profile) const {
  json.Key("machine").Object([&] {
    json.Field("threads", peak_.threads)
        .Field("gflops", peak_.flops * 1e-9)
        .Field("gbytes_per_second", peak_.bytes * 1e-9);
  });
  json.Key("profile").Array([&] {
    for (const Row& row : Rows(profile))
      json.Object([&] {
        const double seconds = std::max(row.seconds(), 1e-12);
        json.Field("op", row.entry.op).Field("node", row.entry.node);
        json.Field("source", row.entry.source);
        json.Field("us", row.entry.us).Field("calls", row.entry.calls);
        json.Field("flops", row.flops).Field("bytes", row.bytes);
        json.Field("gflops", row.flops / seconds * 1e-9);
        json.Field("gbytes_per_second", row.bytes / seconds * 1e-9);
        json.Field("roofline_share", row.RooflineShare(peak_));
      });
  });
}

}  // namespace liveshape::cli
