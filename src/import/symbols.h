// Symbols of a program: their ranges, what people call them, where they enter, and its guards.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/import.h"

namespace liveshape::import {

// Declares every symbol with its final range before any expression is built: simplification relies on
// ranges, so they must not widen later.
Status DeclareSymbols(const pt2::Pt2Archive& archive, const ImportOptions& options,
                      sym::Table& table);

inline constexpr uint32_t kNoInput = ~0u;

// Guards name sizes by path (`L['d']['x'].size()[0]`) or by position in the call (`L['flat_args'][1]...`).
Status ImportGuards(const pt2::Program& program,
                    const std::map<std::string, uint32_t>& input_by_path,
                    const std::vector<uint32_t>& flat_inputs, ir::Graph& graph,
                    std::vector<std::string>& warnings);

// Dims that liveshape.save recorded with a name although the export holds a constant: torch specialised them.
Status FindSpecialisedDims(const pt2::Pt2Archive& archive, const ir::Graph& graph,
                           const std::map<std::string, uint32_t>& input_by_path,
                           std::vector<std::string>& specialised);

// Where each symbol enters through the graph's inputs.
std::vector<SymbolRow> EntryPoints(const ir::Graph& graph);

// Compares two shapes at sampled live points >= 2 that satisfy the requirements known so far; at 0 and 1 the
// exporter's sizes may be wrong, ours win. Returns the first point at which they differ, as text. Where no drawn point
// satisfies them, nothing is compared, and unchecked() says so.
class ShapeSampler {
 public:
  explicit ShapeSampler(const ir::Graph& graph) : graph_(graph) {}
  std::string FirstDifference(const ir::Dims& ours, const ir::Dims& theirs);
  bool unchecked() const { return unchecked_; }

 private:
  void Prepare();
  const ir::Graph& graph_;
  std::vector<std::vector<int64_t>> points_;
  std::vector<ir::Guard> requirements_;  // of the nodes and guards seen
  bool unchecked_ = false;
  size_t symbols_seen_ = 0, guards_seen_ = 0, nodes_seen_ = 0;
};

}  // namespace liveshape::import
