// Line and scatter plots as inline SVG, for report/html.h.
//
//   Plot plot = {.x_label = "S", .y_label = "cycles"};
//   plot.series.push_back({.name = "simulated", .colour = "#1f6feb", .points = {{1, 3101, "S=1"}}});
//   ToSvg(plot);
//
// Both axes are logarithmic; a point that is not above 0 is drawn at the axis' least value.
#pragma once

#include <string>
#include <vector>

namespace liveshape::npu {

struct PlotPoint {
  double x = 0, y = 0;
  std::string label;  // shown when pointed at
};

struct Series {
  std::string name, colour;
  std::vector<PlotPoint> points;
  bool line = true, dots = true;
};

struct Plot {
  std::string x_label, y_label;
  std::vector<Series> series;
};

std::string ToSvg(const Plot& plot);

std::string EscapeHtml(std::string_view text);

}  // namespace liveshape::npu
