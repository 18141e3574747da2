#include "cli/common.h"
#include "cli/dump.h"
#include "ir/dot.h"
#include "ir/graph.h"
#include "ir/op.h"

namespace liveshape::cli {
namespace {

struct PlanOf {
  std::string backend;
  Result<Session::PlanReport> report;
};

// Planning is the backend's: a session of each is made and dropped.
std::vector<PlanOf> Plans(const std::shared_ptr<const Artifact>& artifact) {
  std::vector<PlanOf> plans;
  for (const char* name : {"cpu", "null"}) {
    const auto plan = [&]() -> Result<Session::PlanReport> {
      LS_ASSIGN_OR_RETURN(auto backend, MakeBackend(name, 1));
      LS_ASSIGN_OR_RETURN(auto session, Session::Create(artifact, std::move(backend)));
      return session->plan_report();
    };
    plans.push_back({name, plan()});
  }
  return plans;
}

std::string Text(const PlanOf& plan) {
  if (!plan.report.ok())
    return fmt::format("plan {}: {}\n", plan.backend, plan.report.status().message());
  const Session::PlanReport& r = *plan.report;
  const double ratio =
      r.lower_bound > 0 ? static_cast<double>(r.bytes) / static_cast<double>(r.lower_bound) : 1;
  return fmt::format(
      "plan {}: {} bytes, lower bound {} ({:.3f}x), {} slots, {} steps, {} copies, {} shape "
      "instructions\n",
      plan.backend, r.bytes, r.lower_bound, ratio, r.slots, r.steps, r.copies,
      r.shape_instructions);
}

class ArtifactJson {
 public:
  explicit ArtifactJson(const Artifact& artifact) : artifact_(artifact), graph_(artifact.graph()) {}

  std::string Write(const std::vector<PlanOf>& plans) {
    json_.Object([&] {
      json_.Field("name", graph_.name);
      json_.Key("symbols").Array([&] { Symbols(); });
      json_.Key("inputs").Array([&] { Ports(artifact_.inputs()); });
      json_.Key("outputs").Array([&] { Ports(artifact_.outputs()); });
      json_.Key("states").Array([&] { States(); });
      json_.Key("constants").Array([&] { Constants(); });
      json_.Key("host_values").Array([&] { HostValues(); });
      json_.Key("guards").Array([&] {
        for (const ir::Guard& guard : ir::ListedGuards(graph_))
          json_.Object([&] {
            json_.Field("condition", sym::ToString(guard.condition)).Field("text", guard.text);
          });
      });
      json_.Key("nodes").Array([&] {
        for (const ir::Node& node : graph_.nodes) Node(node);
      });
      json_.Key("plan").Object([&] { Plan(plans); });
    });
    return json_.text();
  }

 private:
  void Strings(const char* key, const std::vector<std::string>& strings) {
    json_.Key(key).Array([&] {
      for (const std::string& text : strings) json_.Value(text);
    });
  }
  void Dims(std::span<const int64_t> dims) {
    json_.Key("dims").Array([&] {
      for (const int64_t dim : dims) json_.Value(dim);
    });
  }
  void Type(const ir::TensorType& type) {
    json_.Field("dtype", Name(type.dtype));
    json_.Key("dims").Array([&] {
      for (const ir::Expr dim : type.dims) json_.Value(sym::ToString(dim));
    });
  }

