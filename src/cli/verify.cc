// liveshape verify: torch's goldens at every shape, in one session that walks large -> small -> large with
// poisoned tails, in strict mode, bit-identical to fresh sessions and for any number of threads (X1).
#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>

#include "cli/common.h"
#include "cli/compare.h"
#include "cli/golden.h"
#include "cli/load.h"
#include "cli/options.h"

namespace liveshape::cli {
namespace {

using Outputs = std::vector<std::vector<HostTensor>>;  // [step][output]

// What is known of one point on one backend, gathered over all sessions that ran it.
struct Row {
  const GoldenPoint* point = nullptr;
  std::string backend;
  bool computes = true, shape_ok = true, values_ok = true, bit_identical = true, ran = true;
  double max_abs_diff = 0, allowed = 0;
  std::vector<std::string> problems = {};

  bool ok() const { return shape_ok && values_ok && bit_identical && ran; }
  // The first few tell; one wrong value would be reported by every session that ran the point.
  void Problem(std::string text) {
    if (problems.size() < 3) problems.push_back(std::move(text));
  }
};

// How near the limit: the table shows the nearest. Exact matches of integers say least.
double Ratio(double difference, double allowed) {
  if (allowed > 0) return difference / allowed;
  return difference > 0 ? std::numeric_limits<double>::infinity() : -1;
}

struct Sum {
  Stats stats;
  int sessions = 0;
};

class Verifier {
 public:
  Verifier(const VerifyOptions& options, std::shared_ptr<const Artifact> artifact,
           const Golden& golden)
      : options_(options), artifact_(std::move(artifact)), golden_(golden) {
    for (const GoldenPoint& point : golden.points) large_to_small_.push_back(&point);
    std::stable_sort(large_to_small_.begin(), large_to_small_.end(),
                     [](const auto* a, const auto* b) { return a->Volume() > b->Volume(); });
  }

  Result<std::vector<Row>> OnBackend(const std::string& backend, Sum& sum) {
    const bool computes = backend != "null";
    std::vector<Row> rows;
    for (const GoldenPoint* point : large_to_small_)
      rows.push_back({.point = point, .backend = backend, .computes = computes});

    std::vector<std::optional<Outputs>> fresh(rows.size());
    if (computes) {
      for (size_t p = 0; p < rows.size(); ++p) {
        LS_ASSIGN_OR_RETURN(fresh[p], Fresh(rows[p], options_.threads, "a fresh session", sum));
        if (backend != "cpu") continue;  // only there do threads mean anything
        LS_ASSIGN_OR_RETURN(auto single, Fresh(rows[p], 1, "a fresh session with 1 thread", sum));
        if (fresh[p] && single)
          CheckIdentical(rows[p], *single, *fresh[p],
                         fmt::format("1 thread and {}", options_.threads));
      }
    }
    const std::vector<Poison> poisons =
        computes ? std::vector{Poison::kNaN, Poison::kLarge} : std::vector{Poison::kNone};
    for (const Poison poison : poisons) LS_RETURN_IF_ERROR(Walk(rows, fresh, poison, sum));
    return rows;
  }

 private:
  Result<std::unique_ptr<Session>> MakeSession(const std::string& backend, int threads,
                                               Poison poison) const {
    LS_ASSIGN_OR_RETURN(auto made, MakeBackend(backend, threads));
    return Session::Create(artifact_, std::move(made), {.strict = true, .poison = poison});
  }

  void Count(const Session& session, Sum& sum) const {
    const Stats stats = session.stats();
    sum.stats.allocations_observed = stats.allocations_observed;
    sum.stats.allocations += stats.allocations;
    sum.stats.rebuilds += stats.rebuilds;
    sum.stats.moved_addresses += stats.moved_addresses;
    sum.stats.runs += stats.runs;
    ++sum.sessions;
  }

  // nullopt: the session refused, which the row says.
  std::optional<Outputs> RunPoint(Session& session, Row& row, const std::string& where) const {
    Outputs outputs;
    Status status = session.ResetStates();
    for (size_t s = 0; status.ok() && s < row.point->steps.size(); ++s) {
      const GoldenStep& step = row.point->steps[s];
      status = session.Run(step.inputs);
      if (!status.ok()) break;
      std::vector<HostTensor>& kept = outputs.emplace_back();
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        const TensorRef& found = session.output(o);
        const TensorRef& wanted = step.outputs[o].file.tensor();
        const Comparison c =
            row.computes ? Compare(found, wanted, golden_.tolerance) : CompareShapes(found, wanted);
        row.shape_ok &= c.shape_ok;
        row.values_ok &= c.ok;
        if (Ratio(c.max_abs_diff, c.allowed) > Ratio(row.max_abs_diff, row.allowed)) {
          row.max_abs_diff = c.max_abs_diff;
          row.allowed = c.allowed;
        }
        if (!c.ok)
          row.Problem(fmt::format("{}, step {}, output {} `{}` {}", where, s, o,
                                  step.outputs[o].name, c.problem));
        if (row.computes) kept.push_back(HostTensor::CopyOf(found));
      }
    }
    if (status.ok()) return outputs;
    row.ran = false;
    row.Problem(fmt::format("{}: {}", where, status.message()));
    return std::nullopt;
  }

  Result<std::optional<Outputs>> Fresh(Row& row, int threads, const std::string& where,
                                       Sum& sum) const {
    LS_ASSIGN_OR_RETURN(auto session, MakeSession(row.backend, threads, Poison::kNone));
    std::optional<Outputs> outputs = RunPoint(*session, row, where);
    Count(*session, sum);
    return outputs;
  }

