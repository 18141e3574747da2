// Records a second that a walk emits: in process, and from a compiled producer library. Without arguments an
// elementwise add of 4 M elements in tiles of 512, a product of 4096^3 in tiles of 128 and a softmax of 65536 rows in
// tiles of 4; with models, their kernels at the bound, by op.
//
//   make bench, or: build/release/npu_trace_bench [model.live ...]
//
// Both sides take turns, and the shortest of many turns counts: what else the machine does makes a turn longer, never
// shorter. The sink looks at nothing, so that the walk alone is measured. It is measured twice, in this program and in a
// shared library: a producer's call into a program reaches far across the address space, which costs an AMD EPYC 1 ns
// a record.
#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <map>

#include "backends/npu/producer/library.h"
#include "backends/npu/producer/source.h"
#include "liveshape/liveshape.h"
#include "ops/aten.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

template <typename Record>
int Count(void* count, const Record*) {
  ++*static_cast<uint64_t*>(count);
  return 0;
}
template <typename Record>
int Ignore(void*, const Record*) {
  return 0;
}

struct Rate {
  uint64_t records = 0;
  double walk = 0, library = 0;  // seconds
};

// Of one kernel; turns of about a millisecond.
Rate Measure(const Kernel& kernel, const ls_trace_kernel& entry, std::span<const int64_t> args) {
  using Clock = std::chrono::steady_clock;
  const auto n = static_cast<int32_t>(args.size());
  Rate rate;
  const ls_trace_sink counter = {&rate.records, Count<ls_trace_dispatch>, Count<ls_trace_dma>,
                                 Count<ls_trace_compute>, Count<ls_trace_barrier>};
  const ls_trace_sink sink = {nullptr, Ignore<ls_trace_dispatch>, Ignore<ls_trace_dma>,
                              Ignore<ls_trace_compute>, Ignore<ls_trace_barrier>};
  Walker walker(kernel);
  walker.Walk(args, counter);
  constexpr uint64_t kRecordsATurn = 200'000;
  const uint64_t walks = kRecordsATurn / std::max<uint64_t>(rate.records, 1) + 1;
  const auto turn = [&](auto&& walk) {
    const auto start = Clock::now();
    for (uint64_t i = 0; i < walks; ++i) walk();
    return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(walks);
  };
  rate.walk = rate.library = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 30; ++i) {
    rate.walk = std::min(rate.walk, turn([&] { walker.Walk(args, sink); }));
    rate.library = std::min(rate.library, turn([&] { entry.walk(args.data(), n, &sink); }));
  }
  return rate;
}

// Every kernel with every symbol at its bound; by op, of which one kernel's name is "k3_softmax".
Status MeasureModel(const ir::Graph& graph, const Target& target,
                    std::map<std::string, Rate>& rates) {
  LS_ASSIGN_OR_RETURN(const plan::Plan plan, plan::MakePlan(graph, PlanRules()));
  LS_ASSIGN_OR_RETURN(const Model model, Lower(graph, plan, target));
  const std::string path =
      std::filesystem::temp_directory_path() / fmt::format("npu_trace_bench_{}.so", getpid());
  LS_RETURN_IF_ERROR(CompileProducer(ProducerSource(model), path));
  auto producer = Producer::Open(path, Digest(model));
  std::filesystem::remove(path);  // it stays mapped
  if (!producer.ok()) return producer.status();
  std::vector<int64_t> bound;
  for (const sym::SymbolInfo& symbol : graph.table().symbols()) bound.push_back(symbol.hi);
  for (size_t i = 0; i < model.kernels.size(); ++i) {
    const Kernel& kernel = model.kernels[i];
    LS_ASSIGN_OR_RETURN(const std::vector<int64_t> args, ShapeArgs(kernel, bound));
    const Rate one = Measure(kernel, (*producer)->kernel(i), args);
    Rate& sum = rates[kernel.name.substr(kernel.name.find('_') + 1)];
    sum.records += one.records;
    sum.walk += one.walk;
    sum.library += one.library;
  }
  return {};
}

Status MeasureOwn(std::map<std::string, Rate>& rates) {
  for (const char* op : {"add", "product", "softmax"}) {
    ir::Graph graph;
    const bool product = op[0] == 'p', softmax = op[0] == 's';
    const int64_t hi = product ? 4096 : softmax ? 1 << 16 : 1 << 22;
    const sym::Expr n = graph.table().Symbol({.name = "N", .lo = 1, .hi = hi});
    const ir::Dims dims = product   ? ir::Dims{n, n}
                          : softmax ? ir::Dims{n, graph.table().Int(128)}
                                    : ir::Dims{n};
    const ir::ValueId a = graph.AddInput("a", {DType::kF32, dims});
    const ir::ValueId b = graph.AddInput("b", {DType::kF32, dims});
    ops::AtenCall call(graph, "bench", "bench", "", {});
    const ir::ValueId y = product ? call.Emit(ops::kMatmul, {a, b})
                          : softmax
                              ? call.Emit(ops::kSoftmax, {a},
                                          {{"dim", int64_t{1}}, {"all_masked", std::string("nan")}})
                              : call.Binary(ir::PwOp::kAdd, call.Of(a), call.Of(b));
    LS_RETURN_IF_ERROR(call.status());
    graph.outputs.push_back({.name = "y", .value = y});
    LS_RETURN_IF_ERROR(MeasureModel(graph, {.forced_tile = product ? 128 : 512}, rates));
  }
  return {};
}

Status Run(std::span<char* const> models) {
  std::map<std::string, Rate> rates;
  if (models.empty()) LS_RETURN_IF_ERROR(MeasureOwn(rates));
  for (const char* path : models) {
    LS_ASSIGN_OR_RETURN(auto artifact, Artifact::Load(path));
    LS_RETURN_IF_ERROR(MeasureModel(artifact->graph(), {}, rates).Prefixed(path));
  }
  fmt::print("{:<24} {:>9} {:>14} {:>14} {:>7}\n", "kernels", "records", "walk", "library",
             "ratio");
  for (const auto& [op, rate] : rates) {
    const double n = static_cast<double>(rate.records) / 1e6;
    fmt::print("{:<24} {:>9} {:>10.1f} M/s {:>10.1f} M/s {:>6.2f}x\n", op, rate.records,
               n / rate.walk, n / rate.library, rate.walk / rate.library);
  }
  return {};
}

}  // namespace
}  // namespace liveshape::npu

extern "C" int TraceBench(int argc, char** argv) {
  const liveshape::Status status =
      liveshape::npu::Run(std::span(argv + 1, static_cast<size_t>(argc - 1)));
  if (!status.ok()) fmt::print(stderr, "{}\n", status.message());
  return status.ok() ? 0 : 1;
}

#ifndef LS_BENCH_MODULE
int main(int argc, char** argv) {
  fmt::print("callbacks in a program\n");
  if (const int failed = TraceBench(argc, argv)) return failed;
  const std::string path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "npu_trace_bench_module.so";
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    fmt::print(stderr, "{}\n", dlerror());
    return 1;
  }
  fmt::print("callbacks in a shared library, as the Python module's\n");
  std::fflush(stdout);
  return reinterpret_cast<int (*)(int, char**)>(dlsym(module, "TraceBench"))(argc, argv);
}
#endif
