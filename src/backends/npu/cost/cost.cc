#include "backends/npu/cost/cost.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace liveshape::npu {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t CeilToInt(double x) { return static_cast<int64_t>(std::ceil(x)); }

// Weight tiles one after another on one array. With two weight buffers only the first load is seen, and what of the
// others streaming does not cover.
int64_t StreamCycles(const ArrayConfig& array, int64_t tiles, int64_t rows, int64_t preload) {
  const int64_t stream = rows * array.cycles_per_row;
  if (array.weight_buffers == 1) return tiles * (stream + preload);
  return preload + (tiles - 1) * std::max(stream, preload) + stream;
}

constexpr int64_t kMostWork = int64_t{1} << 50;  // sums of these do not overflow

}  // namespace

Cost ArrayCost(const Machine& machine, int64_t batch, int64_t m, int64_t k, int64_t n) {
  const ArrayConfig& array = machine.array;
  Cost cost;
  cost.work = batch * m * k * n;
  if (cost.work == 0) return cost;
  cost.preload = CeilDiv(std::min(k, array.rows), array.weight_rows_per_cycle);
  const int64_t tiles = batch * CeilDiv(k, array.rows) * CeilDiv(n, array.columns);
  // Arrays share the weight tiles, or each holds every weight tile and sees its share of the rows.
  const int64_t by_tiles = StreamCycles(array, CeilDiv(tiles, array.count), m, cost.preload);
  const int64_t rows = CeilDiv(m, array.count);
  const int64_t by_rows = StreamCycles(array, tiles, rows, cost.preload);
  cost.occupancy = std::min(by_tiles, by_rows);
  cost.weight_tiles = by_tiles <= by_rows ? CeilDiv(tiles, array.count) : tiles;
  cost.streamed_rows = by_tiles <= by_rows ? m : rows;
  cost.latency = array.drain_cycles;
  return cost;
}

Cost VectorCost(const Machine& machine, const Code& code, std::span<const int64_t> extents) {
  const VectorConfig& vector = machine.vector;
  const int64_t columns = extents.empty() ? 1 : extents.back();
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < extents.size(); ++i) rows *= extents[i];
  Cost cost;
  if (rows * columns == 0) return cost;
  const bool by_row =
      code.lane_reductions > 0 ||
      std::any_of(code.per_row.begin(), code.per_row.end(), [](float count) { return count > 0; });
  // What is reduced begins a new vector at each row; what is not fills the lanes across rows.
  const int64_t vectors =
      by_row ? rows * CeilDiv(columns, vector.lanes) : CeilDiv(rows * columns, vector.lanes);
  double latency = 0;
  for (size_t c = 0; c < vector.operations.size(); ++c) {
    const Pipeline& pipeline = vector.operations[c];
    const double per_element = code.per_element.at(c), per_row = code.per_row.at(c);
    // A number of a row lies in every lane after a reduction, so an operation on it takes one vector.
    const double issues =
        per_element * static_cast<double>(vectors) + per_row * static_cast<double>(rows);
    cost.class_cycles[c] = CeilToInt(issues * static_cast<double>(pipeline.interval));
    cost.occupancy += cost.class_cycles[c];
    cost.work += CeilToInt(per_element * static_cast<double>(rows * columns));
    latency += (per_element + per_row) * static_cast<double>(pipeline.latency);
  }
  cost.reduction_cycles = rows * code.lane_reductions * vector.lane_reduction.interval;
  cost.occupancy = std::max<int64_t>(cost.occupancy + cost.reduction_cycles, 1);
  cost.latency = CeilToInt(latency) + code.lane_reductions * vector.lane_reduction.latency;
  return cost;
}

Result<const Cost*> CostTable::Of(const ls_trace_compute& record) {
  if (record.code >= codes_.size())
    return InvalidArgument("a compute record has code {}, the kernel has {}", record.code,
                           codes_.size());
  const Code& code = codes_[record.code];
  if (record.rank > LS_TRACE_MAX_RANK)
    return InvalidArgument("`{}` has rank {}: should be {} or less", code.name, record.rank,
                           LS_TRACE_MAX_RANK);
  Extents extents = {};
  std::copy_n(record.extent, record.rank, extents.begin());
  Samples& samples = samples_[record.code];
  if (samples.last_extents != nullptr && *samples.last_extents == extents) return samples.last;
  auto found = samples.costs.find(extents);
  if (found == samples.costs.end()) {
    int64_t work = 1;
    for (uint32_t i = 0; i < record.rank; ++i)
      if (extents[i] < 0 || __builtin_mul_overflow(work, std::max<int64_t>(extents[i], 1), &work) ||
          work > kMostWork)
        return OutOfRange("`{}` has extents [{}]: should be 0 or more, and together below 2^50",
                          code.name, fmt::join(extents, ", "));
    if (code.unit == Unit::kArray && record.rank != 4)
      return InvalidArgument("`{}` has rank {}: an array takes [batch, M, K, N]", code.name,
                             record.rank);
    const Cost cost = code.unit == Unit::kArray
                          ? ArrayCost(machine_, extents[0], extents[1], extents[2], extents[3])
                          : VectorCost(machine_, code, {extents.data(), record.rank});
    samples.rank = std::max(samples.rank, record.rank);
    found = samples.costs.emplace(extents, cost).first;
  }
  samples.last_extents = &found->first;
  samples.last = &found->second;
  return samples.last;
}

Status CostTable::CheckSamples() const {
  for (size_t i = 0; i < samples_.size(); ++i)
    if (samples_[i].costs.size() > size_t{1} << samples_[i].rank)
      return Internal(
          "`{}` has {} distinct extents of rank {}: tiles are full or tails, so 2^{} at most",
          codes_[i].name, samples_[i].costs.size(), samples_[i].rank, samples_[i].rank);
  return {};
}

size_t CostTable::samples() const {
  size_t n = 0;
  for (const Samples& samples : samples_) n += samples.costs.size();
  return n;
}

std::string CostTable::Explain() const {
  std::string text;
  for (size_t i = 0; i < samples_.size(); ++i) {
    const Code& code = codes_[i];
    for (const auto& [extents, cost] : samples_[i].costs) {
      text += fmt::format("  {} [{}]: {} cycles + {} latency", code.name,
                          fmt::join(extents.begin(), extents.begin() + samples_[i].rank, ", "),
                          cost.occupancy, cost.latency);
      if (code.unit == Unit::kArray)
        text += fmt::format(
            " = {} weight tiles x ({} preload{} {} rows); {:.1f} % of the arrays\n",
            cost.weight_tiles, cost.preload,
            machine_.array.weight_buffers == 1 ? " +" : ", hidden behind", cost.streamed_rows,
            cost.occupancy == 0
                ? 0.0
                : 100.0 * static_cast<double>(cost.work) /
                      static_cast<double>(cost.occupancy * machine_.PeakMacsPerCycle() /
                                          machine_.cores));
      else
        text += fmt::format(" = {} simple, {} divide, {} transcendental, {} across lanes\n",
                            cost.class_cycles[0], cost.class_cycles[1], cost.class_cycles[2],
                            cost.reduction_cycles);
    }
  }
  return text;
}

}  // namespace liveshape::npu
