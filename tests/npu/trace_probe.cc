// trace_probe producer.so model.live ...: lowers the models, compiles one trace producer for the kernels of all of them,
// and compares every record with the in-process walk's, at sizes from the least to the bound. Prints what it compared,
// which models have an op without a lowering, and which lowerings no model used.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>

#include "backends/npu/lower/builder.h"
#include "backends/npu/producer/library.h"
#include "backends/npu/producer/source.h"
#include "liveshape/liveshape.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// Records as one number, so that a long trace does not live in memory.
struct Sum {
  uint64_t records = 0, hash = 0xcbf29ce484222325;
  template <typename Record>
  static int Add(void* self, const Record* record) {
    auto* sum = static_cast<Sum*>(self);
    ++sum->records;
    uint64_t words[sizeof(Record) / 8];
    std::memcpy(words, record, sizeof(words));
    for (uint64_t word : words) sum->hash = (sum->hash ^ word) * 0x100000001b3;
    return 0;
  }
  ls_trace_sink sink() {
    return {this, Add<ls_trace_dispatch>, Add<ls_trace_dma>, Add<ls_trace_compute>,
            Add<ls_trace_barrier>};
  }
};

struct Lowered {
  std::string path;
  std::shared_ptr<const Artifact> artifact;
  plan::Plan plan;
  size_t first = 0, kernels = 0;  // of Probe::model
};

struct Probe {
  std::vector<Lowered> models;
  Model model;  // the kernels of all
  std::set<const ir::OpDef*> used;
  uint64_t records = 0, walks = 0;

  Status Add(const std::string& path) {
    Lowered lowered{path, nullptr, {}, model.kernels.size(), 0};
    LS_ASSIGN_OR_RETURN(lowered.artifact, Artifact::Load(path));
    const ir::Graph& graph = lowered.artifact->graph();
    LS_ASSIGN_OR_RETURN(lowered.plan, plan::MakePlan(graph, PlanRules()));
    Result<Model> own = Lower(graph, lowered.plan, {});
    if (!own.ok()) {
      if (own.status().code() != liveshape::Code::kUnsupported) return own.status();
      fmt::print("refused {}: {}\n", path, own.status().message());
      return {};
    }
    lowered.kernels = own->kernels.size();
    for (Kernel& kernel : own->kernels) {
      const uint32_t node = lowered.plan.steps[kernel.step].node;
      used.insert(node == ir::Graph::kNoNode ? &ops::kCopy : graph.nodes[node].op);
      model.kernels.push_back(std::move(kernel));
    }
    models.push_back(std::move(lowered));
    return {};
  }

  Status Compare(const Producer& producer, const Lowered& lowered,
                 std::span<const int64_t> values) {
    for (size_t i = lowered.first; i < lowered.first + lowered.kernels; ++i) {
      const Kernel& kernel = model.kernels[i];
      LS_ASSIGN_OR_RETURN(const std::vector<int64_t> args, ShapeArgs(kernel, values));
      Sum walked, emitted;
      const ls_trace_sink to_walked = walked.sink(), to_emitted = emitted.sink();
      const int from_walk = Walk(kernel, args, to_walked);
      const int from_library =
          producer.kernel(i).walk(args.data(), static_cast<int32_t>(args.size()), &to_emitted);
      if (from_walk != 0 || from_library != 0 || walked.records != emitted.records ||
          walked.hash != emitted.hash)
        return Internal(
            "`{}` at [{}]: {} records from the walk ({}), {} from the library ({}), which differ",
            kernel.name, fmt::join(values, ", "), walked.records, from_walk, emitted.records,
            from_library);
      records += walked.records;
      ++walks;
    }
    return {};
  }

  Status Run(const std::string& library) {
    LS_RETURN_IF_ERROR(CompileProducer(ProducerSource(model), library));
    LS_ASSIGN_OR_RETURN(auto producer, Producer::Open(library, Digest(model)));
    constexpr int64_t kBound = int64_t{1} << 62;
    for (const Lowered& lowered : models)
      for (int64_t size :
           {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{37}, int64_t{129}, int64_t{1000}, kBound}) {
        std::vector<int64_t> values;
        for (const sym::SymbolInfo& symbol : lowered.artifact->graph().table().symbols())
          values.push_back(
              std::clamp(size + static_cast<int64_t>(values.size()), symbol.lo, symbol.hi));
        LS_RETURN_IF_ERROR(Compare(*producer, lowered, values).Prefixed(lowered.path));
      }
    return {};
  }
};

Status Run(const std::string& library, std::span<char* const> paths) {
  Probe probe;
  for (const char* path : paths) LS_RETURN_IF_ERROR(probe.Add(path).Prefixed(path));
  LS_RETURN_IF_ERROR(probe.Run(library));
  fmt::print("{} models, {} kernels, {} walks, {} records equal\n", probe.models.size(),
             probe.model.kernels.size(), probe.walks, probe.records);
  for (const NpuOp* op : AllOps())
    if (!probe.used.contains(op->op)) fmt::print("unused {}\n", op->op->name);
  return {};
}

}  // namespace
}  // namespace liveshape::npu

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: trace_probe producer.so model.live ...\n");
    return 2;
  }
  const liveshape::Status status =
      liveshape::npu::Run(argv[1], std::span(argv + 2, static_cast<size_t>(argc - 2)));
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}
