// Tiles that are boxes of an op's operands: whole along the dims that the op works on (the row of a softmax, the dims
// that a reduction drops), cut along the others. One tile, one compute.
//
//   Boxes boxes;
//   boxes.dims = x.dims;                                       // the space that is walked
//   boxes.whole = {false, false, true};
//   boxes.operands = {{y, {0, 1, 2}}, {x, {0, 1, 2}}, {weight, {2}}};    // output first; which dim of the space each has
//   LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, code, values));
#pragma once

#include "backends/npu/lower/pieces.h"

namespace liveshape::npu {

inline constexpr int kNoDim = -1;  // a dim of extent 1

struct BoxOperand {
  View view;
  std::vector<int> dims;  // by dim of the view: the dim of the space it follows, or kNoDim
};

struct Boxes {
  std::vector<Expr> dims = {};
  std::vector<bool> whole = {};
  std::vector<BoxOperand> operands = {};
  size_t outputs = 1;
  Expr work = {};  // what a row costs, in elements; none: the extents of the dims that are whole
  bool guarded = false;  // rows fit wherever this kernel runs (Lowering::when)
  std::optional<Pieces> pieces =
      {};  // at the live sizes at which a row does not fit; none: that is refused
};

// The most elements of a row, of operands that take so many bytes an element together.
int64_t RowCapacity(const Target& target, int64_t bytes);

// `fit` where the condition, over the graph's symbols, holds at the live sizes, `other` elsewhere: of the two kernels one
// runs.
using LowerFunction = std::function<Status(const Lowering& l, std::vector<Kernel>& kernels)>;
Status LowerEither(const Lowering& l, Expr fits, const LowerFunction& fit,
                   const LowerFunction& other, std::vector<Kernel>& kernels);

// Of operands that all have the dims of the first, nothing whole.
Boxes SameBoxes(std::vector<View> operands);

// The record has the extents [elements cut, work of a row] and, as arguments, the live extents of the space. `--tile N`
// cuts off N rows at most.
Status LowerBoxes(KernelBuilder& k, const Boxes& boxes, Code code, ValueFunction values);

// What the CPU's kernel of this node computes, on the box in the scratchpad.
Result<ValueFunction> CpuValues(const Lowering& l, const Boxes& boxes);

// The same on a tile of whole rows: of its first input, the others being vectors along it.
Result<std::optional<Stage>> RowStage(const Lowering& l, Code code);

}  // namespace liveshape::npu
