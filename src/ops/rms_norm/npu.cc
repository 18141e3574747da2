#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// x squared and summed; times 1 / root of the mean, and weight.
Code MakeCode(const Lowering& l) {
  Code code{.name = "rms_norm"};
  code.per_element[VectorClass::kSimple] = 2;
  code.per_row[VectorClass::kSimple] = 2;
  code.per_row[VectorClass::kDivide] = 2;
  code.lane_reductions = 1;
  if (l.has(1)) code.per_element[VectorClass::kSimple] += 1;
  return code;
}

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.Out(0), k.In(0)});
  const int last = static_cast<int>(boxes.dims.size()) - 1;
  boxes.whole.back() = true;
  if (l.has(1)) boxes.operands.push_back({k.In(1), {last}});
  Code gather{.name = "rms_norm_gather"}, apply{.name = "rms_norm_apply"};
  gather.per_element[VectorClass::kSimple] = 1;
  gather.lane_reductions = 1;
  apply.per_element[VectorClass::kSimple] = l.has(1) ? 2 : 1;
  apply.per_row[VectorClass::kDivide] = 2;
  const DType dtype = l.step.inputs[0].dtype;
  boxes.pieces = Pieces{.gather = Pass{gather, RmsGather(dtype)},
                        .apply = Pass{apply, RmsApply(dtype, l.node->Float("eps"), l.has(1))}};
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, MakeCode(l), std::move(values)));
  return k.Finish(kernels);
}

Result<std::optional<Stage>> StageOf(const Lowering& l) { return RowStage(l, MakeCode(l)); }

}  // namespace

extern const NpuOp kRmsNormNpu = {.op = &ops::kRmsNorm, .lower = Lower, .stage = StageOf};

}  // namespace liveshape::npu
