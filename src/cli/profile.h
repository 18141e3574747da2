// run --profile: time per op, and how near it comes to what the machine can do.
//
//   LS_ASSIGN_OR_RETURN(Profiler profiler, Profiler::Make(*artifact, *backend, threads));
//   session->Run(inputs);
//   LS_RETURN_IF_ERROR(profiler.AddRun(session->symbol_values()));   // after each run: costs at its live shape
//   profiler.Print(session->profile());
//
// An op's roofline is the least time that its FLOPs at the peak rate of multiply-adds, or its bytes at the peak
// rate of reads, would take: the longer of the two. What lies in cache may beat the latter.
#pragma once

#include <span>
#include <vector>

#include "backends/cpu/peak.h"
#include "cli/json.h"
#include "liveshape/liveshape.h"
#include "plan/cost.h"
#include "runtime/backend.h"

namespace liveshape::cli {

class Profiler {
 public:
  // Measures the machine. Plans as the session does, so that its steps are ours.
  static Result<Profiler> Make(const Artifact& artifact, const Backend& backend, int threads);

  Status AddRun(std::span<const int64_t> symbol_values);

  void Print(const std::vector<ProfileEntry>& profile) const;
  void Write(JsonWriter& json, const std::vector<ProfileEntry>& profile) const;  // two members

 private:
  struct Row {
    ProfileEntry entry;
    double flops = 0, bytes = 0;  // over all runs
    double seconds() const { return entry.us * 1e-6; }
    double RooflineShare(const cpu::MachinePeak& peak) const;
  };
  std::vector<Row> Rows(const std::vector<ProfileEntry>& profile) const;  // slowest first

  cpu::MachinePeak peak_;
  plan::Plan plan_;
  plan::CostModel cost_;
  std::vector<double> flops_, bytes_;  // a step, summed over the runs
};

}  // namespace liveshape::cli
