#include <algorithm>

#include "artifact/load.h"
#include "base/memory.h"
#include "ir/graph.h"
#include "liveshape/liveshape.h"

namespace liveshape {
namespace {

template <typename Port>
PortDescription DescribePort(const ir::Graph& graph, const Port& port) {
  PortDescription description{.name = port.name, .dtype = DType::kI64, .dims = {}};
  if (port.value == ir::kNoValue) {
    description.scalar = true;
    return description;
  }
  const ir::TensorType& type = graph.type(port.value);
  description.dtype = type.dtype;
  for (ir::Expr dim : type.dims) description.dims.push_back(sym::ToString(dim));
  return description;
}

// Calls visit(where, expression) for every size that the caller's inputs determine.
template <typename Visit>
void ForEachEntry(const ir::Graph& graph, Visit visit) {
  for (const ir::Input& input : graph.inputs) {
    if (input.value == ir::kNoValue) {
      visit(input.name, input.scalar);
      continue;
    }
    const ir::Dims& dims = graph.type(input.value).dims;
    for (size_t i = 0; i < dims.size(); ++i) visit(fmt::format("{}.{}", input.name, i), dims[i]);
  }
}

std::vector<SymbolDescription> DescribeSymbols(const ir::Graph& graph) {
  std::vector<SymbolDescription> symbols;
  for (const sym::SymbolInfo& symbol : graph.table().symbols())
    symbols.push_back({.name = symbol.name,
                       .display = symbol.display,
                       .min = symbol.lo,
                       .max = symbol.hi,
                       .enters = {}});
  ForEachEntry(graph, [&](std::string where, ir::Expr e) {
    if (e.is_symbol()) symbols[e.symbol()].enters.push_back(std::move(where));
  });
  // A symbol that enters only inside a larger size: `x.1 = 2*S`, which is no name for it.
  std::vector<bool> plain;
  for (const SymbolDescription& symbol : symbols) plain.push_back(!symbol.enters.empty());
  ForEachEntry(graph, [&](const std::string& where, ir::Expr e) {
    if (e.is_symbol() || e.is_int()) return;
    for (uint32_t index : graph.table().FreeSymbols(e))
      if (!plain[index])
        symbols[index].enters.push_back(fmt::format("{} = {}", where, sym::ToString(e)));
  });
  return symbols;
}

}  // namespace

size_t TensorRef::bytes() const {
  size_t count = SizeOf(dtype);
  for (int64_t dim : dims) count *= static_cast<size_t>(dim);
  return count;
}

TensorRef TensorRef::Of(const float* data, std::initializer_list<int64_t> dims) {
  return {DType::kF32, const_cast<float*>(data), dims};
}

Artifact::~Artifact() = default;

std::shared_ptr<Artifact> Artifact::Describe(std::unique_ptr<ir::Graph> graph) {
  std::shared_ptr<Artifact> artifact(new Artifact());
  artifact->symbols_ = DescribeSymbols(*graph);
  for (const ir::Input& input : graph->inputs)
    artifact->inputs_.push_back(DescribePort(*graph, input));
  for (const ir::Output& output : graph->outputs)
    artifact->outputs_.push_back(DescribePort(*graph, output));
  artifact->graph_ = std::move(graph);
  return artifact;
}

Result<std::shared_ptr<const Artifact>> Artifact::FromGraph(std::unique_ptr<ir::Graph> graph) {
  LS_RETURN_IF_ERROR(ir::Verify(*graph));
  return std::shared_ptr<const Artifact>(Describe(std::move(graph)));
}

Result<std::shared_ptr<const Artifact>> Artifact::Load(std::span<const std::byte> bytes,
                                                       std::shared_ptr<const void> owner,
                                                       const LoadOptions& options) {
  artifact::LoadInfo info;
  LS_ASSIGN_OR_RETURN(auto graph, artifact::LoadGraph(bytes, std::move(owner), &info));
  LS_ASSIGN_OR_RETURN(const size_t copied,
                      artifact::BindExternals(*graph, options.external_constants));
  std::shared_ptr<Artifact> artifact = Describe(std::move(graph));
  artifact->copied_constant_bytes_ = info.copied_constant_bytes + copied;
  return std::shared_ptr<const Artifact>(std::move(artifact));
}

Result<std::shared_ptr<const Artifact>> Artifact::Load(const std::string& path,
                                                       const LoadOptions& options) {
  LS_ASSIGN_OR_RETURN(auto file, MappedFile::Open(path));
  auto loaded = Load(file->bytes(), file, options);
  if (!loaded.ok()) return std::move(loaded).status().Prefixed(fmt::format("`{}`", path));
  return loaded;
}

int Artifact::FindSymbol(std::string_view name) const {
  auto find = [&](auto matches) {
    const auto it = std::ranges::find_if(symbols_, matches);
    return it == symbols_.end() ? -1 : static_cast<int>(it - symbols_.begin());
  };
  if (name.empty()) return -1;
  if (int i = find([&](const auto& s) { return s.name == name; }); i >= 0) return i;
  if (int i = find([&](const auto& s) { return s.display == name; }); i >= 0) return i;
  return find([&](const auto& s) { return std::ranges::count(s.enters, name) > 0; });
}

}  // namespace liveshape
