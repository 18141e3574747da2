// The loader of a .live: as the bytes are, and behind a header made right, since few mutations pass a
// checksum. What loads must hold, print, be described, be written and read again as the same graph, and run: on the CPU,
// at its smallest shape, where it asks for little memory.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "artifact/load.h"
#include "artifact/testing.h"
#include "artifact/write.h"
#include "liveshape/liveshape.h"
#include "runtime/backend.h"

namespace {

using liveshape::artifact::LoadGraph;

constexpr size_t kMostBytes = 1 << 20;

void Run(const std::shared_ptr<const liveshape::Artifact>& artifact) {
  using namespace liveshape;
  auto session = Session::Create(artifact, MakeCpuBackend({.threads = 1}));
  if (!session.ok() || (*session)->plan_report().bytes > kMostBytes) return;
  const ir::Graph& graph = artifact->graph();
  std::vector<int64_t> smallest;
  for (const sym::SymbolInfo& symbol : graph.table().symbols()) smallest.push_back(symbol.lo);
  const auto at_smallest = [&](sym::Expr e) {
    const auto value = graph.table().Evaluate(e, smallest);
    return value.ok() ? *value : 0;
  };
  std::vector<std::vector<std::byte>> memory;
  std::vector<TensorRef> inputs;
  for (const ir::Input& input : graph.inputs) {
    TensorRef ref{.dtype = DType::kI64};
    if (input.value != ir::kNoValue) {
      ref.dtype = graph.type(input.value).dtype;
      for (const sym::Expr dim : graph.type(input.value).dims) ref.dims.push_back(at_smallest(dim));
    }
    const auto bytes = ir::DenseBytes(ref.dtype, ref.dims);
    if (!bytes || *bytes > kMostBytes) return;
    memory.emplace_back(std::max<size_t>(*bytes, sizeof(int64_t)));  // zeros
    if (input.value == ir::kNoValue && input.scalar) {
      const int64_t number = at_smallest(input.scalar);
      std::memcpy(memory.back().data(), &number, sizeof(number));
    }
    ref.data = memory.back().data();
    inputs.push_back(std::move(ref));
  }
  (void)(*session)->Run(inputs);
}

size_t MadeValues(const liveshape::ir::Graph& graph) {
  size_t made = graph.constants.size() + graph.states.size();
  for (const auto& input : graph.inputs) made += input.value != liveshape::ir::kNoValue;
  for (const auto& node : graph.nodes) made += node.outputs.size();
  return made;
}

void Load(std::span<const std::byte> bytes) {
  auto graph = LoadGraph(bytes, nullptr);
  if (!graph.ok()) return;
  const std::string text = liveshape::ir::Print(**graph);
  auto written = liveshape::artifact::SerializeArtifact(**graph);
  if (!written.ok()) return;  // simplified beyond what a file holds
  auto again = LoadGraph(*written, nullptr);
  // Values that nothing makes are not written; those behind them then get other numbers.
  const bool same_numbers = MadeValues(**graph) == (*graph)->values.size();
  if (!again.ok() || (same_numbers && liveshape::ir::Print(**again) != text)) {
    std::fprintf(
        stderr, "%s\nbecame\n%s\n", text.c_str(),
        again.ok() ? liveshape::ir::Print(**again).c_str() : again.status().message().c_str());
    std::abort();
  }
  if (auto artifact = liveshape::Artifact::FromGraph(*std::move(graph)); artifact.ok())
    Run(*artifact);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> file(bytes, bytes + size);
  Load(file);
  if (liveshape::artifact::Reseal(file)) Load(file);
  return 0;
}
