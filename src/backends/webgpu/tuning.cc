#include <charconv>
#include <cstring>
#include <string_view>

#include "backends/webgpu/kernel.h"

namespace liveshape::webgpu {

// What is not understood is left as it is: a benchmark's typo costs a measurement, not a session.
Tuning ReadTuning(const char* text) {
  Tuning t;
  const std::pair<std::string_view, int64_t*> names[] = {
      {"few_rows", &t.few_rows},
      {"gemv_lanes", &t.gemv_lanes},
      {"tile_m", &t.tile_m},
      {"tile_n", &t.tile_n},
      {"big_tile_m", &t.big_tile_m},
      {"big_tile_n", &t.big_tile_n},
      {"tile_columns", &t.tile_columns},
      {"big_tile_columns", &t.big_tile_columns},
      {"tile_depth", &t.tile_depth},
      {"big_tile_depth", &t.big_tile_depth},
      {"tile_splits", &t.tile_splits},
      {"big_tile_groups", &t.big_tile_groups},
      {"small_tile_groups", &t.small_tile_groups},
      {"fuse", &t.fuse},
      {"subgroups", &t.subgroups},
      {"whole_keys", &t.whole_keys},
  };
  for (std::string_view rest = text ? text : ""; !rest.empty();) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) continue;
    for (const auto& [name, value] : names)
      if (item.substr(0, equals) == name)
        std::from_chars(item.data() + equals + 1, item.data() + item.size(), *value);
  }
  return t;
}

}  // namespace liveshape::webgpu
