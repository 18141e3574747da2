// Chains of pointwise nodes become one: the intermediate lives in registers and cache, not in a slot.
#include <map>

#include "ir/op.h"
#include "ops/ops.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

// WebGPU guarantees 8 storage buffers a stage, one of which is the output and one the parameters.
constexpr size_t kMostInputs = 6;
constexpr size_t kMostInstructions = 64;

struct Builder {
  ir::PointwiseProgram program;
  std::vector<ir::ValueId> inputs;

  uint32_t Push(const ir::PwInstr& instr) {
    // A chain often loads one tensor twice: x * sigmoid(x).
    for (uint32_t i = 0; i < program.code.size(); ++i)
      if (program.code[i] == instr) return i;
    program.code.push_back(instr);
    return static_cast<uint32_t>(program.code.size() - 1);
  }

  uint32_t Load(ir::ValueId value, DType dtype) {
    size_t index = 0;
    while (index < inputs.size() && inputs[index] != value) ++index;
    if (index == inputs.size()) inputs.push_back(value);
    return Push({.op = ir::PwOp::kLoad, .dtype = dtype, .imm = static_cast<int64_t>(index)});
  }

  // Appends `node`'s program; a load of input i is `replace(i)` where that gives an instruction.
  template <typename Replace>
  uint32_t Append(const ir::Node& node, Replace replace) {
    std::vector<uint32_t> at;
    for (ir::PwInstr instr : node.Program().code) {
      if (instr.op == ir::PwOp::kLoad) {
        const size_t input = static_cast<size_t>(instr.imm);
        std::optional<uint32_t> inlined = replace(input);
        at.push_back(inlined ? *inlined : Load(node.inputs[input], instr.dtype));
        continue;
      }
      if (instr.op == ir::PwOp::kScalar) {
        program.scalars.push_back(node.Program().scalars[static_cast<size_t>(instr.imm)]);
        instr.imm = static_cast<int64_t>(program.scalars.size()) - 1;
      } else if (instr.op != ir::PwOp::kConst && instr.op != ir::PwOp::kIota) {
        instr.a = at[instr.a];
        if (instr.b < at.size()) instr.b = at[instr.b];
        if (instr.c < at.size()) instr.c = at[instr.c];
      }
      at.push_back(Push(instr));
    }
    return at.back();
  }
};

// Reading a state later could keep it from being updated in place: such a node stays where it is.
bool ReadsState(const ir::Graph& graph, const std::vector<uint32_t>& producers,
                const ir::Node& node) {
  for (ir::ValueId v : node.inputs) {
    if (graph.value(ir::RootOfViews(graph, producers, v)).origin == ir::Origin::kState) return true;
  }
  return false;
}

}  // namespace

Status FusePointwise(ir::Graph& graph, const PassOptions&) {
  const std::vector<uint32_t> producers = graph.Producers();
  std::vector<uint32_t> uses(graph.values.size(), 0);  // by distinct nodes, outputs and states
  const auto users = graph.Users();
  for (ir::ValueId v = 0; v < graph.values.size(); ++v)
    uses[v] = static_cast<uint32_t>(users[v].size());
  for (const ir::Output& output : graph.outputs)
    if (output.value != ir::kNoValue) ++uses[output.value];
  for (const ir::State& state : graph.states)
    if (state.result != ir::kNoValue) ++uses[state.result];

  // In topological order, so a producer is already as large as it gets.
  for (ir::Node& node : graph.nodes) {
    if (node.op != &ops::kPointwise) continue;
    for (bool grown = true; grown;) {
      grown = false;
      for (size_t i = 0; i < node.inputs.size() && !grown; ++i) {
        const ir::ValueId in = node.inputs[i];
        if (producers[in] == ir::Graph::kNoNode) continue;
        const ir::Node& producer = graph.nodes[producers[in]];
        if (producer.op != &ops::kPointwise || uses[in] != 1 ||
            ReadsState(graph, producers, producer))
          continue;
        // The dims must be the same expressions, or iota and the output would disagree.
        if (graph.type(in).dims != graph.type(node.outputs[0]).dims) continue;
        Builder builder;
        std::optional<uint32_t> inlined;
        const uint32_t result = builder.Append(node, [&](size_t input) -> std::optional<uint32_t> {
          if (node.inputs[input] != in) return std::nullopt;
          if (!inlined) inlined = builder.Append(producer, [](size_t) { return std::nullopt; });
          return inlined;
        });
        if (builder.inputs.size() > kMostInputs || builder.program.code.size() > kMostInstructions)
          continue;
        // The result is the last instruction by definition; sharing may have put it earlier.
        if (result + 1 != builder.program.code.size()) continue;
        node.inputs = std::move(builder.inputs);
        node.Set("program", std::move(builder.program));
        grown = true;
      }
    }
  }
  return {};
}

}  // namespace liveshape::passes
