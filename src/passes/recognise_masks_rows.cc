// A formula for the keys that each row sees, written as nodes.
#include "passes/recognise_masks.h"

namespace liveshape::passes {
namespace {

class RowEmitter {
 public:
  RowEmitter(Elements& elements, Rewriter& rewrite, ir::Graph& graph, const RowIndices& indices,
             const Dims& dims)
      : elements_(elements), rewrite_(rewrite), graph_(graph), dims_(dims) {
    index_[0] = indices.batch, index_[1] = indices.head, index_[2] = indices.row;
  }

  Result<ValueId> Run(Expr count) {
    // Dims that the count does not follow are views of one element.
    for (size_t i = 0; i < 3; ++i)
      own_.push_back(elements_.DependsOn(count, index_[i]) ? dims_[i] : graph_.table().Int(1));
    LS_ASSIGN_OR_RETURN(std::optional<uint32_t> last, Emit(count));
    if (!last) return ir::kNoValue;
    LS_ASSIGN_OR_RETURN(ValueId limits,
                        rewrite_.Emit(ops::kPointwise, inputs_,
                                      {{"program", std::move(program_)}, {"dims", own_}}));
    return rewrite_.Expand(limits, dims_);
  }

 private:
  using Slot = std::optional<uint32_t>;

  uint32_t Push(PwInstr instr) {
    program_.code.push_back(instr);
    return static_cast<uint32_t>(program_.code.size() - 1);
  }

  Result<Slot> Emit(Expr e) {
    if (e.is_int()) return Slot(Push({.op = PwOp::kConst, .dtype = DType::kI64, .imm = e.value()}));
    if (elements_.IsUniform(e)) {
      program_.scalars.push_back(elements_.ToGraph(e));
      return Slot(Push({.op = PwOp::kScalar,
                        .dtype = DType::kI64,
                        .imm = static_cast<int64_t>(program_.scalars.size()) - 1}));
    }
    if (e.is_symbol()) {
      for (size_t i = 0; i < 3; ++i)
        if (e == index_[i])
          return Slot(
              Push({.op = PwOp::kIota, .dtype = DType::kI64, .imm = static_cast<int64_t>(i)}));
      return EmitLeaf(*elements_.FindLeaf(e.symbol()));
    }
    const std::optional<PwOp> op = InstructionOf(e.kind());
    if (!op) return Slot();
    LS_ASSIGN_OR_RETURN(Slot result, Emit(e.args()[0]));
    for (Expr arg : e.args().subspan(1)) {
      LS_ASSIGN_OR_RETURN(Slot next, Emit(arg));
      if (!result || !next) return Slot();
      result = Push({.op = *op, .dtype = DType::kI64, .a = *result, .b = *next});
    }
    return result;
  }

  static std::optional<PwOp> InstructionOf(sym::Kind kind) {
    switch (kind) {
      case sym::Kind::kAdd: return PwOp::kAdd;
      case sym::Kind::kMul: return PwOp::kMul;
      case sym::Kind::kMin: return PwOp::kMin;
      case sym::Kind::kMax: return PwOp::kMax;
      case sym::Kind::kFloorDiv: return PwOp::kFloorDiv;
      case sym::Kind::kMod: return PwOp::kRemainder;
      default: return std::nullopt;
    }
  }

  // The leaf's tensor, seen as [B, H, S]: each of its dims follows one of our indices from some offset, or
  // stands still.
  Result<Slot> EmitLeaf(const Elements::Leaf& leaf) {
    ValueId v = leaf.value;
    std::vector<int64_t> follows;  // our index for each dim of the leaf that moves
    Dims moving;
    for (size_t d = 0; d < leaf.at.size(); ++d) {
      const Expr at = leaf.at[d];
      Expr start = at, length = graph_.table().Int(1);
      for (size_t i = 0; i < 3; ++i) {
        if (!elements_.DependsOn(at, index_[i])) continue;
        start = at - index_[i];
        length = dims_[i];
        follows.push_back(static_cast<int64_t>(i));
        moving.push_back(length);
      }
      if (!elements_.IsUniform(start)) return Slot();
      start = elements_.ToGraph(start);
      if (start.is_int(0) && length == graph_.type(v).dims[d]) continue;
      // Of a dim that may be 0 there is no such slice.
      if (graph_.table().IsTrue(Le(start + length, graph_.type(v).dims[d])) != sym::Tri::kYes)
        return Slot();
      // A view that starts at a data-born place would be bound after the shapes.
      if (graph_.table().StageOf(start) != 0) return Slot();
      LS_ASSIGN_OR_RETURN(v, rewrite_.Emit(ops::kSlice, {v},
                                           {{"dim", static_cast<int64_t>(d)},
                                            {"start", Dims{start}},
                                            {"length", Dims{length}},
                                            {"step", int64_t{1}}}));
    }
    for (size_t i = 1; i < follows.size(); ++i)
      if (follows[i] <= follows[i - 1])
        return Slot();  // transposed or diagonal: nobody writes that
    Dims with_ones(3, graph_.table().Int(1));
    for (size_t i = 0; i < follows.size(); ++i)
      with_ones[static_cast<size_t>(follows[i])] = moving[i];
    LS_ASSIGN_OR_RETURN(v, rewrite_.Reshape(v, with_ones));
    LS_ASSIGN_OR_RETURN(v, rewrite_.Expand(v, own_));
    const DType dtype = graph_.type(v).dtype;
    inputs_.push_back(v);
    uint32_t slot =
        Push({.op = PwOp::kLoad, .dtype = dtype, .imm = static_cast<int64_t>(inputs_.size()) - 1});
    if (dtype != DType::kI64) slot = Push({.op = PwOp::kCast, .dtype = DType::kI64, .a = slot});
    return Slot(slot);
  }

  Elements& elements_;
  Rewriter& rewrite_;
  ir::Graph& graph_;
  Expr index_[3];
  Dims dims_, own_;
  ir::PointwiseProgram program_;
  std::vector<ValueId> inputs_;
};

}  // namespace

Result<ValueId> EmitRowLimits(Elements& elements, Rewriter& rewrite, ir::Graph& graph, Expr count,
                              const RowIndices& indices, const Dims& dims) {
  return RowEmitter(elements, rewrite, graph, indices, dims).Run(count);
}

}  // namespace liveshape::passes
