// Rows that are longer than the scratchpad, a piece after the other: what an op of boxes.h does at the live sizes at which
// a row does not fit.
//
//   gather   every piece of the row: folded into a state that the item keeps (a maximum and a sum, say)
//   finish   a result that does not span the row (a sum): made of the state
//   apply    a result that does: every piece is loaded once more; result, state and inputs
//
// Records: extents [rows, length of the piece]; operands as below. Arguments: PieceNumbers.
#pragma once

#include "backends/npu/lower/builder.h"

namespace liveshape::npu {

// How a piece lies in the scratchpad: element l of row (o, i) at (o * length + l) * inner + i.
struct PieceNumbers {
  int64_t outer, length, inner;
  int64_t first;  // 1: the state begins here
  int64_t start;  // along the row
  int64_t total;  // elements of the row
  static PieceNumbers Of(const ls_trace_compute& record) {
    const int64_t* const a = record.argument;
    return {a[0], a[1], a[2], a[3], a[4], a[5]};
  }
};

// Of a row, whatever the op makes of it.
struct PieceState { double a, b, c, d; };

struct Pass {
  Code code;
  ValueFunction values;
};

struct Pieces {
  std::optional<Pass> gather = {};  // state, x
  std::optional<Pass> finish = {};  // result, state
  std::optional<Pass> apply =
      {};  // result, state, inputs; without a gather it also carries the state on
};

// Values; x is input 0 of the node.
ValueFunction SoftmaxGather(DType x);
ValueFunction SoftmaxApply(DType x, bool masked_zero, bool log);
ValueFunction RmsGather(DType x);
ValueFunction RmsApply(DType x, double eps, bool weight);
ValueFunction LayerGather(DType x);
ValueFunction LayerApply(DType x, double eps, bool weight, bool bias);
ValueFunction CumsumApply(DType x, DType out);
ValueFunction ReduceGather(DType x, const std::string& kind);
ValueFunction ReduceFinish(DType x, DType out, const std::string& kind);
ValueFunction ArgGather(DType x, bool largest);
ValueFunction ArgFinish();

}  // namespace liveshape::npu
