// One spelling for each thing: views composed, casts to the same dtype dropped, one-element constants as
// immediates.
#include <bit>
#include <cstring>

#include "ir/op.h"
#include "ops/ops.h"
#include "passes/passes.h"

namespace liveshape::passes {
namespace {

class Canonicaliser {
 public:
  explicit Canonicaliser(ir::Graph& graph)
      : graph_(graph),
        producers_(graph.Producers()),
        replacement_(graph.values.size(), ir::kNoValue) {}

  Status Run() {
    for (ir::Node& node : graph_.nodes) {
      for (ir::ValueId& in : node.inputs) in = Current(in);
      ComposeViews(node);
      InlineConstants(node);
      if (ir::ValueId same = SameAs(node); same != ir::kNoValue)
        replacement_[node.outputs[0]] = same;
    }
    graph_.ReplaceUses(replacement_);
    return {};
  }

 private:
  ir::ValueId Current(ir::ValueId v) const {
    while (v != ir::kNoValue && replacement_[v] != ir::kNoValue) v = replacement_[v];
    return v;
  }
  const ir::Node* Producer(ir::ValueId v) const {
    return producers_[v] == ir::Graph::kNoNode ? nullptr : &graph_.nodes[producers_[v]];
  }

  // permute(permute(x)), reshape(reshape(x)), expand(expand(x)): the outer one on x.
  void ComposeViews(ir::Node& node) {
    if (node.inputs.empty() || node.inputs[0] == ir::kNoValue) return;
    const ir::Node* inner = Producer(node.inputs[0]);
    if (inner == nullptr || inner->op != node.op) return;
    if (node.op == &ops::kPermute) {
      std::vector<int64_t> perm;
      for (int64_t axis : node.Ints("perm"))
        perm.push_back(inner->Ints("perm")[static_cast<size_t>(axis)]);
      node.Set("perm", std::move(perm));
    } else if (node.op != &ops::kReshape && node.op != &ops::kExpand) {
      return;
    }
    node.inputs[0] = inner->inputs[0];
  }

  // The value that this node merely repeats.
  ir::ValueId SameAs(const ir::Node& node) const {
    if (node.inputs.size() != 1 || node.outputs.size() != 1) return ir::kNoValue;
    const ir::ValueId in = node.inputs[0];
    const bool same_type = graph_.type(in) == graph_.type(node.outputs[0]);
    if (node.op == &ops::kPermute) {
      const auto& perm = node.Ints("perm");
      return std::is_sorted(perm.begin(), perm.end()) ? in : ir::kNoValue;
    }
    if (node.op == &ops::kReshape || node.op == &ops::kExpand) return same_type ? in : ir::kNoValue;
    if (node.op == &ops::kSlice)
      return same_type && node.Exprs("start")[0].is_int(0) && node.Int("step") == 1 ? in
                                                                                    : ir::kNoValue;
    if (node.op == &ops::kPointwise && same_type) {
      const auto& code = node.Program().code;
      if (code.size() == 1 && code[0].op == ir::PwOp::kLoad) return in;
      if (code.size() == 2 && code[1].op == ir::PwOp::kCast && code[0].dtype == code[1].dtype)
        return in;
    }
    return ir::kNoValue;
  }

  // The one element of a constant behind views that only repeat it.
  std::optional<int64_t> ImmediateBits(ir::ValueId v, DType* dtype) const {
    for (const ir::Node* p = Producer(v); p && p->op->view; p = Producer(v))
      v = Current(p->inputs[0]);
    const ir::Value& value = graph_.value(v);
    if (value.origin != ir::Origin::kConstant) return std::nullopt;
    const ir::Constant& c = graph_.constants[value.index];
    if (c.data.size() != SizeOf(c.dtype) || c.dtype == DType::kF16 || c.dtype == DType::kBF16)
      return std::nullopt;
    *dtype = c.dtype;
    auto read = [&](auto zero) {
      std::memcpy(&zero, c.data.data(), sizeof(zero));
      return zero;
    };
    switch (c.dtype) {
      case DType::kF32: return std::bit_cast<int64_t>(static_cast<double>(read(float{})));
      case DType::kF64: return std::bit_cast<int64_t>(read(double{}));
      case DType::kI64: return read(int64_t{});
      case DType::kI32: return read(int32_t{});
      case DType::kI16: return read(int16_t{});
      case DType::kI8: return read(int8_t{});
      default: return read(uint8_t{});
    }
  }

  void InlineConstants(ir::Node& node) {
    if (node.op != &ops::kPointwise) return;
    ir::PointwiseProgram program = node.Program();
    std::vector<ir::ValueId> inputs;
    bool changed = false;
    std::vector<int64_t> renumbered(node.inputs.size(), -1);
    for (ir::PwInstr& instr : program.code) {
      if (instr.op != ir::PwOp::kLoad) continue;
      const size_t input = static_cast<size_t>(instr.imm);
      DType dtype = instr.dtype;
      if (auto bits = ImmediateBits(node.inputs[input], &dtype); bits && dtype == instr.dtype) {
        instr.op = ir::PwOp::kConst;
        instr.imm = *bits;
        changed = true;
        continue;
      }
      if (renumbered[input] < 0) {
        renumbered[input] = static_cast<int64_t>(inputs.size());
        inputs.push_back(node.inputs[input]);
      }
      instr.imm = renumbered[input];
    }
    if (!changed) return;
    node.inputs = std::move(inputs);
    node.Set("program", std::move(program));
  }

  ir::Graph& graph_;
  std::vector<uint32_t> producers_;
  std::vector<ir::ValueId> replacement_;
};

}  // namespace

Status Canonicalise(ir::Graph& graph, const PassOptions&) { return Canonicaliser(graph).Run(); }

}  // namespace liveshape::passes
