// Small models lowered for the NPU, and what their walks emit, for tests.
#pragma once

#include <gtest/gtest.h>

#include <cstring>

#include "backends/npu/lower/builder.h"
#include "ops/aten.h"
#include "ops/ops.h"

namespace liveshape::npu {

// A graph with its plan and its kernels.
struct Lowered {
  std::unique_ptr<ir::Graph> graph;
  plan::Plan plan;
  Model model;
};

inline Result<Lowered> LowerGraph(std::unique_ptr<ir::Graph> graph, const Target& target) {
  Lowered lowered{std::move(graph), {}, {}};
  LS_ASSIGN_OR_RETURN(lowered.plan, plan::MakePlan(*lowered.graph, PlanRules()));
  LS_ASSIGN_OR_RETURN(lowered.model, Lower(*lowered.graph, lowered.plan, target));
  return lowered;
}

// What `build` makes of the sizes it is given: symbols, or where `sizes` are given, constants.
struct SizedGraph {
  std::unique_ptr<ir::Graph> graph = std::make_unique<ir::Graph>();
  std::vector<int64_t> sizes = {};  // empty: dynamic
  size_t next = 0;
  ops::AtenCall call{*graph, "test", "test", "", {}};

  sym::Expr Size(const char* name, int64_t hi = 4096) {
    if (sizes.empty()) return graph->table().Symbol({.name = name, .lo = 1, .hi = hi});
    return graph->table().Int(sizes[next++]);
  }
  sym::Expr Int(int64_t value) { return graph->table().Int(value); }
  ir::ValueId Input(const char* name, ir::Dims dims, DType dtype = DType::kF32) {
    return graph->AddInput(name, {dtype, std::move(dims)});
  }
  ir::ValueId Add(ir::ValueId a, ir::ValueId b) {
    return call.Binary(ir::PwOp::kAdd, call.Of(a), call.Of(b));
  }
  void Output(ir::ValueId value) { graph->outputs.push_back({.name = "y", .value = value}); }
};

// Every record of a walk, as bytes behind a letter for its kind.
struct Recorder {
  std::string kinds;
  std::vector<std::string> records;

  ls_trace_sink sink() {
    return {
        .context = this,
        .dispatch = [](void* c, const ls_trace_dispatch* r) { return Keep(c, 'd', r, sizeof(*r)); },
        .dma = [](void* c,
                  const ls_trace_dma* r) { return Keep(c, r->store ? 's' : 'l', r, sizeof(*r)); },
        .compute = [](void* c, const ls_trace_compute* r) { return Keep(c, 'c', r, sizeof(*r)); },
        .barrier = [](void* c, const ls_trace_barrier* r) { return Keep(c, 'b', r, sizeof(*r)); }};
  }
  template <typename Record>
  Record As(size_t i) const {
    Record record;
    std::memcpy(&record, records[i].data(), sizeof(record));
    return record;
  }

 private:
  static int Keep(void* self, char kind, const void* record, size_t bytes) {
    auto* recorder = static_cast<Recorder*>(self);
    recorder->kinds += kind;
    recorder->records.emplace_back(static_cast<const char*>(record), bytes);
    return 0;
  }
};

inline Recorder RecordWalk(const Kernel& kernel, std::span<const int64_t> symbol_values) {
  Recorder recorder;
  auto args = ShapeArgs(kernel, symbol_values);
  EXPECT_TRUE(args.ok()) << args.status().message();
  EXPECT_EQ(Walk(kernel, *args, recorder.sink()), 0);
  return recorder;
}

}  // namespace liveshape::npu
