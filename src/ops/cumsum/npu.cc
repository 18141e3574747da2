#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.Out(0), k.In(0)});
  boxes.whole[static_cast<size_t>(l.node->Int("dim"))] = true;
  // A scan across 128 lanes takes log2(128) shifted additions an element.
  Code code{.name = "cumsum"};
  code.per_element[VectorClass::kSimple] = 7;
  boxes.pieces =
      Pieces{.apply = Pass{code, CumsumApply(l.step.inputs[0].dtype, l.step.outputs[0].dtype)}};
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, code, std::move(values)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kCumsumNpu = {.op = &ops::kCumsum, .lower = Lower};

}  // namespace liveshape::npu
