// Records a second that a walk emits: in process, and from a compiled producer library. An elementwise add over 4 M
// elements in tiles of 512 (57,344 records) and a product of 4096^3 in tiles
// of 128 (1,024 items of 32 steps).
//
//   make bench, or: build/release/npu_trace_bench
#include <benchmark/benchmark.h>

#include <filesystem>

#include "backends/npu/producer/library.h"
#include "backends/npu/producer/source.h"
#include "ops/aten.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

struct Loaded {
  ir::Graph graph;
  plan::Plan plan;
  Model model;
  std::unique_ptr<Producer> producer;

  Status Make(bool product) {
    const sym::Expr n =
        graph.table().Symbol({.name = "N", .lo = 1, .hi = product ? 4096 : 1 << 22});
    const ir::Dims dims = product ? ir::Dims{n, n} : ir::Dims{n};
    const ir::ValueId a = graph.AddInput("a", {DType::kF32, dims}),
                      b = graph.AddInput("b", {DType::kF32, dims});
    ops::AtenCall call(graph, "bench", "bench", "", {});
    const ir::ValueId y = product ? call.Emit(ops::kMatmul, {a, b})
                                  : call.Binary(ir::PwOp::kAdd, call.Of(a), call.Of(b));
    LS_RETURN_IF_ERROR(call.status());
    graph.outputs.push_back({.name = "y", .value = y});
    LS_ASSIGN_OR_RETURN(plan, plan::MakePlan(graph, PlanRules()));
    LS_ASSIGN_OR_RETURN(model, Lower(graph, plan, {.forced_tile = product ? 128 : 512}));
    const std::string path =
        (std::filesystem::temp_directory_path() / (product ? "product.so" : "add.so")).string();
    LS_RETURN_IF_ERROR(CompileProducer(ProducerSource(model), path));
    LS_ASSIGN_OR_RETURN(producer, Producer::Open(path, Digest(model)));
    return {};
  }
};

template <typename Record>
int Count(void* count, const Record*) {
  ++*static_cast<uint64_t*>(count);
  return 0;
}
// What is measured is the walk alone: the sink looks at nothing.
template <typename Record>
int Ignore(void*, const Record*) {
  return 0;
}

void Run(benchmark::State& state, bool product, bool library) {
  Loaded loaded;
  if (Status status = loaded.Make(product); !status.ok())
    return state.SkipWithError(status.message().c_str());
  uint64_t records = 0;
  const ls_trace_sink counter = {&records, Count<ls_trace_dispatch>, Count<ls_trace_dma>,
                                 Count<ls_trace_compute>, Count<ls_trace_barrier>};
  const ls_trace_sink sink = {nullptr, Ignore<ls_trace_dispatch>, Ignore<ls_trace_dma>,
                              Ignore<ls_trace_compute>, Ignore<ls_trace_barrier>};
  const int64_t args[] = {product ? 4096 : 1 << 22};
  Walker walker(loaded.model.kernels[0]);
  walker.Walk(args, counter);
  for (auto _ : state) {
    if (library)
      loaded.producer->kernel(0).walk(args, 1, &sink);
    else
      walker.Walk(args, sink);
  }
  state.SetItemsProcessed(static_cast<int64_t>(records) * static_cast<int64_t>(state.iterations()));
}

BENCHMARK_CAPTURE(Run, add_in_process, false, false);
BENCHMARK_CAPTURE(Run, add_library, false, true);
BENCHMARK_CAPTURE(Run, product_in_process, true, false);
BENCHMARK_CAPTURE(Run, product_library, true, true);

}  // namespace
}  // namespace liveshape::npu
