// liveshape cost: FLOPs, bytes and peak memory in closed form, and at a live shape.
#include "plan/cost.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "cli/common.h"
#include "cli/load.h"
#include "cli/options.h"
#include "ir/op.h"

namespace liveshape::cli {
namespace {

struct Report {
  std::shared_ptr<const Artifact> artifact;
  plan::Plan plan;
  plan::CostModel cost;
  size_t constant_bytes = 0, state_bytes = 0;
  std::vector<int64_t> values;  // of all symbols, with --at
  std::optional<plan::CostPoint> at;
  size_t planned_bytes = 0, planned_lower_bound = 0;  // with it

  const ir::Graph& graph() const { return artifact->graph(); }
  const ir::Node* node(size_t step) const {
    const uint32_t n = plan.steps[step].node;
    return n == ir::Graph::kNoNode ? nullptr : &graph().nodes[n];
  }
};

// What a guard `symbol == e` makes of a value known at run, if `values` has all that e needs: those of stage 0.
std::optional<int64_t> RequiredValue(const ir::Graph& graph, uint32_t symbol,
                                     std::span<const int64_t> values) {
  const sym::Table& table = graph.table();
  for (const ir::Guard& guard : graph.guards) {
    if (guard.condition.kind() != sym::Kind::kEq) continue;
    for (const size_t side : {0, 1}) {
      const sym::Expr own = guard.condition.args()[side], other = guard.condition.args()[1 - side];
      if (!own.is_symbol() || own.symbol() != symbol || table.StageOf(other) != 0) continue;
      if (const auto value = table.Evaluate(other, values); value.ok()) return *value;
    }
  }
  return {};
}

// Symbols of a live shape must be given; host values and sizes born from data only where the cost depends on them.
Result<std::vector<int64_t>> PointValues(const Report& report, const std::vector<std::string>& at) {
  LS_ASSIGN_OR_RETURN(std::vector<Point> points, ParseSweeps(at, "--at"));
  if (points.size() != 1)
    return InvalidArgument("--at gives {} live shapes: one value a symbol, as --at S=128,B=1",
                           points.size());
  LS_ASSIGN_OR_RETURN(std::vector<int64_t> values,
                      SymbolValues(*report.artifact, points[0], "--at"));
  const sym::Table& table = report.graph().table();
  for (uint32_t i = 0; i < table.symbols().size(); ++i) {
    const sym::SymbolInfo& info = table.symbols()[i];
    const bool given = std::ranges::any_of(points[0], [&](const auto& entry) {
      return report.artifact->FindSymbol(entry.first) == static_cast<int>(i);
    });
    if (given || info.stage == 0) continue;
    values[i] = info.lo;
    if (info.lo == info.hi) continue;
    if (const std::optional<int64_t> required = RequiredValue(report.graph(), i, values)) {
      values[i] = *required;
      continue;
    }
    for (const sym::Expr e : {report.cost.total.flops, report.cost.total.needed_flops,
                              report.cost.total.bytes, report.cost.total.live})
      if (std::ranges::count(table.FreeSymbols(e), i) > 0)
        return InvalidArgument(
            "the cost depends on `{}` ({} to {}), a value known at run: add --at {}=N",
            SymbolName(report.artifact->symbols()[i]), info.lo, info.hi,
            SymbolName(report.artifact->symbols()[i]));
  }
  return values;
}

// What the planner gives when the ranges are just this point, as `compile --static` makes them.
Result<plan::Plan> PlanAt(const CostOptions& options, const plan::Rules& rules,
                          std::span<const int64_t> values) {
  LS_ASSIGN_OR_RETURN(auto narrow, LoadDescription(options.model));
  for (uint32_t i = 0; i < values.size(); ++i)
    narrow->graph().table().NarrowSymbol(i, values[i], values[i]);
  return plan::MakePlan(narrow->graph(), rules);
}

std::string Shortened(std::string text) {
  constexpr size_t kMost = 72;
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

// One line for steps that cost the same, as the layers of a model do.
void PrintSteps(const Report& report) {
  struct Line {
    size_t first, count;
    std::vector<std::string> cells;
  };
  std::vector<Line> lines;
  const auto cell = [&](sym::Expr e, const int64_t* at) {
    return at ? fmt::format("{}", *at) : Shortened(sym::ToString(e));
  };
  for (size_t i = 0; i < report.cost.steps.size(); ++i) {
    const plan::Costs<sym::Expr>& costs = report.cost.steps[i];
    const plan::Costs<int64_t>* at = report.at ? &report.at->steps[i] : nullptr;
    const ir::Node* node = report.node(i);
    std::vector<std::string> cells = {
        node ? node->op->name : "copy", cell(costs.flops, at ? &at->flops : nullptr),
        cell(costs.bytes, at ? &at->bytes : nullptr), cell(costs.live, at ? &at->live : nullptr)};
    const auto same = std::ranges::find(lines, cells, &Line::cells);
    if (same != lines.end())
      ++same->count;
    else
      lines.push_back({i, 1, std::move(cells)});
  }
  Table table({"op", "times", "first node", "FLOPs", "bytes", "live bytes"});
  for (const Line& line : lines) {
    const ir::Node* node = report.node(line.first);
    table.Add({line.cells[0], fmt::format("{}", line.count), node ? Shortened(node->name) : "",
               line.cells[1], line.cells[2], line.cells[3]});
  }
  fmt::print("{}", table.ToString());
}

void PrintText(const Report& report) {
  PrintSteps(report);
  const auto line = [&](const char* what, sym::Expr e, const int64_t* at) {
    fmt::print("{:<14} {}\n", what, sym::ToString(e));
    if (at) fmt::print("{:<14} = {}\n", "", *at);
  };
  const plan::Costs<sym::Expr>& total = report.cost.total;
  const plan::Costs<int64_t>* at = report.at ? &report.at->total : nullptr;
  fmt::print("\n");
  if (at) fmt::print("{:<14} {}\n", "at", ToString(LiveShape(*report.artifact, report.values)));
  line("FLOPs", total.flops, at ? &at->flops : nullptr);
  if (total.needed_flops != total.flops)
    line("  needed", total.needed_flops, at ? &at->needed_flops : nullptr);
  line("bytes moved", total.bytes, at ? &at->bytes : nullptr);
  line("peak memory", total.live, at ? &at->live : nullptr);
  line("  tensors", total.tensors, at ? &at->tensors : nullptr);
  if (report.at)
    fmt::print("{:<14} {}, lower bound {}\n", "planned here", report.planned_bytes,
               report.planned_lower_bound);
  fmt::print("{:<14} constants {}, states {}\n", "besides", report.constant_bytes,
             report.state_bytes);
}

void WriteCosts(JsonWriter& json, const plan::Costs<sym::Expr>& costs,
                const plan::Costs<int64_t>* at) {
  json.Field("flops", sym::ToString(costs.flops))
      .Field("needed_flops", sym::ToString(costs.needed_flops))
      .Field("bytes", sym::ToString(costs.bytes))
      .Field("live_bytes", sym::ToString(costs.live))
      .Field("tensor_bytes", sym::ToString(costs.tensors))
      .Field("scratch_bytes", sym::ToString(costs.scratch));
  if (!at) return;
  json.Key("at").Object([&] {
    json.Field("flops", at->flops)
        .Field("needed_flops", at->needed_flops)
        .Field("bytes", at->bytes)
        .Field("live_bytes", at->live)
        .Field("tensor_bytes", at->tensors)
        .Field("scratch_bytes", at->scratch);
  });
}

void PrintJson(const CostOptions& options, const Report& report) {
  JsonWriter json;
  json.Object([&] {
    json.Field("model", options.model).Field("backend", options.backend);
    if (report.at) {
      json.Key("shape").Object([&] {
        for (size_t i = 0; i < report.values.size(); ++i)
          json.Field(SymbolName(report.artifact->symbols()[i]), report.values[i]);
      });
    }
    json.Key("total").Object(
        [&] { WriteCosts(json, report.cost.total, report.at ? &report.at->total : nullptr); });
    if (report.at)
      json.Key("planned").Object([&] {
        json.Field("bytes", report.planned_bytes).Field("lower_bound", report.planned_lower_bound);
      });
    json.Field("constant_bytes", report.constant_bytes).Field("state_bytes", report.state_bytes);
    json.Key("ops").Array([&] {
      for (size_t i = 0; i < report.cost.steps.size(); ++i)
        json.Object([&] {
          const ir::Node* node = report.node(i);
          json.Field("op", node ? node->op->name : "copy");
          json.Field("node", node ? node->name : "").Field("source", node ? node->source : "");
          WriteCosts(json, report.cost.steps[i], report.at ? &report.at->steps[i] : nullptr);
        });
    });
  });
  fmt::print("{}\n", json.text());
}

Status Cost(const CostOptions& options) {
  Report report;
  LS_ASSIGN_OR_RETURN(report.artifact, LoadDescription(options.model));
  LS_ASSIGN_OR_RETURN(auto backend, MakeBackend(options.backend, options.threads));
  const plan::Rules rules = backend->rules();
  LS_ASSIGN_OR_RETURN(report.plan, plan::MakePlan(report.graph(), rules));
  report.cost = plan::MakeCostModel(report.graph(), report.plan, rules);
  for (const ir::Constant& constant : report.graph().constants)
    report.constant_bytes += ir::StoredBytes(constant).value_or(0);
  for (const ir::State& state : report.graph().states)
    report.state_bytes += ir::DenseBytes(state.dtype, state.dims).value_or(0);
  if (!options.at.empty() || report.artifact->symbols().empty()) {
    LS_ASSIGN_OR_RETURN(report.values, PointValues(report, options.at));
    LS_ASSIGN_OR_RETURN(report.at, report.cost.At(report.plan, report.values));
    LS_ASSIGN_OR_RETURN(const plan::Plan here, PlanAt(options, rules, report.values));
    report.planned_bytes = here.arena_bytes;
    report.planned_lower_bound = here.lower_bound;
  }
  options.json ? PrintJson(options, report) : PrintText(report);
  return {};
}

}  // namespace

int RunCost(const CostOptions& options) {
  const Status status = Cost(options);
  return status.ok() ? kGood : Fail("cost", status, options.json);
}

}  // namespace liveshape::cli
