#include "backends/npu/report/html.h"

#include <algorithm>
#include <numeric>

#include "backends/npu/report/roofline.h"
#include "backends/npu/report/svg.h"

namespace liveshape::npu {
namespace {

constexpr size_t kMostKernels = 24;  // of a run that are shown, the longest

constexpr const char* kStyle = R"css(
body{font:14px/1.45 system-ui,sans-serif;max-width:1080px;margin:2em auto;padding:0 1em;color:#1b1f24}
h1{font-size:1.5em;margin-bottom:0}h2{font-size:1.15em;margin-top:1.6em}p.note{color:#57606a}
table{border-collapse:collapse;margin:.6em 0;font-variant-numeric:tabular-nums}
th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid #d8dee4;white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{font-weight:600}
svg{max-width:760px;display:block;margin:.4em 0}svg text{font-size:11px;fill:#57606a}
.grid{stroke:#e6e9ed}.line{fill:none;stroke-width:2}.bar{display:flex;width:220px;height:12px}
details{margin:.6em 0}summary{cursor:pointer;font-weight:600}.swatch{display:inline-block;width:10px;height:10px;margin:0 .3em 0 1em}
)css";

struct Part {
  std::string name;
  const char* colour;
};

// What the cycles of a unit go into, in the order of Stall behind being busy.
const std::vector<Part>& Parts() {
  static const std::vector<Part> parts = [] {
    constexpr const char* kColours[] = {"#8250df", "#d1242f", "#bf8700",
                                        "#0969da", "#bc4c00", "#afb8c1"};
    static_assert(std::size(kColours) == static_cast<size_t>(Stall::kCount));
    std::vector<Part> all = {{"busy", "#1a7f37"}};
    for (size_t i = 0; i < std::size(kColours); ++i)
      all.push_back({ToString(static_cast<Stall>(i)), kColours[i]});
    return all;
  }();
  return parts;
}

bool ByArrays(const Account& a) { return a.array_busy >= a.vector_busy; }

// Of the unit that does most of the kernel's work.
std::vector<int64_t> CyclesByPart(const Account& a) {
  std::vector<int64_t> cycles = {ByArrays(a) ? a.array_busy : a.vector_busy};
  const auto& idle = ByArrays(a) ? a.array_idle : a.vector_idle;
  cycles.insert(cycles.end(), idle.begin(), idle.end());
  return cycles;
}

double Work(const Account& a) { return static_cast<double>(a.macs + a.vector_work); }

std::string Percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string Row(const std::vector<std::string>& cells, const char* tag = "td") {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += fmt::format("<{0}>{1}</{0}>", tag, cell);
  return row + "</tr>\n";
}

std::string RunTable(const Machine& machine, std::span<const HtmlRun> runs) {
  std::string table = "<table class=\"runs\">\n" +
                      Row({"live shape", "cycles", "µs", "tiles", "records", "MB", "arrays",
                           "lanes", "DMA", "DRAM", "NoC", "limit", "of roofline"},
                          "th");
  for (const HtmlRun& run : runs) {
    const Account& a = run.total;
    const Utilisation use = UtilisationOf(machine, a);
    const Roofline roofline = RooflineOf(machine, a);
    table += Row({EscapeHtml(run.shape), fmt::format("{}", a.cycles),
                  fmt::format("{:.1f}", static_cast<double>(a.cycles) /
                                            static_cast<double>(machine.frequency_mhz)),
                  fmt::format("{}", a.tiles), fmt::format("{}", a.records),
                  fmt::format("{:.2f}", static_cast<double>(a.loaded_bytes + a.stored_bytes) / 1e6),
                  Percent(use.arrays), Percent(use.lanes), Percent(use.dma), Percent(use.dram),
                  Percent(use.noc), ToString(roofline.limit), Percent(roofline.Share(a))});
  }
  return table + "</table>\n";
}

std::string Curve(const Machine& machine, const std::string& axis, std::span<const HtmlRun> runs) {
  std::vector<const HtmlRun*> sorted;
  for (const HtmlRun& run : runs) sorted.push_back(&run);
  std::ranges::sort(sorted, {}, [](const HtmlRun* run) { return std::pair(run->size, run); });
  Plot plot = {.x_label = axis, .y_label = "cycles", .series = {}};
  Series taken = {.name = "simulated", .colour = "#0969da", .points = {}};
  Series least = {.name = "roofline", .colour = "#1a7f37", .points = {}, .dots = false};
  for (const HtmlRun* run : sorted) {
    const auto cycles = static_cast<double>(run->total.cycles);
    taken.points.push_back(
        {run->size, cycles, fmt::format("{}: {} cycles", run->shape, run->total.cycles)});
    least.points.push_back({run->size, RooflineOf(machine, run->total).Cycles(), ""});
  }
  plot.series = {std::move(taken), std::move(least)};
  return "<h2>Cycles</h2>\n" + ToSvg(plot);
}

std::string RooflinePlot(const Machine& machine, std::span<const KernelReport* const> kernels) {
  Series dots = {.name = "kernels", .colour = "#0969da", .points = {}, .line = false};
  double least = 1, most = 1;
  for (const KernelReport* kernel : kernels) {
    const Account& a = kernel->account;
    const double intensity = RooflineOf(machine, a).intensity;
    if (intensity <= 0 || a.cycles == 0) continue;
    dots.points.push_back({intensity, Work(a) / static_cast<double>(a.cycles),
                           fmt::format("{}: {} cycles", kernel->name, a.cycles)});
    least = std::min(least, intensity);
    most = std::max(most, intensity);
  }
  if (dots.points.empty()) return "";
  const auto roof = [&](const char* name, const char* colour, double peak) {
    Series series = {.name = name, .colour = colour, .points = {}, .dots = false};
    const double ridge = peak / machine.PeakBytesPerCycle();
    for (const double x : {least, std::clamp(ridge, least, most), most})
      series.points.push_back({x, std::min(peak, x * machine.PeakBytesPerCycle()), ""});
    return series;
  };
  Plot plot = {.x_label = "operations per byte", .y_label = "operations per cycle", .series = {}};
  plot.series = {
      std::move(dots), roof("arrays", "#1a7f37", static_cast<double>(machine.PeakMacsPerCycle())),
      roof("lanes", "#bf8700", static_cast<double>(machine.vector.lanes * machine.cores))};
  return ToSvg(plot);
}

std::string KernelTable(std::span<const KernelReport* const> kernels, int64_t all) {
  std::vector<std::string> head = {"kernel", "cycles", "of run", "by"};
  for (const Part& part : Parts()) head.push_back(part.name);
  head.push_back("");
  std::string table = "<table class=\"kernels\">\n" + Row(head, "th");
  for (const KernelReport* kernel : kernels) {
    const Account& a = kernel->account;
    const std::vector<int64_t> cycles = CyclesByPart(a);
    const auto sum = static_cast<double>(
        std::max<int64_t>(1, std::accumulate(cycles.begin(), cycles.end(), int64_t{0})));
    std::vector<std::string> cells = {
        EscapeHtml(kernel->name), fmt::format("{}", a.cycles),
        Percent(static_cast<double>(a.cycles) / static_cast<double>(std::max<int64_t>(1, all))),
        ByArrays(a) ? "arrays" : "lanes"};
    std::string bar = "<div class=\"bar\">";
    for (size_t i = 0; i < cycles.size(); ++i) {
      cells.push_back(fmt::format("{}", cycles[i]));
      bar += fmt::format("<i style=\"width:{:.2f}%;background:{}\"></i>",
                         100 * static_cast<double>(cycles[i]) / sum, Parts()[i].colour);
    }
    cells.push_back(bar + "</div>");
    table += Row(cells);
  }
  return table + "</table>\n";
}

std::string RunDetails(const Machine& machine, const HtmlRun& run, bool open) {
  std::vector<const KernelReport*> kernels;
  for (const KernelReport& kernel : run.kernels) kernels.push_back(&kernel);
  std::ranges::sort(kernels, {}, [](const KernelReport* kernel) {
    return std::pair(-kernel->account.cycles, kernel);
  });
  const size_t left_out = kernels.size() - std::min(kernels.size(), kMostKernels);
  kernels.resize(kernels.size() - left_out);
  std::string html =
      fmt::format("<details{}><summary>{}: {} cycles in {} kernels</summary>\n",
                  open ? " open" : "", EscapeHtml(run.shape), run.total.cycles, run.kernels.size());
  html += RooflinePlot(machine, kernels) + KernelTable(kernels, run.total.cycles);
  if (left_out > 0) html += fmt::format("<p class=\"note\">and {} shorter ones</p>\n", left_out);
  return html + "</details>\n";
}

}  // namespace

std::string HtmlReport(const Machine& machine, const HtmlTitle& title,
                       std::span<const HtmlRun> runs) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<title>{0} on {1}</title><style>{2}</style></head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"note\">on {1}: {3} MHz, {4} core{5}, {6} multiply-adds, {7} lanes and {8:.0f} "
      "bytes of memory a cycle. {9}</p>\n",
      EscapeHtml(title.model), EscapeHtml(machine.name), kStyle, machine.frequency_mhz,
      machine.cores, machine.cores == 1 ? "" : "s", machine.PeakMacsPerCycle(),
      machine.vector.lanes * machine.cores, machine.PeakBytesPerCycle(), EscapeHtml(title.note));
  if (runs.size() > 1) html += Curve(machine, title.axis, runs);
  html += "<h2>Runs</h2>\n" + RunTable(machine, runs);
  html +=
      "<h2>Kernels</h2>\n<p class=\"note\">Where the cycles of the unit that does most of a "
      "kernel's work went, summed over cores:";
  for (const Part& part : Parts())
    html += fmt::format("<span class=\"swatch\" style=\"background:{}\"></span>{}", part.colour,
                        part.name);
  html += "</p>\n";
  for (const HtmlRun& run : runs) html += RunDetails(machine, run, runs.size() == 1);
  return html + "</body></html>\n";
}

}  // namespace liveshape::npu
