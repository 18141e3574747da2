// From a `.pt2` to our IR: symbols with ranges, functional nodes, states, guards.
//
//   LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open("model.pt2"));
//   LS_ASSIGN_OR_RETURN(auto archive, pt2::Pt2Archive::Open(file->bytes()));
//   ImportOptions options;
//   options.bounds["S"] = 4096;                     // by Dim name, torch's name or place ("input_ids.1")
//   LS_ASSIGN_OR_RETURN(ImportResult result, ImportPt2(archive, file, options));
//   Print(*result.graph);
//
// Constants borrow the archive's bytes (`owner` keeps them alive). In-place ops are functionalised, also
// through aliases; whatever is written is a state, known by its storage file. Unknown ops are reported all
// at once, each with its node and source line.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/pt2/archive.h"
#include "ir/graph.h"

namespace liveshape {

struct ImportOptions {
  std::map<std::string, int64_t> bounds;  // lowers a maximum, or sets a missing one
  std::map<std::string, int64_t>
      mins;  // replaces a minimum: Dim.AUTO says 2, torch's ops serve 0 and 1
  // For parameters that the archive was saved without; none: such an archive is refused.
  std::optional<uint64_t> random_weights = {};
};

struct SymbolRow {
  uint32_t symbol = 0;
  std::vector<std::string> enters;  // "tokens.1", "pos"
};

struct ImportResult {
  std::unique_ptr<ir::Graph> graph;
  std::vector<SymbolRow> symbols;
  std::vector<std::string> specialised;  // dims that torch fixed although the input could vary
  std::vector<std::string> warnings;
};

// Whether a node of this target ("torch.ops.aten.add.Tensor") is read; its arguments may still be refused.
bool IsSupportedTarget(std::string_view target);
// Those that are operators of torch, in their functional form.
std::vector<std::string> SupportedTargets();

Result<ImportResult> ImportPt2(const pt2::Pt2Archive& archive, std::shared_ptr<const void> owner,
                               const ImportOptions& options = {});

}  // namespace liveshape
