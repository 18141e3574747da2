// liveshape demo: one strict session walks the live shapes of a golden directory up and down, and shows the
// contract at work: what each shape costs, and that nothing was allocated, rebuilt or moved.
#include <algorithm>
#include <cstdio>

#include "cli/common.h"
#include "cli/compare.h"
#include "cli/golden.h"
#include "cli/options.h"

namespace liveshape::cli {
namespace {

// Consecutive runs at one live shape, or at shapes where one symbol counts up by 1 (a position while
// decoding), are one row: `B=1 S=1 P=5..8`.
struct Row {
  Point first, last;
  std::vector<double> ms = {}, bind_us = {};
  double max_abs_diff = 0, allowed = 0;
  bool ok = true;
  Stats stats = {};  // after the last run and a trim

  bool Continues(const Point& next) const {
    if (next.size() != last.size()) return false;
    size_t counting = 0, others = 0;
    for (size_t i = 0; i < next.size(); ++i) {
      if (next[i].second == last[i].second) continue;
      const bool same_symbol = first == last || first[i].second != last[i].second;
      next[i].second == last[i].second + 1 && same_symbol ? ++counting : ++others;
    }
    return others == 0 && counting <= 1 && (counting == 1 || first == last);
  }
  std::string Shape() const {
    std::string text;
    for (size_t i = 0; i < first.size(); ++i) {
      text += fmt::format("{}{}={}", i == 0 ? "" : " ", first[i].first, first[i].second);
      if (last[i].second != first[i].second) text += fmt::format("..{}", last[i].second);
    }
    return text.empty() ? "static" : text;
  }
};

double Median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

double Megabytes(size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Smallest first, up to the largest and down again.
std::vector<const GoldenPoint*> UpAndDown(const Golden& golden) {
  std::vector<const GoldenPoint*> order;
  for (const GoldenPoint& point : golden.points) order.push_back(&point);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->Volume() < b->Volume(); });
  const size_t up = order.size();
  for (size_t i = up - 1; i-- > 0;) order.push_back(order[i]);
  return order;
}

Result<std::vector<Row>> Walk(const Artifact& artifact, Session& session, const Golden& golden) {
  std::vector<Row> rows;
  for (const GoldenPoint* point : UpAndDown(golden)) {
    LS_RETURN_IF_ERROR(session.ResetStates());
    bool first = true;
    for (const GoldenStep& step : point->steps) {
      const uint64_t binds = session.stats().binds;
      LS_RETURN_IF_ERROR(session.Run(step.inputs).Prefixed(ToString(step.shape)));
      Point shape = LiveShape(artifact, session.symbol_values());
      if (first || !rows.back().Continues(shape)) rows.push_back({.first = shape, .last = shape});
      first = false;
      Row& row = rows.back();
      row.last = std::move(shape);
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        const Comparison c =
            Compare(session.output(o), step.outputs[o].file.tensor(), golden.tolerance);
        row.ok &= c.ok;
        row.max_abs_diff = std::max(row.max_abs_diff, c.max_abs_diff);
        row.allowed = std::max(row.allowed, c.allowed);
        if (!c.ok)
          Say("demo: {}, output `{}` {}\n", ToString(step.shape), step.outputs[o].name, c.problem);
      }
      row.stats = session.stats();
      session.Trim();  // so that the next row shows its own shape's pages, not this one's
      if (row.stats.binds != binds) row.bind_us.push_back(row.stats.last_bind_us);
      row.ms.push_back(row.stats.last_run_ms);
    }
  }
  return rows;
}

void PrintTable(const std::vector<Row>& rows) {
  Table table({"live shape", "runs", "ms", "bind µs", "resident MB", "allocations", "rebuilds",
               "moved", "max abs diff", ""});
  for (const Row& row : rows) {
    table.Add({row.Shape(), fmt::format("{}", row.ms.size()), fmt::format("{:.3f}", Median(row.ms)),
               fmt::format("{:.1f}", Median(row.bind_us)),
               fmt::format("{:.2f}", Megabytes(row.stats.arena_resident)),
               AllocationsCell(row.stats), fmt::format("{}", row.stats.rebuilds),
               fmt::format("{}", row.stats.moved_addresses),
               fmt::format("{:.1e}", row.max_abs_diff), row.ok ? "" : "DIFFERS"});
  }
  fmt::print("{}", table.ToString());
}

void PrintJson(const std::vector<Row>& rows, const Stats& stats, bool good) {
  JsonWriter json;
  json.Object([&] {
    json.Field("ok", good).Field("runs", stats.runs).Field("binds", stats.binds);
    json.Field("arena_reserved", stats.arena_reserved);
    WriteCounters(json, stats);
    json.Key("rows").Array([&] {
      for (const Row& row : rows)
        json.Object([&] {
          WriteShape(json.Key("shape"), row.first);
          WriteShape(json.Key("last_shape"), row.last);
          json.Field("runs", row.ms.size())
              .Field("ms", Median(row.ms))
              .Field("bind_us", Median(row.bind_us));
          json.Field("resident_bytes", row.stats.arena_resident)
              .Field("live_bytes", row.stats.arena_live);
          WriteCounters(json, row.stats);
          json.Field("max_abs_diff", row.max_abs_diff)
              .Field("allowed", row.allowed)
              .Field("ok", row.ok);
        });
    });
  });
  fmt::print("{}\n", json.text());
}

Result<bool> Demo(const DemoOptions& options) {
  LS_ASSIGN_OR_RETURN(auto artifact, Artifact::Load(options.model));
  LS_ASSIGN_OR_RETURN(Golden golden, Golden::Load(options.golden));
  LS_RETURN_IF_ERROR(golden.ArrangeInputs(*artifact).Prefixed(options.golden));
  LS_ASSIGN_OR_RETURN(auto backend, MakeBackend(options.backend, options.threads));
  LS_ASSIGN_OR_RETURN(auto session,
                      Session::Create(artifact, std::move(backend), {.strict = true}));
  LS_ASSIGN_OR_RETURN(std::vector<Row> rows, Walk(*artifact, *session, golden));

  const Stats stats = session->stats();
  bool good = CountersClean(stats);
  double worst = 0;
  for (const Row& row : rows) {
    good &= row.ok;
    worst = std::max(worst, row.max_abs_diff);
  }
  if (options.json) {
    PrintJson(rows, stats, good);
    return good;
  }
  PrintTable(rows);
  fmt::print(
      "\none strict session: {} runs, {} binds to a new shape, arena {:.2f} MB reserved at the "
      "bound (resident: after the run)\n",
      stats.runs, stats.binds, Megabytes(stats.arena_reserved));
  fmt::print("{}; max abs diff against torch {:.1e}\n", Counters(stats), worst);
  return good;
}

}  // namespace

int RunDemo(const DemoOptions& options) {
  auto good = Demo(options);
  if (!good.ok()) return Fail("demo", good.status(), options.json);
  return *good ? kGood : kCheckFailed;
}

}  // namespace liveshape::cli
