// liveshape compile: .pt2 to .live, with the symbol table that the artifact will have.
#include "compile/compile.h"

#include <cstdio>

#include "cli/common.h"
#include "cli/compile_report.h"
#include "cli/options.h"

namespace liveshape::cli {
namespace {

Result<std::map<std::string, int64_t>> ReadAssignments(const char* flag,
                                                       const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> values;
  for (const std::string& text : texts) {
    LS_ASSIGN_OR_RETURN(auto assignment, ParseAssignment(flag, text));
    const auto [entry, added] = values.insert(assignment);
    if (!added && entry->second != assignment.second)
      return InvalidArgument("{} gives `{}` two values, {} and {}", flag, assignment.first,
                             entry->second, assignment.second);
  }
  return values;
}

std::string OpCounts(const CompileReport& report) {
  std::vector<std::string> counts;
  for (const auto& [op, count] : report.op_counts)
    counts.push_back(fmt::format("{} {}", count, op));
  return fmt::format("{}", fmt::join(counts, ", "));
}

void PrintQuantised(const CompileOptions& options, const CompileReport& report) {
  if (report.quantised.empty()) {
    fmt::print(
        "{}: nothing was quantised: no constant matrix is read by linear or embedding alone\n",
        options.quant);
    return;
  }
  const QuantisedTotal total = TotalOf(report);
  fmt::print("{}: {} weights, {:.2f} -> {:.2f} MB\n", options.quant, report.quantised.size(),
             static_cast<double>(total.before) / 1e6, static_cast<double>(total.after) / 1e6);
}

void PrintText(const CompileOptions& options, const CompileReport& report) {
  if (report.symbols.empty()) {
    fmt::print("no symbols: every size is static\n");
  } else {
    Table table({"symbol", "torch", "min", "max", "enters", "note"});
    for (const CompileReport::Symbol& symbol : report.symbols)
      table.Add({symbol.display.empty() ? symbol.name : symbol.display, symbol.name,
                 fmt::format("{}", symbol.min), fmt::format("{}", symbol.max),
                 fmt::format("{}", fmt::join(symbol.enters, " ")), symbol.note});
    fmt::print("{}", table.ToString());
  }
  for (const std::string& dim : report.specialised) fmt::print("fixed by torch: {}\n", dim);
  for (const std::string& name : report.externals) fmt::print("external: {}\n", name);
  if (!options.quant.empty()) PrintQuantised(options, report);
  fmt::print("{}: {} nodes ({}), {:.1f} MB of constants, {:.2f} s\n", options.output, report.nodes,
             OpCounts(report), static_cast<double>(report.constant_bytes) / 1e6, report.seconds);
  std::fflush(stdout);
  for (const std::string& warning : report.warnings) Say("warning: {}\n", warning);
}

Status Compile(const CompileOptions& options) {
  CompileRequest request;
  request.input = options.input;
  request.output = options.output;
  LS_ASSIGN_OR_RETURN(request.bounds, ReadAssignments("--bound", options.bounds));
  LS_ASSIGN_OR_RETURN(request.mins, ReadAssignments("--min", options.mins));
  LS_ASSIGN_OR_RETURN(request.statics, ReadAssignments("--static", options.statics));
  request.externals = options.externals;
  LS_ASSIGN_OR_RETURN(request.quantise, ParseQuant(options.quant));
  request.random_weights = options.random_weights;
  if (options.no_weights) {
    // Passes see weights, so that layouts and fusions are those of the whole artifact; then they are left out. Small
    // constants stay: some are read as numbers.
    if (!request.random_weights) request.random_weights = 0;
    request.detach = [](const ir::Constant& constant) {
      return constant.data.size() > 4096 ? constant.name : std::string();
    };
  }
  request.progress = [](std::string_view pass, double ms) { Say("{:>10.1f} ms  {}\n", ms, pass); };
  LS_ASSIGN_OR_RETURN(CompileReport report, CompileFile(request));
  if (options.json)
    fmt::print("{}\n", CompileJson(options.input, options.output, options.quant, report));
  else
    PrintText(options, report);
  return {};
}

}  // namespace

int RunCompile(const CompileOptions& options) {
  const Status status = Compile(options);
  return status.ok() ? kGood : Fail("compile", status, options.json);
}

}  // namespace liveshape::cli
