// Small graphs for tests of the runtime, built by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ir/graph.h"
#include "liveshape/liveshape.h"
#include "ops/aten.h"
#include "ops/ops.h"
#include "runtime/backend.h"

namespace liveshape {

// A graph under construction, with an AtenCall for its sugar.
struct GraphMaker {
  std::unique_ptr<ir::Graph> graph = std::make_unique<ir::Graph>();
  ops::AtenCall call{*graph, "test", "test", "", {}};

  sym::Table& table() { return graph->table(); }
  sym::Expr Symbol(const char* name, int64_t lo, int64_t hi) {
    return table().Symbol({.name = name, .lo = lo, .hi = hi, .display = std::string("D") + name});
  }
  sym::Expr Int(int64_t v) { return table().Int(v); }
  ir::ValueId Add(ir::ValueId a, ir::ValueId b) {
    return call.Binary(ir::PwOp::kAdd, call.Of(a), call.Of(b));
  }
  void Output(const char* name, ir::ValueId v) {
    graph->outputs.push_back({.name = name, .value = v});
  }
  ir::ValueId State(const char* name, DType dtype, std::vector<int64_t> dims) {
    size_t bytes = SizeOf(dtype);
    for (int64_t d : dims) bytes *= static_cast<size_t>(d);
    auto zeros = std::make_shared<std::vector<std::byte>>(bytes);
    return graph->AddState(
        {.name = name, .dtype = dtype, .dims = std::move(dims), .initial = *zeros, .owner = zeros});
  }
  std::shared_ptr<const Artifact> Finish() {
    EXPECT_TRUE(call.ok()) << call.status().message();
    auto artifact = Artifact::FromGraph(std::move(graph));
    EXPECT_TRUE(artifact.ok()) << artifact.status().message();
    return *artifact;
  }
};

inline std::unique_ptr<Session> MakeSession(std::shared_ptr<const Artifact> artifact,
                                            SessionOptions options = {}, int threads = 2) {
  auto session =
      Session::Create(std::move(artifact), MakeCpuBackend({.threads = threads}), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return *std::move(session);
}

// A tensor with its own memory.
template <typename T>
struct Owned {
  std::vector<T> data;
  TensorRef ref;
  Owned(DType dtype, std::vector<int64_t> dims, std::vector<T> values) : data(std::move(values)) {
    ref = {dtype, data.data(), std::move(dims)};
  }
};

inline Owned<float> Floats(std::vector<int64_t> dims, float scale = 1) {
  size_t n = 1;
  for (int64_t d : dims) n *= static_cast<size_t>(d);
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i)
    values[i] = scale * static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 50;
  return {DType::kF32, std::move(dims), std::move(values)};
}

inline Owned<int64_t> Integers(std::vector<int64_t> dims, std::vector<int64_t> values) {
  return {DType::kI64, std::move(dims), std::move(values)};
}

inline std::vector<float> ReadFloats(const TensorRef& t) {
  const auto* p = static_cast<const float*>(t.data);
  return {p, p + t.bytes() / sizeof(float)};
}

}  // namespace liveshape
