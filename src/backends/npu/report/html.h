// A report to read and to hand on: one HTML file with its style and drawings inside, no script, nothing to fetch.
//
//   HtmlRun run = {.shape = "S=16", .size = 16, .total = account, .kernels = kernels};
//   std::string page = HtmlReport(machine, {.model = "model.live", .axis = "S", .note = ""}, {&run, 1});
//
// Cycles as a curve over the size that the sweep varies, beside what the roofline allows; then for every run
// utilisation, the roofline with its kernels, and its longest kernels with what they waited for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/npu/machine/machine.h"
#include "backends/npu/sim/simulator.h"

namespace liveshape::npu {

struct HtmlRun {
  std::string shape;
  double size = 0;  // where it lies on the axis
  Account total;
  std::vector<KernelReport> kernels;
};

struct HtmlTitle {
  std::string model;
  std::string axis;  // what `size` is: a symbol, or "run" where several vary
  std::string note;  // below the title: which shapes
};

std::string HtmlReport(const Machine& machine, const HtmlTitle& title,
                       std::span<const HtmlRun> runs);

}  // namespace liveshape::npu
