// `.pt2` in, `.live` out: import, passes, artifact.
//
//   CompileRequest request{.input = "model.pt2", .output = "model.live"};
//   request.bounds["S"] = 4096;
//   LS_ASSIGN_OR_RETURN(CompileReport report, CompileFile(request));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ir/graph.h"
#include "passes/passes.h"

namespace liveshape {

struct CompileRequest {
  std::string input, output;
  std::map<std::string, int64_t> bounds;  // --bound: sets a missing maximum or lowers one
  std::map<std::string, int64_t> mins;    // --min
  std::map<std::string, int64_t>
      statics;  // --static: narrows the range to a point after all passes
  // --external: names or globs (`lm_head.*`) of constants that the artifact shall name but not hold. Each must match.
  std::vector<std::string> externals = {};
  // Asked of every constant once nothing changes it any more: a name under which the caller keeps its bytes as they
  // are stored (packed, quantised), to be given at load; or empty, and the artifact holds it.
  std::function<std::string(const ir::Constant&)> detach = {};
  ir::Encoding quantise = ir::Encoding::kPlain;  // --quant: of weights of linear and embedding
  std::optional<uint64_t> random_weights = {};   // --random-weights: for those saved without
  std::function<void(std::string_view pass, double ms)> progress;
  // Set by CompileFile: bytes of the input that will not be read again.
  std::function<void(std::span<const std::byte>)> forget = {};
};

struct CompileReport {
  struct Symbol {
    std::string name, display;
    int64_t min = 0, max = 0;
    std::vector<std::string> enters;
    std::string note;
  };
  std::vector<Symbol> symbols;
  std::vector<passes::QuantisedWeight> quantised;
  std::vector<std::string> specialised;  // dims that torch fixed
  std::vector<std::string> externals;    // constants to be given at load
  std::vector<std::string> warnings;
  std::vector<std::pair<std::string, double>> pass_ms;
  std::map<std::string, size_t> op_counts;
  size_t nodes = 0;
  size_t constant_bytes = 0;
  double seconds = 0;
};

Result<CompileReport> CompileFile(const CompileRequest& request);

// The same in memory: no file is read or written, `input` and `output` are not used.
Result<std::vector<std::byte>> CompileBytes(std::span<const std::byte> pt2,
                                            std::shared_ptr<const void> owner,
                                            const CompileRequest& request, CompileReport* report);

// Without the artifact, for tests and tools.
Result<std::unique_ptr<ir::Graph>> CompileGraph(std::span<const std::byte> pt2,
                                                std::shared_ptr<const void> owner,
                                                const CompileRequest& request,
                                                CompileReport* report);

}  // namespace liveshape
