#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

// Two passes over the row: its sum; x - mean, squared and summed. Then times 1 / deviation, weight and bias.
Code MakeCode(const Lowering& l) {
  Code code{.name = "layer_norm"};
  code.per_element[VectorClass::kSimple] = 4;
  code.per_row[VectorClass::kSimple] = 2;
  code.per_row[VectorClass::kDivide] = 2;
  code.lane_reductions = 2;
  for (size_t i : {1, 2})
    if (l.has(i)) code.per_element[VectorClass::kSimple] += 1;
  return code;
}

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.Out(0), k.In(0)});
  const int last = static_cast<int>(boxes.dims.size()) - 1;
  boxes.whole.back() = true;
  for (size_t i : {1, 2})
    if (l.has(i)) boxes.operands.push_back({k.In(i), {last}});
  // In pieces: mean and squared distances of each are merged into those of the row.
  Code gather{.name = "layer_norm_gather"}, apply{.name = "layer_norm_apply"};
  gather.per_element[VectorClass::kSimple] = 3;
  gather.per_row[VectorClass::kSimple] = 6;
  gather.per_row[VectorClass::kDivide] = 2;
  gather.lane_reductions = 2;
  apply.per_element[VectorClass::kSimple] = static_cast<float>(2 + l.has(1) + l.has(2));
  apply.per_row[VectorClass::kDivide] = 2;
  const DType dtype = l.step.inputs[0].dtype;
  boxes.pieces =
      Pieces{.gather = Pass{gather, LayerGather(dtype)},
             .apply = Pass{apply, LayerApply(dtype, l.node->Float("eps"), l.has(1), l.has(2))}};
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, MakeCode(l), std::move(values)));
  return k.Finish(kernels);
}

Result<std::optional<Stage>> StageOf(const Lowering& l) { return RowStage(l, MakeCode(l)); }

}  // namespace

extern const NpuOp kLayerNormNpu = {.op = &ops::kLayerNorm, .lower = Lower, .stage = StageOf};

}  // namespace liveshape::npu
