// A trace for ui.perfetto.dev or chrome://tracing, written as it happens: units of each core as tracks, transfers as
// overlapping spans, kernels above them. Times are microseconds of the machine.
//
//   LS_ASSIGN_OR_RETURN(auto trace, PerfettoTrace::Create("trace.json", machine));
//   simulator.set_observer([&](const Slice& slice) { trace->Add(slice); });
//   trace->AddKernel("k0_linear", begin, end);
//   LS_RETURN_IF_ERROR(trace->Close());             // only now is there a trace.json
#pragma once

#include <cstdio>
#include <memory>
#include <string>

#include "backends/npu/machine/machine.h"
#include "backends/npu/sim/operation.h"
#include "base/status.h"

namespace liveshape::npu {

class PerfettoTrace {
 public:
  static Result<std::unique_ptr<PerfettoTrace>> Create(const std::string& path,
                                                       const Machine& machine);
  ~PerfettoTrace();  // without Close: no file
  PerfettoTrace(const PerfettoTrace&) = delete;
  PerfettoTrace& operator=(const PerfettoTrace&) = delete;

  // Cycles of what follows count from here: runs of a sweep lie one after another.
  void set_origin(int64_t cycle) { origin_ = cycle; }
  void Add(const Slice& slice);
  void AddKernel(const std::string& name, int64_t begin, int64_t end);
  Status Close();

 private:
  PerfettoTrace(std::string path, FILE* file, const Machine& machine);
  double Microseconds(int64_t cycle) const;
  void Write(const std::string& event);

  std::string path_, temporary_;
  FILE* file_;
  double mhz_;
  int64_t origin_ = 0;
  uint64_t transfers_ = 0;
  bool first_ = true, failed_ = false;
};

}  // namespace liveshape::npu
