// liveshape compile: .pt2 to .live, with the symbol table that the artifact will have.
#include "compile/compile.h"

#include <sys/resource.h>

#include <cstdio>

#include "cli/common.h"
#include "cli/options.h"

namespace liveshape::cli {
namespace {

size_t PeakResidentBytes() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

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

struct QuantisedTotal { size_t before = 0, after = 0; };

QuantisedTotal Total(const CompileReport& report) {
  QuantisedTotal total;
  for (const passes::QuantisedWeight& weight : report.quantised) {
    total.before += weight.bytes_before;
    total.after += weight.bytes_after;
  }
  return total;
}

void PrintQuantised(const CompileOptions& options, const CompileReport& report) {
  if (report.quantised.empty()) {
    fmt::print(
        "{}: nothing was quantised: no constant matrix is read by linear or embedding alone\n",
        options.quant);
    return;
  }
  const QuantisedTotal total = Total(report);
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
  for (const std::string& warning : report.warnings) fmt::print(stderr, "warning: {}\n", warning);
}

void PrintJson(const CompileOptions& options, const CompileReport& report) {
  JsonWriter json;
  const auto strings = [&](const char* key, const std::vector<std::string>& list) {
    json.Key(key).Array([&] {
      for (const std::string& text : list) json.Value(text);
    });
  };
  json.Object([&] {
    json.Field("input", options.input).Field("output", options.output);
    json.Key("symbols").Array([&] {
      for (const CompileReport::Symbol& symbol : report.symbols)
        json.Object([&] {
          json.Field("name", symbol.name).Field("display", symbol.display);
          json.Field("min", symbol.min).Field("max", symbol.max);
          strings("enters", symbol.enters);
          json.Field("note", symbol.note);
        });
    });
    strings("specialised", report.specialised);
    strings("externals", report.externals);
    strings("warnings", report.warnings);
    if (!options.quant.empty())
      json.Key("quantised").Object([&] {
        const QuantisedTotal total = Total(report);
        json.Field("encoding", options.quant);
        json.Field("bytes_before", total.before).Field("bytes_after", total.after);
        json.Key("weights").Array([&] {
          for (const passes::QuantisedWeight& weight : report.quantised)
            json.Object([&] {
              json.Field("name", weight.name);
              json.Field("bytes_before", weight.bytes_before)
                  .Field("bytes_after", weight.bytes_after);
            });
        });
      });
    json.Key("passes").Array([&] {
      for (const auto& [pass, ms] : report.pass_ms)
        json.Object([&] { json.Field("name", pass).Field("ms", ms); });
    });
    json.Key("ops").Object([&] {
      for (const auto& [op, count] : report.op_counts) json.Field(op, count);
    });
    json.Field("nodes", report.nodes).Field("constant_bytes", report.constant_bytes);
    json.Field("seconds", report.seconds).Field("peak_resident_bytes", PeakResidentBytes());
  });
  fmt::print("{}\n", json.text());
}

Status Compile(const CompileOptions& options) {
  CompileRequest request;
  request.input = options.input;
  request.output = options.output;
  LS_ASSIGN_OR_RETURN(request.bounds, ReadAssignments("--bound", options.bounds));
  LS_ASSIGN_OR_RETURN(request.mins, ReadAssignments("--min", options.mins));
  LS_ASSIGN_OR_RETURN(request.statics, ReadAssignments("--static", options.statics));
  request.externals = options.externals;
  if (!options.quant.empty())
    request.quantise = options.quant == "q8" ? ir::Encoding::kQ8SymG32 : ir::Encoding::kQ4SymG32;
  request.progress = [](std::string_view pass, double ms) {
    fmt::print(stderr, "{:>10.1f} ms  {}\n", ms, pass);
  };
  LS_ASSIGN_OR_RETURN(CompileReport report, CompileFile(request));
  options.json ? PrintJson(options, report) : PrintText(options, report);
  return {};
}

}  // namespace

int RunCompile(const CompileOptions& options) {
  const Status status = Compile(options);
  return status.ok() ? kGood : Fail("compile", status, options.json);
}

}  // namespace liveshape::cli
