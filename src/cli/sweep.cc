#include "cli/sweep.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace liveshape::cli {
namespace {

constexpr size_t kMaxPoints = 100'000;  // a slip of the pen, not a benchmark

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t start = 0;;) {
    const size_t end = text.find(separator, start);
    parts.push_back(Trimmed(text.substr(start, end - start)));
    if (end == std::string_view::npos) return parts;
    start = end + 1;
  }
}

bool Names(const Point& point, const std::string& symbol) {
  return std::any_of(point.begin(), point.end(),
                     [&](const auto& entry) { return entry.first == symbol; });
}

// One flag: values of one symbol, or points.
Result<std::vector<Point>> ParseSweep(const std::string& text, std::string_view name) {
  const std::string flag = fmt::format("{} \"{}\"", name, text);
  std::vector<std::string_view> groups = Split(text, ';');
  std::erase_if(groups, [](std::string_view group) { return group.empty(); });
  if (groups.empty())
    return InvalidArgument("{}: empty (write S=1,2 or \"S=1,B=2;S=4,B=1\")", flag);

  std::vector<Point> points;
  if (groups.size() == 1 && std::count(text.begin(), text.end(), '=') == 1) {
    std::vector<std::string_view> values = Split(groups[0], ',');
    LS_ASSIGN_OR_RETURN(auto first, ParseAssignment(flag, values[0]));
    points.push_back({first});
    for (size_t i = 1; i < values.size(); ++i) {
      auto value = ParseInt(values[i]);
      if (!value.ok()) return std::move(value).status().Prefixed(flag);
      points.push_back({{first.first, *value}});
    }
    return points;
  }
  for (const std::string_view group : groups) {
    Point point;
    for (const std::string_view item : Split(group, ',')) {
      LS_ASSIGN_OR_RETURN(auto assignment, ParseAssignment(flag, item));
      if (Names(point, assignment.first))
        return InvalidArgument("{}: `{}` is given twice in `{}`", flag, assignment.first, group);
      point.push_back(std::move(assignment));
    }
    points.push_back(std::move(point));
  }
  return points;
}

}  // namespace

Result<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return InvalidArgument("`{}` does not fit 64 bits", text);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return InvalidArgument("`{}` is not an integer", text);
  return value;
}

Result<std::pair<std::string, int64_t>> ParseAssignment(std::string_view flag,
                                                        std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || Trimmed(text.substr(0, equals)).empty())
    return InvalidArgument("{}: `{}` should read SYMBOL=NUMBER, as in S=128", flag, text);
  auto value = ParseInt(Trimmed(text.substr(equals + 1)));
  if (!value.ok()) return std::move(value).status().Prefixed(flag);
  return std::pair(std::string(Trimmed(text.substr(0, equals))), *value);
}

Result<std::vector<Point>> ParseSweeps(std::span<const std::string> sweeps, std::string_view name) {
  std::vector<Point> product = {{}};
  for (const std::string& text : sweeps) {
    LS_ASSIGN_OR_RETURN(std::vector<Point> axis, ParseSweep(text, name));
    if (axis.size() > kMaxPoints / product.size())
      return InvalidArgument("{}: more than {} points", name, kMaxPoints);
    std::vector<Point> wider;
    for (const Point& before : product)
      for (const Point& part : axis) {
        Point point = before;
        for (const auto& entry : part) {
          if (Names(before, entry.first))
            return InvalidArgument("{} gives `{}` twice", name, entry.first);
          point.push_back(entry);
        }
        wider.push_back(std::move(point));
      }
    product = std::move(wider);
  }
  return product;
}

std::string ToString(const Point& point) {
  std::string text;
  for (const auto& [name, value] : point)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text.empty() ? "static" : text;
}

Result<std::map<std::string, IntRange>> ParseIntRanges(std::span<const std::string> ranges) {
  std::map<std::string, IntRange> parsed;
  for (const std::string& text : ranges) {
    const size_t equals = text.find('='), colon = text.find(':', equals);
    std::optional<IntRange> range;
    if (equals != std::string::npos && equals > 0 && colon != std::string::npos) {
      auto low = ParseInt(std::string_view(text).substr(equals + 1, colon - equals - 1));
      auto high = ParseInt(std::string_view(text).substr(colon + 1));
      if (low.ok() && high.ok() && *low <= *high) range = IntRange{*low, *high};
    }
    if (!range)
      return InvalidArgument("--int \"{}\": should read NAME=LOW:HIGH, both inclusive", text);
    parsed[text.substr(0, equals)] = *range;
  }
  return parsed;
}

}  // namespace liveshape::cli
