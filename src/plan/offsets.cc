#include "plan/offsets.h"

#include <algorithm>
#include <map>

namespace liveshape::plan {
namespace {

bool LiveTogether(const Storage& a, const Storage& b) {
  return a.first_step <= b.last_step && b.first_step <= a.last_step;
}

std::vector<size_t> ArenaStorages(const std::vector<Storage>& storages) {
  std::vector<size_t> arena;
  for (size_t i = 0; i < storages.size(); ++i)
    if (storages[i].place == Place::kArena && storages[i].capacity > 0) arena.push_back(i);
  return arena;
}

// Places slots in the given order, each at the lowest gap that its live neighbours leave (best fit).
size_t PlaceSlots(std::vector<Storage>& storages, const std::vector<size_t>& order) {
  size_t end = 0;
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    Storage& s = storages[i];
    size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (size_t j : placed) {
      const Storage& other = storages[j];
      if (!LiveTogether(s, other)) continue;
      if (other.offset >= at + s.capacity && other.offset - at < best_gap) {
        best = at;
        best_gap = other.offset - at;
      }
      at = std::max(at, other.offset + other.capacity);
    }
    s.offset = best != SIZE_MAX ? best : at;
    end = std::max(end, s.offset + s.capacity);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                   [&](size_t a, size_t b) { return storages[a].offset < storages[b].offset; }),
                  i);
  }
  return end;
}

}  // namespace

size_t AssignOffsets(std::vector<Storage>& storages) {
  // Two classic orders; the better one is kept. Large first packs deep graphs well, by time packs chains.
  std::vector<size_t> by_size = ArenaStorages(storages), by_time = by_size;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](size_t a, size_t b) { return storages[a].capacity > storages[b].capacity; });
  const size_t time_bytes = PlaceSlots(storages, by_time);
  const size_t size_bytes = PlaceSlots(storages, by_size);
  return time_bytes < size_bytes ? PlaceSlots(storages, by_time) : size_bytes;
}

size_t LowerBound(const std::vector<Storage>& storages) {
  std::map<uint32_t, int64_t> change;  // bytes that begin or end at a step
  for (size_t i : ArenaStorages(storages)) {
    change[storages[i].first_step] += static_cast<int64_t>(storages[i].capacity);
    change[storages[i].last_step + 1] -= static_cast<int64_t>(storages[i].capacity);
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, delta] : change) most = std::max(most, live += delta);
  return static_cast<size_t>(most);
}

}  // namespace liveshape::plan
