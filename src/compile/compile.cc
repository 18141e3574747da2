#include "compile/compile.h"

#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "artifact/write.h"
#include "base/memory.h"
#include "import/import.h"
#include "ir/op.h"
#include "liveshape/liveshape.h"
#include "passes/passes.h"
#include "runtime/backend.h"

namespace liveshape {
namespace {

using Clock = std::chrono::steady_clock;
double MillisSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Folds by running: the same kernels that would run it later.
Result<std::vector<std::vector<std::byte>>> EvaluateConstants(
    std::unique_ptr<ir::Graph> constants) {
  LS_ASSIGN_OR_RETURN(auto artifact, Artifact::FromGraph(std::move(constants)));
  LS_ASSIGN_OR_RETURN(auto session, Session::Create(artifact, MakeCpuBackend({.threads = 1})));
  LS_RETURN_IF_ERROR(session->Run({}));
  std::vector<std::vector<std::byte>> results;
  for (size_t i = 0; i < session->output_count(); ++i) {
    const TensorRef& out = session->output(i);
    const auto* data = static_cast<const std::byte*>(out.data);
    results.emplace_back(data, data + out.bytes());
  }
  return results;
}

// Before all passes, so that none looks at data which another load may give otherwise. Such constants stay plain:
// what a caller gives is used as it is.
Status MakeExternal(ir::Graph& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (ir::Constant& constant : graph.constants) {
      if (fnmatch(pattern.c_str(), constant.name.c_str(), 0) != 0) continue;
      matched = true;
      constant.external = constant.name;
      constant.data = {};
      constant.owner = nullptr;
    }
    if (matched) continue;
    std::vector<std::string> names;
    for (const ir::Constant& constant : graph.constants) names.push_back(constant.name);
    if (names.size() > 8) names.resize(8), names.push_back("...");
    return NotFound("--external {}: no constant has such a name; the model has {}", pattern,
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  }
  return {};
}

void Detach(ir::Graph& graph, const std::function<std::string(const ir::Constant&)>& detach) {
  for (ir::Constant& constant : graph.constants) {
    if (!constant.external.empty() || constant.data.empty()) continue;
    constant.external = detach(constant);
    if (constant.external.empty()) continue;
    constant.data = {};
    constant.owner = nullptr;
  }
}

// After all passes, so that no pass can see it: a static program is the dynamic one at one point (N9).
Status ApplyStatics(ir::Graph& graph, const std::map<std::string, int64_t>& statics,
                    const std::vector<SymbolRow>& rows) {
  if (statics.empty()) return {};
  constexpr const char* kNoShape = "--static leaves no shape";
  for (const auto& [name, value] : statics) {
    std::optional<uint32_t> found;
    for (const SymbolRow& row : rows) {
      const sym::SymbolInfo& info = graph.table().symbols()[row.symbol];
      if (info.name == name || (!info.display.empty() && info.display == name) ||
          std::find(row.enters.begin(), row.enters.end(), name) != row.enters.end())
        found = row.symbol;
    }
    if (!found) return NotFound("--static {}: there is no such symbol", name);
    const sym::SymbolInfo& info = graph.table().symbols()[*found];
    if (value < info.lo || value > info.hi)
      return OutOfRange("--static {}={}: outside the range [{}, {}]", name, value, info.lo,
                        info.hi);
    graph.table().NarrowSymbol(*found, value, value);
  }
  // Guards are checked at bind; those that no shape can satisfy any more, here.
  auto requirements = ir::Requirements(graph);
  if (!requirements.ok()) return std::move(requirements).status().Prefixed(kNoShape);
  for (const ir::Guard& guard : *requirements)
    if (graph.table().IsTrue(guard.condition) == sym::Tri::kNo)
      return OutOfRange("{}: {}", kNoShape, guard.text);
  return {};
}

void FillReport(const ir::Graph& graph, const ImportResult& imported, CompileReport& report) {
  for (const SymbolRow& row : imported.symbols) {
    const sym::SymbolInfo& info = graph.table().symbols()[row.symbol];
    report.symbols.push_back({info.name, info.display, info.lo, info.hi, row.enters,
                              info.stage > 1       ? "born from data"
                              : info.stage > 0     ? "host value"
                              : row.enters.empty() ? "does not enter through an input"
                                                   : ""});
  }
  report.specialised = imported.specialised;
  report.warnings = imported.warnings;
  report.nodes = graph.nodes.size();
  for (const ir::Node& node : graph.nodes) ++report.op_counts[node.op->name];
  std::set<std::string> externals;  // one name may serve several constants
  for (const ir::Constant& c : graph.constants) {
    report.constant_bytes += c.data.size();
    if (!c.external.empty()) externals.insert(c.external);
  }
  report.externals.assign(externals.begin(), externals.end());
}

}  // namespace

Result<std::unique_ptr<ir::Graph>> CompileGraph(std::span<const std::byte> pt2,
                                                std::shared_ptr<const void> owner,
                                                const CompileRequest& request,
                                                CompileReport* report) {
  auto start = Clock::now();
  auto done = [&](std::string_view what) {
    const double ms = MillisSince(start);
    report->pass_ms.emplace_back(what, ms);
    if (request.progress) request.progress(what, ms);
    start = Clock::now();
  };
  LS_ASSIGN_OR_RETURN(pt2::Pt2Archive archive, pt2::Pt2Archive::Open(pt2));
  done("read");
  LS_ASSIGN_OR_RETURN(ImportResult imported, ImportPt2(archive, std::move(owner),
                                                       {.bounds = request.bounds,
                                                        .mins = request.mins,
                                                        .random_weights = request.random_weights}));
  done("import");
  LS_RETURN_IF_ERROR(MakeExternal(*imported.graph, request.externals));
  passes::PassOptions options;
  options.evaluate = EvaluateConstants;
  options.forget = request.forget;
  options.quantise = request.quantise;
  options.quantised = [&](const passes::QuantisedWeight& weight) {
    report->quantised.push_back(weight);
  };
  options.progress = [&](std::string_view pass, double ms) {
    report->pass_ms.emplace_back(pass, ms);
    if (request.progress) request.progress(pass, ms);
  };
  LS_RETURN_IF_ERROR(passes::RunPipeline(*imported.graph, options));
  LS_RETURN_IF_ERROR(ApplyStatics(*imported.graph, request.statics, imported.symbols));
  start = Clock::now();
  // A size without a finite maximum, or an op that cannot be planned, is a compile error, not a load error.
  LS_RETURN_IF_ERROR(
      plan::MakePlan(*imported.graph, MakeCpuBackend({.threads = 1})->rules()).status());
  done("plan");
  if (request.detach) Detach(*imported.graph, request.detach);
  FillReport(*imported.graph, imported, *report);
  return std::move(imported.graph);
}

Result<std::vector<std::byte>> CompileBytes(std::span<const std::byte> pt2,
                                            std::shared_ptr<const void> owner,
                                            const CompileRequest& request, CompileReport* report) {
  const auto start = Clock::now();
  LS_ASSIGN_OR_RETURN(auto graph, CompileGraph(pt2, std::move(owner), request, report));
  const auto write_start = Clock::now();
  LS_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, artifact::SerializeArtifact(*graph));
  report->pass_ms.emplace_back("write", MillisSince(write_start));
  if (request.progress) request.progress("write", report->pass_ms.back().second);
  report->seconds = MillisSince(start) / 1000;
  return bytes;
}

Result<CompileReport> CompileFile(const CompileRequest& request) {
  const auto start = Clock::now();
  CompileReport report;
  LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(request.input));
  CompileRequest with_forget = request;
  const std::span<const std::byte> mapped = file->bytes();
  with_forget.forget = [&](std::span<const std::byte> range) {
    if (range.data() >= mapped.data() &&
        range.data() + range.size() <= mapped.data() + mapped.size())
      file->Forget(range);
  };
  auto graph = CompileGraph(file->bytes(), file, with_forget, &report);
  if (!graph.ok()) return std::move(graph).status().Prefixed(request.input);
  const auto write_start = Clock::now();
  LS_RETURN_IF_ERROR(artifact::WriteArtifact(**graph, request.output, with_forget.forget));
  report.pass_ms.emplace_back("write", MillisSince(write_start));
  if (request.progress) request.progress("write", report.pass_ms.back().second);
  report.seconds = MillisSince(start) / 1000;
  return report;
}

}  // namespace liveshape
