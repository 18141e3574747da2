#include "cli/compile_report.h"

#include <sys/resource.h>

#include "cli/json.h"

namespace liveshape::cli {
namespace {

size_t PeakResidentBytes() {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

Result<ir::Encoding> ParseQuant(std::string_view quant) {
  if (quant.empty()) return ir::Encoding::kPlain;
  if (quant == "q8") return ir::Encoding::kQ8SymG32;
  if (quant == "q4") return ir::Encoding::kQ4SymG32;
  return InvalidArgument("quant `{}`: q8 and q4 are known", quant);
}

QuantisedTotal TotalOf(const CompileReport& report) {
  QuantisedTotal total;
  for (const passes::QuantisedWeight& weight : report.quantised) {
    total.before += weight.bytes_before;
    total.after += weight.bytes_after;
  }
  return total;
}

std::string CompileJson(const std::string& input, const std::string& output,
                        const std::string& quant, const CompileReport& report) {
  JsonWriter json;
  const auto strings = [&](const char* key, const std::vector<std::string>& list) {
    json.Key(key).Array([&] {
      for (const std::string& text : list) json.Value(text);
    });
  };
  json.Object([&] {
    json.Field("input", input).Field("output", output);
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
    if (!quant.empty())
      json.Key("quantised").Object([&] {
        const QuantisedTotal total = TotalOf(report);
        json.Field("encoding", quant);
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
  return json.text();
}

}  // namespace liveshape::cli
