#include <map>

#include "ir/op.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// Nodes are pure, so equal text means equal value.
std::string Key(const ir::Node& node) {
  std::string key = node.op->name;
  for (ir::ValueId in : node.inputs) key += fmt::format(" {}", in);
  for (const auto& [name, attr] : node.attrs) {
    key += fmt::format(" {}=", name);
    // Expressions are interned: their ids say more, in less, than their text.
    if (auto* exprs = std::get_if<std::vector<ir::Expr>>(&attr)) {
      for (ir::Expr e : *exprs) key += fmt::format("#{}", e.id());
    } else if (auto* program = std::get_if<ir::PointwiseProgram>(&attr)) {
      for (const ir::PwInstr& i : program->code)
        key += fmt::format("{},{},{},{},{},{};", static_cast<int>(i.op), static_cast<int>(i.dtype),
                           i.a, i.b, i.c, i.imm);
      for (ir::Expr e : program->scalars) key += fmt::format("#{}", e.id());
    } else {
      key += ir::ToString(attr);
    }
  }
  return key;
}

}  // namespace

Status EliminateCommonSubexpressions(ir::Graph& graph, const PassOptions&) {
  std::map<std::string, uint32_t> seen;
  std::vector<ir::ValueId> replacement(graph.values.size(), ir::kNoValue);
  auto current = [&](ir::ValueId v) {
    return v != ir::kNoValue && replacement[v] != ir::kNoValue ? replacement[v] : v;
  };
  std::vector<ir::Node> nodes;
  for (ir::Node& node : graph.nodes) {
    for (ir::ValueId& in : node.inputs) in = current(in);
    auto [it, fresh] = seen.emplace(Key(node), static_cast<uint32_t>(nodes.size()));
    if (fresh) {
      nodes.push_back(std::move(node));
      continue;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i)
      replacement[node.outputs[i]] = nodes[it->second].outputs[i];
  }
  graph.nodes = std::move(nodes);
  graph.ReplaceUses(replacement);
  return {};
}

}  // namespace liveshape::passes
