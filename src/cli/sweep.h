// Sweeps of live shapes, as flags write them (the same grammar as python/liveshape/golden.py).
//
//   ParseSweeps({"S=1,2", "B=1,8"})        // (S=1,B=1) (S=1,B=8) (S=2,B=1) (S=2,B=8)
//   ParseSweeps({"S=4,B=2;S=8,B=1"})       // (S=4,B=2) (S=8,B=1)
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace liveshape::cli {

// Symbol values in the order they were written. An empty point is the shape of a static model.
using Point = std::vector<std::pair<std::string, int64_t>>;

// `name` is what messages call the flag.
Result<std::vector<Point>> ParseSweeps(std::span<const std::string> sweeps,
                                       std::string_view name = "--sweep");
std::string ToString(const Point& point);  // "S=4 B=2"; "static" if empty

Result<int64_t> ParseInt(std::string_view text);
// "S=4096" of flag `flag`.
Result<std::pair<std::string, int64_t>> ParseAssignment(std::string_view flag,
                                                        std::string_view text);

struct IntRange {
  int64_t low = 0, high = 1;  // both inclusive
};
Result<std::map<std::string, IntRange>> ParseIntRanges(
    std::span<const std::string> ranges);  // "ids=0:255"

}  // namespace liveshape::cli
