// trace_probe model.live producer.so: lowers the model, compiles its trace producer, and compares every record of every
// kernel with the in-process walk's, at sizes from the least to the bound. Prints what it compared, and the rates at
// which both emitted.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "backends/npu/producer/library.h"
#include "backends/npu/producer/source.h"
#include "liveshape/liveshape.h"

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

struct Count {
  uint64_t records = 0;
  template <typename Record>
  static int Add(void* self, const Record*) {
    ++static_cast<Count*>(self)->records;
    return 0;
  }
  ls_trace_sink sink() {
    return {this, Add<ls_trace_dispatch>, Add<ls_trace_dma>, Add<ls_trace_compute>,
            Add<ls_trace_barrier>};
  }
};

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Status Probe(const std::string& path, const std::string& library) {
  LS_ASSIGN_OR_RETURN(auto artifact, Artifact::Load(path));
  const ir::Graph& graph = artifact->graph();
  LS_ASSIGN_OR_RETURN(const plan::Plan plan, plan::MakePlan(graph, PlanRules()));
  LS_ASSIGN_OR_RETURN(const Model model, Lower(graph, plan, {}));
  LS_RETURN_IF_ERROR(CompileProducer(ProducerSource(model), library));
  LS_ASSIGN_OR_RETURN(auto producer, Producer::Open(library, Digest(model)));
  uint64_t records = 0;
  double native = 0, walked = 0;
  for (int64_t size : {0, 1, 5, 37, 129, 1000}) {
    std::vector<int64_t> values;
    for (const sym::SymbolInfo& symbol : graph.table().symbols())
      values.push_back(
          std::clamp(size + static_cast<int64_t>(values.size()), symbol.lo, symbol.hi));
    for (size_t i = 0; i < model.kernels.size(); ++i) {
      const Kernel& kernel = model.kernels[i];
      LS_ASSIGN_OR_RETURN(const std::vector<int64_t> args, ShapeArgs(kernel, values));
      const auto count = static_cast<int32_t>(args.size());
      const ls_trace_kernel& entry = producer->kernel(i);
      Sum a, b;
      const ls_trace_sink to_a = a.sink(), to_b = b.sink();
      const int from_a = Walk(kernel, args, to_a), from_b = entry.walk(args.data(), count, &to_b);
      if (from_a != from_b || a.records != b.records || a.hash != b.hash)
        return Internal("`{}` at size {}: {} records in process, {} from the library, which differ",
                        kernel.name, size, a.records, b.records);
      records += a.records;
      Count to_count;
      const ls_trace_sink counter = to_count.sink();
      Walker walker(kernel);
      walked += Seconds([&] { walker.Walk(args, counter); });
      native += Seconds([&] { entry.walk(args.data(), count, &counter); });
    }
  }
  const double n = static_cast<double>(records);
  fmt::print("{} kernels, {} records equal; {:.1f} M/s in process, {:.1f} M/s from the library\n",
             model.kernels.size(), records, n / walked / 1e6, n / native / 1e6);
  return {};
}

}  // namespace
}  // namespace liveshape::npu

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: trace_probe model.live producer.so\n");
    return 2;
  }
  const liveshape::Status status = liveshape::npu::Probe(argv[1], argv[2]);
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}
