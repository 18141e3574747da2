#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.Out(0), k.In(0)});
  boxes.whole[static_cast<size_t>(l.node->Int("dim"))] = true;
  // max; x - max, exp, sum; times 1 / sum, or minus log(sum).
  const bool log = l.node->IntOr("log", 0) != 0;
  Code code{.name = "softmax"};
  code.per_element[VectorClass::kSimple] = 4;
  code.per_element[VectorClass::kTranscendental] = 1;
  code.per_row[log ? VectorClass::kTranscendental : VectorClass::kDivide] = 1;
  code.lane_reductions = 2;
  // In pieces: maximum, exponentials and sum, rescaled where the maximum grows; then exponentials once more.
  Code gather{.name = "softmax_gather"}, apply{.name = "softmax_apply"};
  gather.per_element[VectorClass::kSimple] = 3;
  gather.per_element[VectorClass::kTranscendental] = 1;
  gather.per_row[VectorClass::kTranscendental] = 1;
  gather.lane_reductions = 2;
  apply.per_element[VectorClass::kSimple] = 2;
  if (log) {
    apply.per_row[VectorClass::kTranscendental] = 1;
  } else {
    apply.per_element[VectorClass::kTranscendental] = 1;
    apply.per_row[VectorClass::kDivide] = 1;
  }
  const DType dtype = l.step.inputs[0].dtype;
  boxes.pieces = Pieces{
      .gather = Pass{gather, SoftmaxGather(dtype)},
      .apply = Pass{apply, SoftmaxApply(dtype, l.node->String("all_masked") == "zero", log)}};
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, code, std::move(values)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kSoftmaxNpu = {.op = &ops::kSoftmax, .lower = Lower};

}  // namespace liveshape::npu