  void Symbols() {
    const auto& infos = graph_.table().symbols();
    for (size_t i = 0; i < artifact_.symbols().size(); ++i) {
      const SymbolDescription& symbol = artifact_.symbols()[i];
      json_.Object([&] {
        json_.Field("name", symbol.name).Field("display", symbol.display);
        json_.Field("min", symbol.min).Field("max", symbol.max);
        if (i < infos.size()) json_.Field("stage", static_cast<int>(infos[i].stage));
        Strings("enters", symbol.enters);
      });
    }
  }
  void Ports(const std::vector<PortDescription>& ports) {
    for (const PortDescription& port : ports)
      json_.Object([&] {
        json_.Field("name", port.name)
            .Field("dtype", Name(port.dtype))
            .Field("scalar", port.scalar);
        Strings("dims", port.dims);
      });
  }
  void States() {
    for (const ir::State& state : graph_.states)
      json_.Object([&] {
        json_.Field("name", state.name).Field("dtype", Name(state.dtype));
        Dims(state.dims);
        json_.Field("value", state.value).Field("result", state.result);
      });
  }
  void Constants() {
    for (const ir::Constant& constant : graph_.constants)
      json_.Object([&] {
        json_.Field("name", constant.name).Field("dtype", Name(constant.dtype));
        Dims(constant.dims);
        json_.Field("encoding", ir::Name(constant.encoding))
            .Field("layout", ir::Name(constant.layout));
        json_.Field("bytes", ir::StoredBytes(constant).value_or(0));
        json_.Field("external", constant.external).Field("value", constant.value);
      });
  }
  void HostValues() {
    for (const ir::HostValue& host : graph_.host_values)
      json_.Object([&] {
        const bool input = host.source == ir::Origin::kInput;
        json_.Field("symbol", sym::ToString(graph_.table().SymbolAt(host.symbol)));
        json_.Field("source",
                    input ? graph_.inputs[host.index].name : graph_.states[host.index].name);
        json_.Field("element", sym::ToString(host.element));
      });
  }
  void Node(const ir::Node& node) {
    json_.Object([&] {
      json_.Field("op", node.op->name).Field("name", node.name).Field("source", node.source);
      json_.Key("inputs").Array([&] {
        for (const ir::ValueId id : node.inputs)
          id == ir::kNoValue ? json_.Null() : json_.Value(id);
      });
      json_.Key("outputs").Array([&] {
        for (const ir::ValueId id : node.outputs)
          json_.Object([&] {
            json_.Field("value", id);
            Type(graph_.type(id));
          });
      });
      json_.Key("attrs").Object([&] {
        for (const auto& [key, attr] : node.attrs) Attribute(json_.Key(key), attr);
      });
    });
  }
  static void Attribute(JsonWriter& json, const ir::Attr& attr) {
    if (const auto* integer = std::get_if<int64_t>(&attr)) {
      json.Value(*integer);
    } else if (const auto* number = std::get_if<double>(&attr)) {
      json.Value(*number);
    } else if (const auto* text = std::get_if<std::string>(&attr)) {
      json.Value(*text);
    } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&attr)) {
      json.Array([&] {
        for (const int64_t value : *integers) json.Value(value);
      });
    } else if (const auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr)) {
      json.Array([&] {
        for (const ir::Expr value : *exprs) json.Value(sym::ToString(value));
      });
    } else {
      json.Value(ir::ToString(attr));
    }
  }
  void Plan(const std::vector<PlanOf>& plans) {
    for (const PlanOf& plan : plans)
      json_.Key(plan.backend).Object([&] {
        if (!plan.report.ok()) {
          json_.Field("error", plan.report.status().message());
          return;
        }
        const Session::PlanReport& r = *plan.report;
        json_.Field("bytes", r.bytes).Field("lower_bound", r.lower_bound).Field("slots", r.slots);
        json_.Field("steps", r.steps)
            .Field("copies", r.copies)
            .Field("shape_instructions", r.shape_instructions);
      });
  }

  const Artifact& artifact_;
  const ir::Graph& graph_;
  JsonWriter json_;
};

}  // namespace

std::string ArtifactDump(const std::shared_ptr<const Artifact>& artifact, DumpFormat format) {
  if (format == DumpFormat::kDot) return ir::ToDot(artifact->graph());
  const std::vector<PlanOf> plans = Plans(artifact);
  if (format == DumpFormat::kJson) return ArtifactJson(*artifact).Write(plans);
  std::string text = ir::Print(artifact->graph());
  for (const PlanOf& plan : plans) text += Text(plan);
  return text;
}

}  // namespace liveshape::cli
