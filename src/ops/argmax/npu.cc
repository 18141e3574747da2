#include "backends/npu/lower/boxes.h"
#include "ops/ops.h"

namespace liveshape::npu {
namespace {

Status Lower(const Lowering& l, std::vector<Kernel>& kernels) {
  KernelBuilder k(l);
  Boxes boxes = SameBoxes({k.In(0)});
  boxes.whole[static_cast<size_t>(l.node->Int("dim"))] = true;
  BoxOperand out{k.Out(0), {}};
  for (size_t d = 0; d < boxes.dims.size(); ++d) {
    if (!boxes.whole[d]) out.dims.push_back(static_cast<int>(d));
    if (boxes.whole[d] && l.node->Int("keepdim")) out.dims.push_back(kNoDim);
  }
  boxes.operands.insert(boxes.operands.begin(), std::move(out));
  Code code{.name = "arg" + l.node->String("kind")};
  code.per_element[VectorClass::kSimple] = 2;  // compare, and keep the index
  code.lane_reductions = 1;
  Code finish{.name = code.name + "_finish"};
  finish.per_element[VectorClass::kSimple] = 1;
  boxes.pieces = Pieces{
      .gather = Pass{code, ArgGather(l.step.inputs[0].dtype, l.node->String("kind") == "max")},
      .finish = Pass{finish, ArgFinish()}};
  LS_ASSIGN_OR_RETURN(ValueFunction values, CpuValues(l, boxes));
  LS_RETURN_IF_ERROR(LowerBoxes(k, boxes, code, std::move(values)));
  return k.Finish(kernels);
}

}  // namespace

extern const NpuOp kArgmaxNpu = {.op = &ops::kArgmax, .lower = Lower};

}  // namespace liveshape::npu