  Status Walk(std::vector<Row>& rows, const std::vector<std::optional<Outputs>>& fresh,
              Poison poison, Sum& sum) const {
    LS_ASSIGN_OR_RETURN(auto session, MakeSession(rows[0].backend, options_.threads, poison));
    const char* filled = poison == Poison::kNaN     ? " poisoned with NaN"
                         : poison == Poison::kLarge ? " poisoned with 1e30"
                                                    : "";
    for (size_t visit = 0; visit < 2 * rows.size(); ++visit) {
      const bool down = visit < rows.size();
      const size_t p = down ? visit : 2 * rows.size() - 1 - visit;
      const std::string where =
          fmt::format("a session{} on its way {}", filled, down ? "down" : "up");
      std::optional<Outputs> outputs = RunPoint(*session, rows[p], where);
      if (outputs && fresh[p])
        CheckIdentical(rows[p], *outputs, *fresh[p], where + " and a fresh one");
    }
    Count(*session, sum);
    return {};
  }

  static void CheckIdentical(Row& row, const Outputs& a, const Outputs& b,
                             const std::string& between) {
    for (size_t s = 0; s < a.size(); ++s)
      for (size_t o = 0; o < a[s].size(); ++o)
        if (!(a[s][o] == b[s][o])) {
          row.bit_identical = false;
          row.Problem(
              fmt::format("step {}, output {} is not bit-identical between {}", s, o, between));
        }
  }

  const VerifyOptions& options_;
  std::shared_ptr<const Artifact> artifact_;
  const Golden& golden_;
  std::vector<const GoldenPoint*> large_to_small_;
};

void PrintTable(const std::vector<Row>& rows, double tolerance) {
  Table table(
      {"live shape", "backend", "steps", "max abs diff", "allowed", "bit-identical", "shape", ""});
  for (const Row& row : rows) {
    const auto values = [&](double v) { return row.computes ? fmt::format("{:.2e}", v) : "-"; };
    table.Add({ToString(row.point->shape), row.backend, fmt::format("{}", row.point->steps.size()),
               values(row.max_abs_diff), values(row.allowed),
               row.computes ? (row.bit_identical ? "yes" : "NO") : "-",
               row.shape_ok ? "ok" : "WRONG",
               row.ok()  ? ""
               : row.ran ? "DIFFERS"
                         : "FAILED"});
  }
  fmt::print("{}", table.ToString());
}

void PrintJson(const VerifyOptions& options, const Golden& golden, const std::vector<Row>& rows,
               const std::vector<std::pair<std::string, Sum>>& sums, bool good) {
  JsonWriter json;
  json.Object([&] {
    json.Field("ok", good).Field("model", options.model).Field("golden", options.golden);
    json.Field("tolerance", golden.tolerance).Field("threads", options.threads);
    json.Key("rows").Array([&] {
      for (const Row& row : rows)
        json.Object([&] {
          WriteShape(json.Key("shape"), row.point->shape);
          json.Field("backend", row.backend).Field("steps", row.point->steps.size());
          json.Field("ok", row.ok())
              .Field("shape_ok", row.shape_ok)
              .Field("shapes_only", !row.computes);
          if (row.computes) {
            json.Field("max_abs_diff", row.max_abs_diff).Field("allowed", row.allowed);
            json.Field("bit_identical", row.bit_identical);
          }
          json.Key("problems").Array([&] {
            for (const std::string& problem : row.problems) json.Value(problem);
          });
        });
    });
    json.Key("backends").Array([&] {
      for (const auto& [backend, sum] : sums)
        json.Object([&] {
          json.Field("backend", backend)
              .Field("sessions", sum.sessions)
              .Field("runs", sum.stats.runs);
          WriteCounters(json, sum.stats);
        });
    });
  });
  fmt::print("{}\n", json.text());
}

Result<bool> Verify(const VerifyOptions& options) {
  if (options.threads < 1)
    return InvalidArgument("--threads {}: should be 1 or more", options.threads);
  LS_ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options.model, options.constants));
  const std::shared_ptr<const Artifact>& artifact = model.artifact;
  LS_ASSIGN_OR_RETURN(Golden golden, Golden::Load(options.golden));
  LS_RETURN_IF_ERROR(golden.ArrangeInputs(*artifact).Prefixed(options.golden));

  Verifier verifier(options, artifact, golden);
  std::vector<Row> rows;
  std::vector<std::pair<std::string, Sum>> sums;
  for (const std::string& backend : options.backends) {
    Sum sum;
    LS_ASSIGN_OR_RETURN(std::vector<Row> more, verifier.OnBackend(backend, sum));
    std::move(more.begin(), more.end(), std::back_inserter(rows));
    sums.emplace_back(backend, sum);
  }
  bool good = true;
  for (const Row& row : rows) good &= row.ok();
  for (const auto& [backend, sum] : sums) good &= CountersClean(sum.stats);
  if (options.json) {
    PrintJson(options, golden, rows, sums, good);
    return good;
  }
  PrintTable(rows, golden.tolerance);
  for (const auto& [backend, sum] : sums)
    fmt::print("{}: {} strict sessions, {} runs, large -> small -> large{}; {}\n", backend,
               sum.sessions, sum.stats.runs,
               backend == "null" ? "; it computes nothing: shapes only" : ", tails poisoned",
               Counters(sum.stats));
  std::fflush(stdout);
  for (const Row& row : rows)
    for (const std::string& problem : row.problems)
      Say("verify: {} on {}: {}\n", ToString(row.point->shape), row.backend, problem);
  return good;
}

}  // namespace

int RunVerify(const VerifyOptions& options) {
  auto good = Verify(options);
  if (!good.ok()) return Fail("verify", good.status(), options.json);
  return *good ? kGood : kCheckFailed;
}

}  // namespace liveshape::cli
