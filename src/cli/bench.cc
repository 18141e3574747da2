// liveshape bench: what a run and a bind cost at each live shape of a sweep, in one session.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/common.h"
#include "cli/load.h"
#include "cli/options.h"

namespace liveshape::cli {
namespace {

struct Spread { double median = 0, p10 = 0, p90 = 0; };

Spread SpreadOf(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

struct Row {
  Point shape;
  Spread ms = {}, bind_us = {};
  size_t resident = 0, live = 0;
};

double MillisecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Some other legal shape to come from, since binding the current one is only a compare: another point of the
// sweep, else the smallest or largest shape.
std::vector<int64_t> OtherShape(const Artifact& artifact,
                                const std::vector<std::vector<int64_t>>& points, size_t p,
                                Session& session) {
  const std::vector<int64_t>& here = points[p];
  for (size_t i = 1; i < points.size(); ++i)
    if (const auto& other = points[(p + i) % points.size()]; other != here) return other;
  for (const bool smallest : {true, false}) {
    std::vector<int64_t> other = here;
    for (size_t i = 0; i < other.size(); ++i)
      if (IsShapeSymbol(artifact, i))
        other[i] = smallest ? artifact.symbols()[i].min : artifact.symbols()[i].max;
    if (other != here && session.BindSymbols(other).ok()) return other;
  }
  return here;
}

Result<Row> Measure(const Artifact& artifact, Session& session, std::span<const int64_t> values,
                    std::span<const int64_t> other, const BenchOptions& options,
                    const std::map<std::string, IntRange>& ranges) {
  LS_ASSIGN_OR_RETURN(std::vector<HostTensor> tensors, RandomInputs(artifact, values, ranges));
  const std::vector<TensorRef> inputs = Refs(tensors);
  Row row{.shape = LiveShape(artifact, values)};

  std::vector<double> bind_us, ms;
  for (int i = 0; i < options.repeat; ++i) {
    LS_RETURN_IF_ERROR(session.BindSymbols(other));
    LS_RETURN_IF_ERROR(session.BindSymbols(values));
    bind_us.push_back(session.stats().last_bind_us);
  }
  LS_RETURN_IF_ERROR(session.ResetStates());
  LS_RETURN_IF_ERROR(session.Run(inputs));  // touches the pages, warms the caches
  session.Trim();
  for (int i = 0; i < options.repeat; ++i) {
    LS_RETURN_IF_ERROR(session.ResetStates());
    const auto start = std::chrono::steady_clock::now();
    LS_RETURN_IF_ERROR(session.Run(inputs));
    ms.push_back(MillisecondsSince(start));
  }
  row.bind_us = SpreadOf(std::move(bind_us));
  row.ms = SpreadOf(std::move(ms));
  const Stats stats = session.stats();
  row.resident = stats.arena_resident;
  row.live = stats.arena_live;
  return row;
}

void WriteSpread(JsonWriter& json, const char* key, const Spread& spread) {
  json.Key(key).Object([&] {
    json.Field("median", spread.median).Field("p10", spread.p10).Field("p90", spread.p90);
  });
}

void Print(const BenchOptions& options, const std::vector<Row>& rows, const Stats& stats) {
  const auto megabytes = [](size_t bytes) {
    return fmt::format("{:.2f}", static_cast<double>(bytes) / (1 << 20));
  };
  if (options.json) {
    JsonWriter json;
    json.Object([&] {
      json.Field("model", options.model)
          .Field("backend", options.backend)
          .Field("repeat", options.repeat);
      json.Field("arena_reserved", stats.arena_reserved);
      WriteCounters(json, stats);
      json.Key("rows").Array([&] {
        for (const Row& row : rows)
          json.Object([&] {
            WriteShape(json.Key("shape"), row.shape);
            WriteSpread(json, "ms", row.ms);
            WriteSpread(json, "bind_us", row.bind_us);
            json.Field("resident_bytes", row.resident).Field("live_bytes", row.live);
          });
      });
    });
    fmt::print("{}\n", json.text());
    return;
  }
  Table table(
      {"live shape", "ms", "p10", "p90", "bind µs", "p10", "p90", "resident MB", "live MB"});
  for (const Row& row : rows) {
    const auto number = [](double v) { return fmt::format("{:.3f}", v); };
    table.Add({ToString(row.shape), number(row.ms.median), number(row.ms.p10), number(row.ms.p90),
               number(row.bind_us.median), number(row.bind_us.p10), number(row.bind_us.p90),
               megabytes(row.resident), megabytes(row.live)});
  }
  fmt::print("{}medians of {} on {}; arena {} MB reserved at the bound; {}\n", table.ToString(),
             options.repeat, options.backend, megabytes(stats.arena_reserved), Counters(stats));
}

Status Bench(const BenchOptions& options) {
  if (options.repeat < 1 || options.repeat > 1'000'000)
    return InvalidArgument("--repeat {}: should be 1 to 1000000", options.repeat);
  LS_ASSIGN_OR_RETURN(std::vector<Point> sweep, ParseSweeps(options.sweeps));
  LS_ASSIGN_OR_RETURN(auto ranges, ParseIntRanges(options.ints));
  LS_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options.model, options.constants));
  const std::shared_ptr<const Artifact>& artifact = model.artifact;
  std::vector<std::vector<int64_t>> points;
  for (const Point& point : sweep) {
    LS_ASSIGN_OR_RETURN(points.emplace_back(), SymbolValues(*artifact, point, "--sweep"));
  }
  LS_ASSIGN_OR_RETURN(auto backend, MakeBackend(options.backend, options.threads));
  LS_ASSIGN_OR_RETURN(auto session,
                      Session::Create(artifact, std::move(backend), {.strict = options.strict}));
  std::vector<Row> rows;
  for (size_t p = 0; p < points.size(); ++p) {
    const std::vector<int64_t> other = OtherShape(*artifact, points, p, *session);
    auto row = Measure(*artifact, *session, points[p], other, options, ranges);
    if (!row.ok()) return std::move(row).status().Prefixed(ToString(sweep[p]));
    rows.push_back(*std::move(row));
  }
  Print(options, rows, session->stats());
  return {};
}

}  // namespace

int RunBench(const BenchOptions& options) {
  const Status status = Bench(options);
  return status.ok() ? kGood : Fail("bench", status, options.json);
}

}  // namespace liveshape::cli
