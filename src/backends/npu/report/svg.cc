#include "backends/npu/report/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace liveshape::npu {
namespace {

constexpr double kWidth = 720, kHeight = 320, kLeft = 70, kRight = 16, kTop = 14, kBottom = 46;

// A logarithmic axis over decades that hold every positive value.
struct Axis {
  double low = 0, high = 1;  // powers of ten
  double from, to;           // where they lie

  double At(double value) const {
    const double log = value > 0 ? std::clamp(std::log10(value), low, high) : low;
    return from + (log - low) / (high - low) * (to - from);
  }
};

Axis Fit(const Plot& plot, double PlotPoint::* value, double from, double to) {
  double least = HUGE_VAL, most = 0;
  for (const Series& series : plot.series)
    for (const PlotPoint& point : series.points)
      if (point.*value > 0) {
        least = std::min(least, point.*value);
        most = std::max(most, point.*value);
      }
  Axis axis{.from = from, .to = to};
  if (most == 0) return axis;
  // A part of a decade where a sweep spans little.
  axis.low = std::floor(std::log10(least) * 4 + 1e-9) / 4;
  axis.high = std::ceil(std::log10(most) * 4 - 1e-9) / 4;
  if (axis.high - axis.low < 0.25) axis.low -= 0.25, axis.high += 0.25;
  return axis;
}

std::vector<double> Ticks(const Axis& axis) {
  std::vector<double> ticks;
  const bool fine = axis.high - axis.low < 3;
  for (double decade = std::floor(axis.low); decade <= axis.high; ++decade)
    for (double digit : fine ? std::vector<double>{1, 2, 5} : std::vector<double>{1}) {
      const double tick = digit * std::pow(10, decade);
      if (std::log10(tick) >= axis.low - 1e-9 && std::log10(tick) <= axis.high + 1e-9)
        ticks.push_back(tick);
    }
  return ticks;
}

std::string Short(double value) {
  for (const auto& [unit, name] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (value >= unit) return fmt::format("{:.3g}{}", value / unit, name);
  return fmt::format("{:.3g}", value);
}

}  // namespace

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  for (const char c : text) switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  return escaped;
}

std::string ToSvg(const Plot& plot) {
  const double right = kWidth - kRight, bottom = kHeight - kBottom;
  const Axis x = Fit(plot, &PlotPoint::x, kLeft, right), y = Fit(plot, &PlotPoint::y, bottom, kTop);
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{} over {}\">\n", kWidth,
                  kHeight, EscapeHtml(plot.y_label), EscapeHtml(plot.x_label));
  for (const double tick : Ticks(x))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
        "text-anchor=\"middle\">{4}</text>\n",
        x.At(tick), kTop, bottom, bottom + 16, Short(tick));
  for (const double tick : Ticks(y))
    svg += fmt::format(
        "<path class=\"grid\" d=\"M{1} {0:.1f}H{2}\"/><text x=\"{3}\" y=\"{4:.1f}\" "
        "text-anchor=\"end\">{5}</text>\n",
        y.At(tick), kLeft, right, kLeft - 6, y.At(tick) + 4, Short(tick));
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + right) / 2, bottom + 34, EscapeHtml(plot.x_label));
  svg += fmt::format(
      "<text x=\"14\" y=\"{0}\" text-anchor=\"middle\" transform=\"rotate(-90 14 "
      "{0})\">{1}</text>\n",
      (kTop + bottom) / 2, EscapeHtml(plot.y_label));
  double legend = kTop + 12;
  for (const Series& series : plot.series) {
    if (series.line) {
      std::string path;
      for (const PlotPoint& p : series.points)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.At(p.x), y.At(p.y));
      svg += fmt::format("<path class=\"line\" stroke=\"{}\" d=\"{}\"/>\n", series.colour, path);
    }
    if (series.dots)
      for (const PlotPoint& p : series.points)
        svg += fmt::format(
            "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" "
            "fill=\"{}\"><title>{}</title></circle>\n",
            x.At(p.x), y.At(p.y), series.colour, EscapeHtml(p.label));
    svg += fmt::format("<text x=\"{}\" y=\"{}\" style=\"fill:{}\">{}</text>\n", kLeft + 10, legend,
                       series.colour, EscapeHtml(series.name));
    legend += 15;
  }
  return svg + "</svg>\n";
}

}  // namespace liveshape::npu
