#include <algorithm>

#include "ir/graph.h"
#include "ir/op.h"

namespace liveshape::ir {
namespace {

// Behind what is there already, so that of several nodes that ask for the same the first is named.
void AddOnce(Guard guard, std::vector<Guard>& guards) {
  if (std::ranges::find(guards, guard.condition, &Guard::condition) == guards.end())
    guards.push_back(std::move(guard));
}

}  // namespace

Status AddRequirements(const Graph& graph, const Node& node, std::vector<Guard>& requirements) {
  std::vector<const TensorType*> types;
  types.reserve(node.inputs.size());
  for (ValueId id : node.inputs) types.push_back(id == kNoValue ? nullptr : &graph.type(id));
  std::vector<Guard> undecided;
  const InferContext context{graph.table(), node, types, &undecided};

  const auto require = [&]() -> Status {
    LS_ASSIGN_OR_RETURN(const std::vector<TensorType> inferred, node.op->infer(context));
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const TensorType& stored = graph.type(node.outputs[i]);
      LS_RETURN_IF_ERROR(context.RequireEqual(stored.dims, inferred[i].dims, [&] {
        return fmt::format("output {} is stored as {}, its shape rule gives {}", i,
                           ToString(stored), ToString(inferred[i]));
      }));
      for (Expr dim : stored.dims)
        LS_RETURN_IF_ERROR(context.Require(Ge(dim, graph.table().Int(0)), [&] {
          return fmt::format("output {} would have the size {}", i, ToString(dim));
        }));
    }
    return {};
  };
  LS_RETURN_IF_ERROR(require().Prefixed(Describe(node)));
  for (Guard& guard : undecided)
    AddOnce({guard.condition, fmt::format("{}: {}", Describe(node), guard.text)}, requirements);
  return {};
}

Result<std::vector<Guard>> Requirements(const Graph& graph) {
  std::vector<Guard> requirements;
  for (const Node& node : graph.nodes)
    LS_RETURN_IF_ERROR(AddRequirements(graph, node, requirements));
  for (const Guard& guard : graph.guards)
    if (graph.table().IsTrue(guard.condition) != sym::Tri::kYes) AddOnce(guard, requirements);
  return requirements;
}

std::vector<Guard> ListedGuards(const Graph& graph) {
  auto requirements = Requirements(graph);
  return requirements.ok() ? *std::move(requirements) : graph.guards;
}

}  // namespace liveshape::ir
